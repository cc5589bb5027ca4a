package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"hindcast/internal/parquetfile"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/source"
	"hindcast/internal/source/parquetsrc"
)

// Columns are what is kept of a record, after [source.CapturedColumns].
type Columns interface {
	// Schema has all columns.
	Schema() record.Schema
	// rows starts a segment of a partition.
	rows(partition int32) *rows
}

// The columns of a raw archive.
const (
	KeyColumn     = "key"     // the bytes as they are; null where the record has none
	ValueColumn   = "value"   // the same; null is a tombstone
	HeadersColumn = "headers" // a JSON array of {"key", "value"}, in order, the value in base64 or null; null where there are no headers
)

// Raw keeps records as they are: key and value as bytes, headers as JSON.
func Raw() Columns { return raw{} }

type raw struct{}

func (raw) Schema() record.Schema {
	return append(kafkaSchema(),
		record.Field{Name: KeyColumn, Kind: record.String, Nullable: true},
		record.Field{Name: ValueColumn, Kind: record.String, Nullable: true},
		record.Field{Name: HeadersColumn, Kind: record.String, Nullable: true},
	)
}

func kafkaSchema() record.Schema {
	cols := source.CapturedColumns
	return record.Schema{
		{Name: cols.Partition, Kind: record.Int64}, {Name: cols.Offset, Kind: record.Int64}, {Name: cols.Time, Kind: record.Timestamp},
	}
}

func (c raw) rows(partition int32) *rows {
	out := newRows(c.Schema(), partition)
	out.binary = []string{KeyColumn, ValueColumn}
	out.event = func(_ context.Context, r *kgo.Record) error {
		out.bytes(3, r.Key)
		out.bytes(4, r.Value)
		headers, err := encodeHeaders(r.Headers)
		out.bytes(5, headers)
		return err
	}
	return out
}

// encodeHeaders writes headers as JSON; nil where there are none. A header's key is text by Kafka's protocol; one that is not is kept under key_base64.
func encodeHeaders(headers []kgo.RecordHeader) ([]byte, error) {
	type header struct {
		Key   *string `json:"key,omitempty"`
		Bytes []byte  `json:"key_base64,omitempty"`
		Value []byte  `json:"value"` // base64; null where there is none
	}
	if len(headers) == 0 {
		return nil, nil
	}
	list := make([]header, len(headers))
	for i, h := range headers {
		if utf8.ValidString(h.Key) {
			list[i].Key = &h.Key
		} else {
			list[i].Bytes = []byte(h.Key)
		}
		list[i].Value = h.Value
	}
	return json.Marshal(list)
}

// rows are those of the segment that is being built.
type rows struct {
	schema    record.Schema
	partition int64
	batch     record.Batch
	size      int                                            // bytes of values
	binary    []string                                       // columns of any bytes
	event     func(ctx context.Context, r *kgo.Record) error // appends what follows Kafka's columns
	noted     map[string]string                              // for the footer
}

func newRows(schema record.Schema, partition int32) *rows {
	r := &rows{schema: schema, partition: int64(partition)}
	for _, f := range schema {
		r.batch.Columns = append(r.batch.Columns, record.Column{Kind: f.Kind})
	}
	return r
}

func (r *rows) full(records int) bool { return r.batch.Len >= records || r.size >= segmentBytes }

// first is the offset of the first row; if there is none, that where the segment begins.
func (r *rows) first(begin int64) int64 {
	if r.batch.Len == 0 {
		return begin
	}
	return r.batch.Columns[1].Int64s[0]
}

func (r *rows) add(ctx context.Context, rec *kgo.Record) error {
	c := r.batch.Columns
	c[0].Int64s = append(c[0].Int64s, r.partition)
	c[1].Int64s = append(c[1].Int64s, rec.Offset)
	c[2].Int64s = append(c[2].Int64s, rec.Timestamp.UnixMilli()*1000)
	if err := r.event(ctx, rec); err != nil {
		return err
	}
	r.batch.Len++
	return nil
}

// bytes appends a value to a String column; nil is null.
func (r *rows) bytes(column int, v []byte) {
	c := &r.batch.Columns[column]
	if v == nil {
		for len(c.Nulls)*64 <= r.batch.Len {
			c.Nulls = append(c.Nulls, 0)
		}
		c.Nulls.Set(r.batch.Len)
	}
	c.Strings.Append(v)
	r.size += len(v)
}

// encode writes the rows as a file that says which offsets were copied into it.
func (a *archiver) encode(r *rows, copied plan.Range, epoch int32) ([]byte, error) {
	for i := range r.batch.Columns {
		if c := &r.batch.Columns[i]; c.Nulls != nil {
			for len(c.Nulls)*64 < r.batch.Len {
				c.Nulls = append(c.Nulls, 0)
			}
		}
	}
	cols := source.CapturedColumns
	encodings := map[string]parquetfile.Encoding{cols.Offset: parquetfile.Delta}
	if r.schema.Index(ValueColumn) >= 0 {
		encodings[ValueColumn] = parquetfile.Plain
	}
	keyValue := map[string]string{
		parquetsrc.RangeKey: copied.String(), parquetsrc.TopicKey: a.Topic, parquetsrc.TopicIDKey: a.TopicID, parquetsrc.EpochKey: strconv.Itoa(int(epoch)),
	}
	maps.Copy(keyValue, r.noted)
	var buf bytes.Buffer
	w, err := parquetfile.NewWriter(&buf, r.schema, parquetfile.WriterOptions{
		RowGroupRows: rowGroupRows, Encodings: encodings, Millis: []string{cols.Time}, Binary: r.binary,
		KeyValue: keyValue,
	})
	if err != nil {
		return nil, err
	}
	if err := w.Write(&r.batch); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
