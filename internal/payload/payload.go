// Package payload turns encoded events into columns: JSON objects, and Avro records with their schema in a file or in a registry.
//
// It owns what a field of an event becomes: exactly the value that was written, in the column's kind, or a sentence that says why
// not. It also owns how a column is found in events of any age: by its name, by those that it had before, by what a job's upcasts say; for
// segments with typed columns as well, see [Names].
//
// A value that cannot be decoded is no error: it becomes a row of nulls whose last column says why, so that no poison event ends a run.
// Errors are for what is no event's fault: a registry that does not answer.
package payload

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"hindcast/internal/record"
	"hindcast/internal/spec"
)

// Options say how values are encoded, and what the job says of the events in them.
type Options struct {
	Format spec.ValueFormat
	// Columns are rules for columns, by their names, and Upcasts what makes old events look like current ones.
	Columns map[string]spec.Column
	Upcasts []spec.Upcast
	// Schema is that of Avro values that bear no schema id. Where it is empty they begin with one, and Registry knows the schema.
	Schema   string
	Registry *Registry
}

// OptionsOf are those of a job whose values are in a format.
func OptionsOf(src spec.Source, format spec.ValueFormat, registry *Registry) Options {
	return Options{Format: format, Columns: src.Event.Columns, Upcasts: src.Event.Upcasts, Schema: src.Segments.SchemaText, Registry: registry}
}

// Decoder decodes values. It is not safe for concurrent use.
type Decoder struct {
	schema record.Schema
	names  *Names
	fields map[string]int // names that are looked for in a value, and which of found they fill
	found  []found
	by     int // the one of found that has an event's version; -1: none
	cells  []cell
	decode func(ctx context.Context, value []byte) (reason, err error)
	avro   *avroDecoder
	format spec.ValueFormat
}

// found is a field of the event at hand, as it is written.
type found struct {
	name string
	set  bool
	null bool
	json []byte     // the member's value
	avro *avroField // how to read value
	at   avroValue
}

// cell is one value of a column.
type cell struct {
	set   bool // the event has the field
	null  bool
	num   int64
	float float64
	text  []byte // valid until the next value
}

// New returns a decoder of events with the given columns.
func New(schema record.Schema, opts Options) (*Decoder, error) {
	names, err := NewNames(schema, opts.Columns, opts.Upcasts)
	if err != nil {
		return nil, err
	}
	d := &Decoder{schema: schema, names: names, fields: map[string]int{}, by: -1, cells: make([]cell, len(schema)), format: opts.Format}
	for _, name := range names.wanted() {
		d.fields[name] = len(d.found)
		d.found = append(d.found, found{name: name})
	}
	if names.by != "" {
		d.by = d.fields[names.by]
	}
	switch opts.Format {
	case spec.JSON:
		d.decode = d.decodeJSON
	case spec.Avro:
		if d.avro, err = newAvro(d, opts); err != nil {
			return nil, err
		}
		d.decode = d.avro.decode
	default:
		return nil, fmt.Errorf("values in the format %q are not read, only %s and %s", opts.Format, spec.JSON, spec.Avro)
	}
	return d, nil
}

// Schema has the columns that a [Decoder] fills: those of the event, and last one of the given name that says why there are none. All may be null.
func Schema(event record.Schema, why string) record.Schema {
	out := slices.Clone(event)
	for i := range out {
		out[i].Nullable = true
	}
	return append(out, record.Field{Name: why, Kind: record.String, Nullable: true})
}

// Append decodes a value into row number row of columns, those of [Schema], which hold the rows before it.
// A nil value is a tombstone. The error is nil whatever the value: it says that the registry could not be asked, and nothing was appended.
func (d *Decoder) Append(ctx context.Context, columns []record.Column, row int, value []byte) error {
	reason, err := d.read(ctx, value)
	if err != nil {
		return err
	}
	for i, f := range d.schema {
		c := d.cells[i]
		if reason != nil {
			c = cell{}
		}
		col := &columns[i]
		setNull(col, row, reason != nil || c.null)
		switch f.Kind {
		case record.String:
			col.Strings.Append(c.text)
		case record.Float64:
			col.Float64s = append(col.Float64s, c.float)
		default:
			col.Int64s = append(col.Int64s, c.num)
		}
	}
	why := &columns[len(d.schema)]
	setNull(why, row, reason == nil)
	var text []byte
	if reason != nil {
		text = []byte(reason.Error())
	}
	why.Strings.Append(text)
	return nil
}

