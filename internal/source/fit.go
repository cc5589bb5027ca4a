package source

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"hindcast/internal/parquetfile"
	"hindcast/internal/payload"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/spec"
)

// Layout says how events lie in exported segments.
type Layout struct {
	// Kafka names the columns that hold offset and record time.
	Kafka plan.KafkaColumns
	// UTC says that record times whose file does not say so are instants all the same.
	UTC bool
	// Value is the column that holds the encoded event, and Payload how to decode it. Where Value is nil, the event's fields are columns, and
	// of Payload only Columns and Upcasts matter.
	Value   *spec.Value
	Payload payload.Options
}

// LayoutOf is that of a job's segments. The registry may be nil where nothing is read in Avro with one.
func LayoutOf(src spec.Source, registry *payload.Registry) Layout {
	l := Layout{Kafka: src.Segments.Columns, Value: src.Segments.Value, Payload: payload.OptionsOf(src, spec.JSON, registry)}
	l.UTC = src.Segments.Naming == spec.Redpanda // which wrote Kafka's times as Iceberg's timestamp, before it did as timestamptz
	if l.Value != nil {
		l.Payload.Format = l.Value.Format
	}
	return l
}

// Open opens an exported segment, so that what Kafka knows of its records is read as the layout says.
func (l Layout) Open(r io.ReaderAt, size int64, name string) (*parquetfile.File, error) {
	f, err := parquetfile.Open(r, size, name)
	if err != nil || !l.UTC {
		return f, err
	}
	return f.WithRules(l.rules())
}

// rules are those of the log's columns.
func (l Layout) rules() map[string]parquetfile.Rule {
	rules := map[string]parquetfile.Rule{}
	if l.UTC {
		rules[l.Kafka.Time] = parquetfile.Rule{Zone: time.UTC}
	}
	return rules
}

// Fit says how the columns of an event are read of one file, whose schema may be older or newer than the event's: columns in any order, more of them or fewer,
// under names that they had before, in narrower types. What cannot be read without loss is refused. It is not safe for concurrent use.
type Fit struct {
	file    *parquetfile.File
	groups  []parquetfile.RowGroup // the file's
	schema  record.Schema
	columns []fitted
	read    []string // columns of the file, each once
	// direct says that the columns that are read are those of the event, as they lie.
	direct bool
	out    []record.Column
}

// fitted is how a column of the event is made.
type fitted struct {
	from    int // of what is read; -1: it is the same in all rows
	same    *payload.Value
	factor  int64
	convert func(v int64) (int64, error) // of integers; nil: none
	float   bool                         // integers become floating-point numbers
	rows    record.Column                // of the same value, as many as were needed
}

// NewFit finds the columns of an event in a file; a field without a kind takes any. Errors are [parquetfile.Error] values.
// A column that is nowhere is null where its field is nullable, and else an error.
func NewFit(f *parquetfile.File, schema record.Schema, l Layout) (*Fit, error) {
	t := &Fit{file: f, groups: f.RowGroups(), schema: schema}
	refuse := func(column string, format string, args ...any) error {
		return &parquetfile.Error{File: f.Name(), RowGroup: -1, Column: column, Reason: fmt.Sprintf(format, args...)}
	}
	if l.Value != nil {
		got, err := f.Column(l.Value.Column)
		if err == nil && got.Kind != record.String {
			err = refuse(l.Value.Column, "it holds %v where encoded events are read: name the column that holds them in source.segments.value", got.Kind)
		}
		t.read = []string{l.Value.Column}
		return t, err
	}
	by, decoded := f.KeyValue(payload.AppliedKey)
	if decoded {
		var err error
		if l.Payload, err = l.Payload.After(by); err != nil {
			return nil, refuse("", "%v", err)
		}
	}
	names, err := payload.NewNames(schema, l.Payload.Columns, l.Payload.Upcasts)
	if err != nil {
		return nil, err
	}
	if decoded && names.By() != "" && !f.Has(names.By()) {
		return nil, refuse(names.By(), "the column, which has an event's version, was not archived, and upcasts by it were added since: which of its events are older is not known")
	}
	sources, column, err := names.Typed(f.Columns(), t.versions(names.By()))
	if err != nil {
		return nil, refuse(column, "%v", err)
	}
	if err := t.withRules(l.rules(), names, sources); err != nil {
		return nil, err
	}
	for i, want := range schema {
		s := sources[i]
		c := fitted{from: -1, same: s.Fill, factor: s.Factor}
		if s.Name != "" && slices.Contains([]string{l.Kafka.Partition, l.Kafka.Offset, l.Kafka.Time}, s.Name) {
			return nil, refuse(want.Name, "it would be read of the column %s, which belongs to the log, not the event: a result must not depend on it", s.Name)
		}
		if s.Name != "" {
			if err := t.fit(&c, s.Name, want, names, i); err != nil {
				return nil, err
			}
		} else if s.Fill == nil && !want.Nullable {
			return nil, t.missing(want.Name, names, i)
		}
		t.columns = append(t.columns, c)
	}
	t.direct = len(t.read) == len(schema)
	for i, c := range t.columns {
		t.direct = t.direct && c.from == i && c.factor == 1 && c.convert == nil && !c.float
	}
	return t, nil
}

