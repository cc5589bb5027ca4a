// Package sourcetest makes small logs, writes them as exporters do, and holds
// readers to what [source.Reader] promises.
package sourcetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"hindcast/internal/blob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/source"
	"hindcast/internal/unit"
)

// Topic is the name of every log here.
const Topic = "payments"

// Row is a record. Nil pointers are nulls.
type Row struct {
	Partition int32
	Offset    int64
	Time      int64 // record time, in microseconds

	ID      string
	At      *int64 // event time, in microseconds
	Amount  int64
	Country *string
	// Error says why a captured record has no event; empty where it has.
	Error string
}

// String renders the row, so that two are easily compared.
func (r Row) String() string {
	at, country := "null", "null"
	if r.At != nil {
		at = fmt.Sprint(*r.At)
	}
	if r.Country != nil {
		country = fmt.Sprintf("%q", *r.Country)
	}
	return fmt.Sprintf("%d/%d time=%d id=%q at=%s amount=%d country=%s error=%q", r.Partition, r.Offset, r.Time, r.ID, at, r.Amount, country, r.Error)
}

// Schema has the event's columns.
func Schema() record.Schema {
	return record.Schema{
		{Name: "id", Kind: record.String},
		{Name: "at", Kind: record.Timestamp, Nullable: true},
		{Name: "amount", Kind: record.Int64},
		{Name: "country", Kind: record.String, Nullable: true},
	}
}

// Event is the record at an offset: always the same one. A second passes from one offset to the next; some have nulls.
func Event(partition int32, offset int64) Row {
	at := (offset + int64(partition)) * 1_000_000
	r := Row{Partition: partition, Offset: offset, Time: at + 2_000_000, ID: fmt.Sprintf("p%d-%d", partition, offset), Amount: offset*7 - 100}
	if offset%11 != 3 {
		r.At = &at
	}
	if offset%5 != 1 {
		country := fmt.Sprintf("country-%d", offset%13)
		r.Country = &country
	}
	return r
}

// Events are the records at the given offsets.
func Events(partition int32, offsets plan.Ranges) []Row {
	var rows []Row
	for o := range offsets.All() {
		rows = append(rows, Event(partition, o))
	}
	return rows
}

// Batch renders rows in columns: partition, offset and record time, then those of [Schema], and for
// captured rows [source.ErrorColumn].
func Batch(rows []Row, captured bool) (record.Schema, *record.Batch) {
	c := source.CapturedColumns
	schema := append(record.Schema{
		{Name: c.Partition, Kind: record.Int64}, {Name: c.Offset, Kind: record.Int64}, {Name: c.Time, Kind: record.Timestamp},
	}, Schema()...)
	if captured {
		schema = append(schema, record.Field{Name: source.ErrorColumn, Kind: record.String, Nullable: true})
	}
	b := &record.Batch{Len: len(rows), Columns: make([]record.Column, len(schema))}
	for i, f := range schema {
		b.Columns[i].Kind = f.Kind
		if f.Nullable {
			b.Columns[i].Nulls = record.NewBitmap(len(rows))
		}
	}
	for i, r := range rows {
		b.Columns[0].Int64s = append(b.Columns[0].Int64s, int64(r.Partition))
		b.Columns[1].Int64s = append(b.Columns[1].Int64s, r.Offset)
		b.Columns[2].Int64s = append(b.Columns[2].Int64s, r.Time)
		b.Columns[3].Strings.Append([]byte(r.ID))
		at, country := int64(0), ""
		if r.At != nil {
			at = *r.At
		} else {
			b.Columns[4].Nulls.Set(i)
		}
		if r.Country != nil {
			country = *r.Country
		} else {
			b.Columns[6].Nulls.Set(i)
		}
		b.Columns[4].Int64s = append(b.Columns[4].Int64s, at)
		b.Columns[5].Int64s = append(b.Columns[5].Int64s, r.Amount)
		b.Columns[6].Strings.Append([]byte(country))
		if captured {
			if r.Error == "" {
				b.Columns[7].Nulls.Set(i)
			}
			b.Columns[7].Strings.Append([]byte(r.Error))
		}
	}
	return schema, b
}

// File renders rows as a Parquet file.
func File(tb testing.TB, rows []Row, captured bool, opts parquetfile.WriterOptions) []byte {
	tb.Helper()
	schema, b := Batch(rows, captured)
	return Parquet(tb, schema, b, opts)
}

// Parquet renders a batch as a Parquet file.
func Parquet(tb testing.TB, schema record.Schema, b *record.Batch, opts parquetfile.WriterOptions) []byte {
	tb.Helper()
	var buf bytes.Buffer
	w, err := parquetfile.NewWriter(&buf, schema, opts)
	if err == nil {
		err = w.Write(b)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		tb.Fatal(err)
	}
	return buf.Bytes()
}