// Skip appends a row of nulls, of a record that is not decoded because nobody reads it.
func (d *Decoder) Skip(columns []record.Column, row int) {
	for i := range columns {
		setNull(&columns[i], row, true)
		switch columns[i].Kind {
		case record.String:
			columns[i].Strings.Append(nil)
		case record.Float64:
			columns[i].Float64s = append(columns[i].Float64s, 0)
		default:
			columns[i].Int64s = append(columns[i].Int64s, 0)
		}
	}
}

func setNull(c *record.Column, row int, null bool) {
	if row>>6 == len(c.Nulls) {
		c.Nulls = append(c.Nulls, 0)
	}
	if null {
		c.Nulls.Set(row)
	}
}

// read fills cells with an event's columns.
func (d *Decoder) read(ctx context.Context, value []byte) (reason, err error) {
	if value == nil {
		return errors.New("the record has no value (a tombstone)"), nil
	}
	for i := range d.found {
		d.found[i] = found{name: d.found[i].name}
	}
	if reason, err := d.decode(ctx, value); reason != nil || err != nil {
		return reason, err
	}
	shape, reason := d.shape()
	if reason != nil {
		return reason, nil
	}
	return d.fill(shape), nil
}

// shape is how an event of this one's version is read.
func (d *Decoder) shape() (*Shape, error) {
	if d.by < 0 {
		return d.names.shapeOf(0, false), nil
	}
	var c cell
	f := &d.found[d.by]
	if f.set && !f.null {
		if err := d.parse(f, &c, record.Int64, rule{}); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return d.names.shapeOf(c.num, c.set && !c.null), nil
}

func (d *Decoder) parse(f *found, c *cell, kind record.Kind, rule rule) error {
	c.set = true
	if f.null {
		c.null = true
		return nil
	}
	if d.format == spec.Avro {
		return f.avro.read(c, f.at, kind, rule)
	}
	return c.parse(kind, rule, f.json)
}

// fill makes the columns of the fields that were found. The error is for people: it is why the event has none.
func (d *Decoder) fill(shape *Shape) error {
	clear(d.cells)
	for i := range d.found {
		f := &d.found[i]
		col, ok := shape.column[f.name]
		if !f.set || !ok {
			continue
		}
		c := &d.cells[col]
		if c.set {
			return fmt.Errorf("%s: it is there twice, under the names %s", d.schema[col].Name, d.twice(shape, col))
		}
		if err := d.parse(f, c, d.schema[col].Kind, d.names.rules[col]); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if factor := shape.factor[col]; factor > 1 && !c.null {
			if c.num, ok = times(c.num, factor); !ok {
				return fmt.Errorf("%s: it is too large to be multiplied by %d, as its upcast says", f.name, factor)
			}
		}
	}
	for i, f := range d.schema {
		c := &d.cells[i]
		switch {
		case c.set && !c.null:
		case !c.set && shape.fill[i] != nil:
			*c = *shape.fill[i]
		case f.Nullable:
			c.null = true
		case c.set:
			return fmt.Errorf("%s: it is null, expected %s", f.Name, expected(f.Kind, d.names.rules[i]))
		default:
			return fmt.Errorf("%s: it is missing, expected %s", f.Name, expected(f.Kind, d.names.rules[i]))
		}
	}
	return nil
}

// twice are the names under which an event has a column.
func (d *Decoder) twice(shape *Shape, col int) string {
	var out []string
	for _, f := range d.found {
		if of, ok := shape.column[f.name]; ok && of == col && f.set {
			out = append(out, f.name)
		}
	}
	return list(out)
}