// versions are those of a file's events, as far as its footer proves.
func (t *Fit) versions(by string) payload.Versions {
	if by == "" || !t.file.Has(by) {
		return payload.Versions{}
	}
	v := payload.Versions{Column: true, Bounded: true}
	begun := false
	for i, g := range t.groups {
		if g.Rows == 0 {
			continue
		}
		nulls, known := t.file.Nulls(i, by)
		lo, hi, ok := t.file.Bounds(i, by)
		if known && nulls == g.Rows {
			v.Null = true
			continue
		}
		if !known || !ok {
			return payload.Versions{Column: true, Null: true}
		}
		v.Null = v.Null || nulls > 0
		if !begun {
			v.Min, v.Max, begun = lo, hi, true
		}
		v.Min, v.Max = min(v.Min, lo), max(v.Max, hi)
	}
	v.Column = begun // else no event has a version
	return v
}

// withRules has the file read as the rules of its columns say, beside those of the log's.
func (t *Fit) withRules(rules map[string]parquetfile.Rule, names *payload.Names, sources []payload.Source) error {
	own := len(rules)
	for i, s := range sources {
		rule, zone := names.Rule(i)
		if s.Name == "" || rule.Scale == nil && zone == nil && !rule.INT96 {
			continue
		}
		r := parquetfile.Rule{Scale: rule.Scale, INT96: rule.INT96}
		if zone != nil {
			r.Zone = zone.Location()
		}
		rules[s.Name] = r
	}
	if len(rules) == own {
		return nil
	}
	var err error
	t.file, err = t.file.WithRules(rules)
	return err
}

// fit decides how a column of the file becomes one of the event.
func (t *Fit) fit(c *fitted, name string, want record.Field, names *payload.Names, i int) error {
	got, err := t.file.Column(name)
	if err != nil {
		return err
	}
	rule, zone := names.Rule(i)
	switch {
	case got.Kind == want.Kind || want.Kind == 0:
	case got.Kind == record.Int64 && want.Kind == record.Float64 && t.exactAsFloat(name):
		c.float = true
	case got.Kind == record.Int64 && want.Kind == record.Timestamp && rule.Unit != "":
		c.convert = func(v int64) (int64, error) {
			at, ok := payload.FromUnit(v, rule.Unit)
			if !ok {
				return 0, fmt.Errorf("the time %d %s is beyond any calendar", v, rule.Unit)
			}
			return at, nil
		}
	case got.Kind == record.Date && want.Kind == record.Timestamp && zone != nil:
		c.convert = zone.Midnight
	default:
		return t.unfit(name, got.Kind, want)
	}
	if c.from = slices.Index(t.read, name); c.from < 0 {
		c.from = len(t.read)
		t.read = append(t.read, name)
	}
	return nil
}

// exactAsFloat reports whether an integer column is known to fit floating-point numbers exactly, by its type or by its bounds.
func (t *Fit) exactAsFloat(name string) bool {
	if s, ok := t.file.Stored(name); ok && s.Type == "INT32" {
		return true
	}
	const most = 1 << 53
	for i, g := range t.groups {
		if n, known := t.file.Nulls(i, name); g.Rows == 0 || known && n == g.Rows {
			continue
		}
		if lo, hi, ok := t.file.Bounds(i, name); !ok || lo < -most || hi > most {
			return false
		}
	}
	return true
}

// unfit says why a column is not converted, and what may be done.
func (t *Fit) unfit(name string, got record.Kind, want record.Field) error {
	advice := "export it again with the type that the job reads, or have the job read the type that is there"
	switch {
	case got == record.Int64 && want.Kind == record.Float64:
		advice = "integers past 2^53 would lose digits, and the footer does not rule them out: " + advice
	case got == record.Int64 && want.Kind == record.Timestamp:
		advice = fmt.Sprintf("if they count a unit of time since 1970, say so: source.event.columns.%s.unit", want.Name)
	case got == record.Date && want.Kind == record.Timestamp:
		advice = fmt.Sprintf("a date begins at an instant of a zone; if that is meant, say which: source.event.columns.%s.zone", want.Name)
	}
	return &parquetfile.Error{File: t.file.Name(), RowGroup: -1, Column: name, Reason: fmt.Sprintf("it holds %v where the job reads %v; %s", got, want.Kind, advice)}
}

// missing says that a file lacks a column, and what was perhaps meant.
func (t *Fit) missing(name string, names *payload.Names, i int) error {
	rule, _ := names.Rule(i)
	for _, there := range t.file.Columns() {
		for _, wanted := range append([]string{name}, rule.Aliases...) {
			if strings.EqualFold(there, wanted) {
				return &parquetfile.Error{File: t.file.Name(), RowGroup: -1, Column: name, Reason: fmt.Sprintf(
					"the file has no such column, but one called %s; names are compared exactly: if it is the same, add it to source.event.columns.%s.aliases", there, name)}
			}
		}
	}
	return &parquetfile.Error{File: t.file.Name(), RowGroup: -1, Column: name, Reason: fmt.Sprintf(
		"the file has no such column, which the job reads; it has %s; if it had another name then, say so in source.event.columns.%s.aliases; if it was added later, make the job's field a "+
			"pointer, or give older events a value in source.event.upcast; else export it again", strings.Join(t.file.Columns(), ", "), name)}
}

