package tailsrc

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"hindcast/internal/payload"
	"hindcast/internal/record"
	"hindcast/internal/source"
)

// kafkaColumns is how many columns stand before the event's.
const kafkaColumns = 3

// captured returns the columns of a captured segment of events with the given columns.
func captured(event record.Schema) (record.Schema, error) {
	out := record.Schema{
		{Name: source.CapturedColumns.Partition, Kind: record.Int64},
		{Name: source.CapturedColumns.Offset, Kind: record.Int64},
		{Name: source.CapturedColumns.Time, Kind: record.Timestamp},
	}
	for _, f := range payload.Schema(event, source.ErrorColumn) {
		if out.Index(f.Name) >= 0 {
			return nil, fmt.Errorf("the event has a column %q twice, or it is one of Hindcast's own", f.Name)
		}
		out = append(out, f)
	}
	return out, nil
}

// rows are records on their way into a segment.
type rows struct {
	partition int64
	batch     record.Batch // columns as captured has them
	bytes     int          // of the values that the rows came from
	decoder   *payload.Decoder
}

func newRows(schema record.Schema, partition int32, decoder *payload.Decoder) *rows {
	r := &rows{partition: int64(partition), decoder: decoder}
	r.batch.Columns = make([]record.Column, len(schema))
	for i, f := range schema {
		r.batch.Columns[i].Kind = f.Kind
	}
	return r
}

// add appends a record. A value that cannot be read is a row, too; the error is the schema registry's.
func (r *rows) add(ctx context.Context, rec *kgo.Record) error {
	if err := r.decoder.Append(ctx, r.batch.Columns[kafkaColumns:], r.batch.Len, rec.Value); err != nil {
		return fmt.Errorf("offset %d: %w", rec.Offset, err)
	}
	r.batch.Len++
	r.bytes += len(rec.Value)
	for i, v := range []int64{r.partition, rec.Offset, rec.Timestamp.UnixMicro()} {
		r.batch.Columns[i].Int64s = append(r.batch.Columns[i].Int64s, v)
	}
	return nil
}