// Key names a segment as Kafka Connect does.
func Key(partition int32, first int64) string {
	return fmt.Sprintf("topics/%s/partition=%d/%s+%d+%010d.zstd.parquet", Topic, partition, Topic, partition, first)
}

// Put stores an object.
func Put(tb testing.TB, store blob.Store, key string, data []byte) blob.Info {
	tb.Helper()
	info, err := blob.PutBytes(tb.Context(), store, key, data, blob.Condition{})
	if err != nil {
		tb.Fatal(err)
	}
	return info
}

// Input puts rows as a segment and returns the input that reads all of it.
func Input(tb testing.TB, store blob.Store, key string, rows []Row, captured bool, opts parquetfile.WriterOptions) plan.Input {
	tb.Helper()
	data := File(tb, rows, captured, opts)
	info := Put(tb, store, key, data)
	f, err := parquetfile.Open(bytes.NewReader(data), int64(len(data)), key)
	if err != nil {
		tb.Fatal(err)
	}
	in := plan.Input{Segment: key, ETag: info.ETag, Size: unit.Bytes(info.Size), Captured: captured, Rows: f.Rows()}
	if len(rows) > 0 {
		in.Partition = rows[0].Partition
	}
	for i := range f.RowGroups() {
		in.RowGroups = append(in.RowGroups, i)
	}
	return in
}

// Drain reads all rows of r, which yields [Schema], and closes it. Whatever breaks a promise of [source.Reader] fails the test.
func Drain(tb testing.TB, r source.Reader) []Row {
	tb.Helper()
	rows, err := Read(tb, r)
	if err != nil {
		tb.Fatal(err)
	}
	if err := r.Close(); err != nil {
		tb.Fatalf("close: %v", err)
	}
	return rows
}

// Read is Drain up to the error that ends r.
func Read(tb testing.TB, r source.Reader) ([]Row, error) {
	tb.Helper()
	ctx := context.Background()
	var rows []Row
	for {
		p, b, err := r.Next(ctx)
		if err != nil {
			if _, _, again := r.Next(ctx); again == nil {
				tb.Fatalf("after %v the reader goes on", err)
			}
			if errors.Is(err, io.EOF) {
				return rows, nil
			}
			return rows, err
		}
		checkShape(tb, b)
		for i := range b.Len {
			row := rowOf(p, b, i)
			if n := len(rows); n > 0 && (rows[n-1].Partition > p || rows[n-1].Partition == p && rows[n-1].Offset >= row.Offset) {
				tb.Fatalf("%v follows %v", row, rows[n-1])
			}
			rows = append(rows, row)
		}
	}
}

func checkShape(tb testing.TB, b *record.Batch) {
	tb.Helper()
	want := append(Schema(), record.Field{Name: source.ErrorColumn, Kind: record.String, Nullable: true})
	switch {
	case b.Len == 0:
		tb.Fatal("a batch without rows")
	case len(b.Offsets) != b.Len || b.RecordTimes != nil && len(b.RecordTimes) != b.Len:
		tb.Fatalf("%d rows with %d offsets and %d record times", b.Len, len(b.Offsets), len(b.RecordTimes))
	case len(b.Columns) != len(want):
		tb.Fatalf("%d columns, want %d", len(b.Columns), len(want))
	}
	for i, f := range want {
		if b.Columns[i].Kind != f.Kind {
			tb.Fatalf("column %s holds %v, want %v", f.Name, b.Columns[i].Kind, f.Kind)
		}
	}
}

func rowOf(p int32, b *record.Batch, i int) Row {
	r := Row{Partition: p, Offset: b.Offsets[i], ID: string(b.Columns[0].Strings.At(i)), Amount: b.Columns[2].Int64s[i]}
	if b.RecordTimes != nil {
		r.Time = b.RecordTimes[i]
	}
	if c := &b.Columns[1]; !c.Nulls.Get(i) {
		at := c.Int64s[i]
		r.At = &at
	}
	if c := &b.Columns[3]; !c.Nulls.Get(i) {
		s := string(c.Strings.At(i))
		r.Country = &s
	}
	if c := &b.Columns[4]; !c.Nulls.Get(i) {
		r.Error = string(c.Strings.At(i))
	}
	return r
}

// Equal fails the test unless both have the same rows in the same order.
func Equal(tb testing.TB, got, want []Row) {
	tb.Helper()
	for i := range min(len(got), len(want)) {
		if g, w := got[i].String(), want[i].String(); g != w {
			tb.Fatalf("row %d is\n%s, want\n%s", i, g, w)
		}
	}
	if len(got) != len(want) {
		tb.Fatalf("%d rows, want %d", len(got), len(want))
	}
}