// Missing lists the columns of the event that the file lacks, so that they are null in all its rows.
func (t *Fit) Missing() []string {
	var out []string
	for i, c := range t.columns {
		if c.from < 0 && c.same == nil {
			out = append(out, t.schema[i].Name)
		}
	}
	return out
}

// Bounds returns the least and greatest value that an integer, timestamp or date column of the event has in a row group, nulls left aside. It is not ok where the
// footer does not prove them.
func (t *Fit) Bounds(group int, column string) (lo, hi int64, ok bool) {
	i := t.schema.Index(column)
	if i < 0 || i >= len(t.columns) || t.columns[i].from < 0 || t.columns[i].float {
		return 0, 0, false
	}
	c := &t.columns[i]
	if lo, hi, ok = t.file.Bounds(group, t.read[c.from]); !ok {
		return 0, 0, false
	}
	for _, v := range []*int64{&lo, &hi} { // every conversion keeps the order
		if err := c.apply(v); err != nil {
			return 0, 0, false
		}
	}
	return lo, hi, true
}

// Nulls returns how many rows of a row group have null in a column of the event. It is not ok where the footer does not prove it.
func (t *Fit) Nulls(group int, column string) (n int64, ok bool) {
	i := t.schema.Index(column)
	switch {
	case i < 0 || i >= len(t.columns) || group < 0 || group >= len(t.groups):
		return 0, false
	case t.columns[i].from >= 0:
		return t.file.Nulls(group, t.read[t.columns[i].from])
	case t.columns[i].same != nil:
		return 0, true
	}
	return t.groups[group].Rows, true
}

// Lies returns the file's column that holds one of the event as it lies, without conversion. It is not ok where there is none.
func (t *Fit) Lies(column string) (name string, ok bool) {
	i := t.schema.Index(column)
	if i < 0 || i >= len(t.columns) || t.columns[i].from < 0 {
		return "", false
	}
	c := &t.columns[i]
	return t.read[c.from], c.convert == nil && c.factor == 1 && !c.float
}

// Columns are those of the file that are read, in the order in which [Fit.Convert] takes them.
func (t *Fit) Columns() []string { return t.read }

// File is the file as it is read by the rules of its columns.
func (t *Fit) File() *parquetfile.File { return t.file }

// Convert makes the event's columns of those that were read. What it returns is valid until the next call. The error says
// in which column which value does not fit.
func (t *Fit) Convert(in []record.Column, n int) ([]record.Column, error) {
	if t.direct {
		return in, nil
	}
	if t.out == nil {
		t.out = make([]record.Column, len(t.columns))
	}
	for i := range t.columns {
		c := &t.columns[i]
		if c.from < 0 {
			t.out[i] = c.repeat(t.schema[i].Kind, n)
			continue
		}
		from := &in[c.from]
		if c.convert == nil && c.factor == 1 && !c.float {
			t.out[i] = *from
			continue
		}
		if err := c.change(from, &t.out[i], t.schema[i].Kind, n); err != nil {
			return nil, &parquetfile.Error{File: t.file.Name(), RowGroup: -1, Column: t.read[c.from], Reason: err.Error()}
		}
	}
	return t.out, nil
}

func (c *fitted) repeat(kind record.Kind, n int) record.Column {
	if have := max(len(c.rows.Int64s), len(c.rows.Float64s), len(c.rows.Strings.Codes)); have < n {
		c.rows = c.same.Repeat(kind, n)
	}
	return c.rows
}

// change converts the values of a column into memory of out's own.
func (c *fitted) change(in, out *record.Column, kind record.Kind, n int) error {
	out.Kind, out.Nulls = kind, in.Nulls
	if c.float {
		out.Float64s = slices.Grow(out.Float64s[:0], n)[:n]
		for row, v := range in.Int64s[:n] {
			out.Float64s[row] = float64(v)
		}
		return nil
	}
	out.Int64s = slices.Grow(out.Int64s[:0], n)[:n]
	for row, v := range in.Int64s[:n] {
		if in.Nulls.Get(row) {
			v = 0
		} else if err := c.apply(&v); err != nil {
			return err
		}
		out.Int64s[row] = v
	}
	return nil
}

// apply converts a value.
func (c *fitted) apply(v *int64) error {
	if c.convert != nil {
		at, err := c.convert(*v)
		if err != nil {
			return err
		}
		*v = at
	}
	if c.factor != 1 {
		product, ok := payload.Multiply(*v, c.factor)
		if !ok {
			return fmt.Errorf("%d is too large to be multiplied by %d, as its upcast says", *v, c.factor)
		}
		*v = product
	}
	return nil
}
