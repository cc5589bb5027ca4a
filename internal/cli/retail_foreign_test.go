//go:build full

package cli

import "github.com/parquet-go/parquet-go"

func appendSegment(log []sale, file string) ([]sale, error) {
	type row struct {
		Partition  int64   `parquet:"kafka_partition"`
		Offset     int64   `parquet:"kafka_offset"`
		Logged     int64   `parquet:"kafka_timestamp,timestamp(millisecond)"`
		ID         string  `parquet:"event_id"`
		OccurredAt int64   `parquet:"occurred_at,timestamp(millisecond)"`
		Version    int64   `parquet:"version"`
		Kind       string  `parquet:"kind"`
		Invoice    string  `parquet:"invoice_no"`
		Stock      string  `parquet:"stock_code"`
		Text       string  `parquet:"description"`
		Quantity   int64   `parquet:"quantity"`
		Price      int64   `parquet:"unit_price_mills"`
		Account    *string `parquet:"account_id"`
		Country    string  `parquet:"country"`
	}
	rows, err := parquet.ReadFile[row](file)
	for _, r := range rows {
		s := sale{
			partition: int32(r.Partition), offset: r.Offset, logged: r.Logged, at: r.OccurredAt, id: r.ID, version: r.Version, kind: r.Kind, invoice: r.Invoice,
			stock: r.Stock, text: r.Text, quantity: r.Quantity, price: r.Price, country: r.Country,
		}
		if r.Account != nil {
			s.account = *r.Account
		}
		log = append(log, s)
	}
	return log, err
}
