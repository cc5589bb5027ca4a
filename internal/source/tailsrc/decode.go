package tailsrc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

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
	for _, f := range append(slices.Clip(event), record.Field{Name: source.ErrorColumn, Kind: record.String}) {
		if out.Index(f.Name) >= 0 {
			return nil, fmt.Errorf("the event has a column %q twice, or it is one of Hindcast's own", f.Name)
		}
		f.Nullable = true // an unreadable value has none of them
		out = append(out, f)
	}
	return out, nil
}

// rows are records on their way into a segment.
type rows struct {
	event     record.Schema
	partition int64
	batch     record.Batch // columns as captured has them
	bytes     int          // of the values that the rows came from
	index     map[string]int
	cells     []cell // of the event's columns, for the current record
}

// cell is one value of an event.
type cell struct {
	set   bool // the member was there
	null  bool
	num   int64
	float float64
	text  string
}

func newRows(event record.Schema, partition int32) (*rows, error) {
	schema, err := captured(event)
	if err != nil {
		return nil, err
	}
	r := &rows{event: event, partition: int64(partition), index: map[string]int{}, cells: make([]cell, len(event))}
	r.batch.Columns = make([]record.Column, len(schema))
	for i, f := range schema {
		r.batch.Columns[i].Kind = f.Kind
	}
	for i, f := range event {
		r.index[f.Name] = i
	}
	return r, nil
}

// add appends a record. A value that cannot be read is a row, too.
func (r *rows) add(rec *kgo.Record) {
	reason := r.decode(rec.Value)
	row := r.batch.Len
	r.batch.Len++
	r.bytes += len(rec.Value)
	for i, v := range []int64{r.partition, rec.Offset, rec.Timestamp.UnixMicro()} {
		r.batch.Columns[i].Int64s = append(r.batch.Columns[i].Int64s, v)
	}
	for i, f := range r.event {
		c := r.cells[i]
		if reason != nil {
			c = cell{}
		}
		col := &r.batch.Columns[kafkaColumns+i]
		setNull(col, row, reason != nil || c.null)
		switch f.Kind {
		case record.String:
			col.Strings.Append([]byte(c.text))
		case record.Float64:
			col.Float64s = append(col.Float64s, c.float)
		default:
			col.Int64s = append(col.Int64s, c.num)
		}
	}
	text := ""
	if reason != nil {
		text = reason.Error()
	}
	col := &r.batch.Columns[len(r.batch.Columns)-1]
	setNull(col, row, reason == nil)
	col.Strings.Append([]byte(text))
}

func setNull(c *record.Column, row int, null bool) {
	if row>>6 == len(c.Nulls) {
		c.Nulls = append(c.Nulls, 0)
	}
	if null {
		c.Nulls.Set(row)
	}
}

// decode fills cells. The error is for people: it goes into [source.ErrorColumn].
func (r *rows) decode(value []byte) error {
	clear(r.cells)
	if value == nil {
		return errors.New("the record has no value (a tombstone)")
	}
	err := members(value, func(name string, value []byte) error {
		i, ok := r.index[name]
		if !ok {
			return nil
		}
		if r.cells[i].set {
			return fmt.Errorf("%s: it is there twice", name)
		}
		if err := r.cells[i].parse(r.event[i].Kind, value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		const registry = 5 // a zero byte and a schema's number
		if len(value) > registry && value[0] == 0 {
			err = fmt.Errorf("%w; it begins as values of a schema registry do, and only plain JSON is read", err)
		}
		return err
	}
	for i, f := range r.event {
		c := &r.cells[i]
		switch {
		case c.set && !c.null:
		case f.Nullable:
			c.null = true
		case c.set:
			return fmt.Errorf("%s: it is null, expected %s", f.Name, expected(f.Kind))
		default:
			return fmt.Errorf("%s: it is missing, expected %s", f.Name, expected(f.Kind))
		}
	}
	return nil
}

// parse reads a member's value, exactly or not at all.
func (c *cell) parse(kind record.Kind, value []byte) error {
	c.set = true
	if string(value) == "null" {
		c.null = true
		return nil
	}
	wrong := func() error { return fmt.Errorf("it is %s, expected %s", describeJSON(value), expected(kind)) }
	if (value[0] == '"') != (kind == record.String || kind == record.Timestamp || kind == record.Date) {
		return wrong()
	}
	var err error
	if value[0] == '"' {
		if c.text, err = unquote(value); err != nil {
			return err
		}
	}
	switch kind {
	case record.String:
	case record.Timestamp:
		t, err := time.Parse(time.RFC3339, c.text)
		if err != nil {
			return wrong()
		}
		c.num = t.UnixMicro() // floors
	case record.Date:
		t, err := time.Parse(time.DateOnly, c.text)
		if err != nil {
			return wrong()
		}
		c.num = t.Unix() / (24 * 60 * 60) // exact: it is midnight
	case record.Bool:
		if c.num = 0; value[0] == 't' {
			c.num = 1
		} else if value[0] != 'f' {
			return wrong()
		}
	case record.Int64:
		// ParseInt takes what JSON calls a number only if it has neither a fraction nor an exponent.
		if c.num, err = strconv.ParseInt(string(value), 10, 64); err != nil {
			return wrong()
		}
	case record.Float64:
		if bytes.IndexByte([]byte("-0123456789"), value[0]) < 0 {
			return wrong()
		}
		if c.float, err = strconv.ParseFloat(string(value), 64); err != nil {
			return wrong()
		}
	default:
		return fmt.Errorf("values of kind %v are not read from JSON", kind)
	}
	return nil
}

func expected(kind record.Kind) string {
	switch kind {
	case record.String:
		return "a string"
	case record.Timestamp:
		return `an RFC 3339 time with its zone, as "2011-11-01T08:26:00Z"`
	case record.Date:
		return `a date, as "2011-11-01"`
	case record.Bool:
		return "true or false"
	case record.Int64:
		return "an integer of 64 bits"
	default:
		return "a number"
	}
}
