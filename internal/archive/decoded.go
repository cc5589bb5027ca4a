package archive

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"hindcast/internal/payload"
	"hindcast/internal/record"
	"hindcast/internal/source"
)

// Decoded keeps the columns that an event's value decodes to, and not the bytes. A value that cannot be read exactly ends the call with an error
// that says why: a raw archive keeps such values.
func Decoded(event record.Schema, opts payload.Options) (Columns, error) {
	d, err := payload.New(event, opts)
	if err != nil {
		return nil, err
	}
	by, err := opts.Applied()
	if err != nil {
		return nil, err
	}
	return &decoded{event, d, map[string]string{payload.AppliedKey: by}}, nil
}

type decoded struct {
	event   record.Schema
	decoder *payload.Decoder
	noted   map[string]string
}

// Schema has the event's columns, all nullable.
func (d *decoded) Schema() record.Schema {
	event := payload.Schema(d.event, source.ErrorColumn)
	return append(kafkaSchema(), event[:len(d.event)]...)
}

func (d *decoded) rows(partition int32) *rows {
	out := newRows(d.Schema(), partition)
	// The decoder fills one column more, with why a value could not be read.
	all := append(out.batch.Columns, record.Column{Kind: record.String})
	out.batch.Columns = all[:len(all)-1]
	out.noted = d.noted
	out.event = func(ctx context.Context, r *kgo.Record) error {
		if err := d.decoder.Append(ctx, all[3:], out.batch.Len, r.Value); err != nil {
			return err
		}
		why := &all[len(all)-1]
		if !why.Nulls.Get(out.batch.Len) {
			return fmt.Errorf("the value cannot be read: %s: archive without --job, which keeps values as they are", why.Strings.At(out.batch.Len))
		}
		out.size += len(r.Value)
		return nil
	}
	return out
}
