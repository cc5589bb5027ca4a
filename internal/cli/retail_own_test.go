//go:build !full

package cli

import (
	"bytes"
	"errors"
	"io"
	"os"

	"hindcast/internal/parquetfile"
)

func appendSegment(log []sale, file string) ([]sale, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	f, err := parquetfile.Open(bytes.NewReader(data), int64(len(data)), file)
	if err != nil {
		return nil, err
	}
	columns := []string{
		"kafka_partition", "kafka_offset", "kafka_timestamp", "occurred_at", "version", "quantity", "unit_price_mills",
		"event_id", "kind", "invoice_no", "stock_code", "description", "account_id", "country",
	}
	for in := f.Read(parquetfile.ReadOptions{Columns: columns}); ; {
		b, err := in.Next()
		if errors.Is(err, io.EOF) {
			return log, nil
		}
		if err != nil {
			return nil, err
		}
		for row := range b.Len {
			number := func(i int) int64 { return b.Columns[i].Int64s[row] }
			text := func(i int) string { // empty for null
				if b.Columns[i].Nulls.Get(row) {
					return ""
				}
				return string(b.Columns[i].Strings.At(row))
			}
			log = append(log, sale{
				partition: int32(number(0)), offset: number(1), logged: number(2) / 1000, at: number(3) / 1000, version: number(4), quantity: number(5), price: number(6),
				id: text(7), kind: text(8), invoice: text(9), stock: text(10), text: text(11), account: text(12), country: text(13),
			})
		}
	}
}
