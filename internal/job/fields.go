package job

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"hindcast/internal/record"
)

// goType is how a field lies in memory.
type goType uint8

const (
	goBool goType = iota + 1
	goInt64
	goInt32
	goFloat64
	goString
	goBytes
	goTime
	goDate // a time.Time that holds a date: midnight UTC
	goMicros
	goDays
)

// field is a struct field that is a column.
type field struct {
	name   string // as "Line.Country"
	column string
	offset uintptr
	typ    goType
	ptr    bool // the field is a pointer, the column may hold nulls
	key    bool
	lent   bool // a [Key] or a [Same]: its values are those of the events' column from
	from   string
}

func (f *field) kind() record.Kind {
	switch f.typ {
	case goBool:
		return record.Bool
	case goInt64, goInt32:
		return record.Int64
	case goFloat64:
		return record.Float64
	case goString, goBytes:
		return record.String
	case goTime, goMicros:
		return record.Timestamp
	default:
		return record.Date
	}
}

func (f *field) schema() record.Field {
	return record.Field{Name: f.column, Kind: f.kind(), Nullable: f.ptr}
}

var (
	timeType   = reflect.TypeFor[time.Time]()
	microsType = reflect.TypeFor[Micros]()
	daysType   = reflect.TypeFor[Days]()
)

const supported = "string, []byte, bool, int, int32, int64, float64, time.Time, job.Micros, job.Days, or a pointer to one of these for a column that may be null"

// tags reads the struct tags called tag ("event" or "row") of a struct.
type tags struct {
	tag string
	// private allows `row:"-"` fields.
	private bool
	// options that a tag may have after the column's name.
	options []string
	// of says what a field of a type is, and returns the type of its values. Nil is [field.of].
	of func(f *field, t reflect.Type) (reflect.Type, error)
}

var (
	eventTags = tags{tag: "event", options: []string{"date"}}
	rowTags   = tags{tag: "row", private: true, options: []string{"key", "date"}}
)

// fields returns the columns of struct type t in the order of its fields, all errors joined. Each names field and tag.
func (g tags) fields(t reflect.Type) ([]field, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%s is not a struct: declare one whose fields have %s tags", t, g.tag)
	}
	var out []field
	var errs []error
	seen := map[string]string{}
	for sf := range t.Fields() {
		name := typeName(t) + "." + sf.Name
		f, skip, err := g.field(sf)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("field %s: %w", name, err))
		case skip:
		case seen[f.column] != "":
			errs = append(errs, fmt.Errorf("field %s: tag %s: column %s is field %s already", name, quoteTag(g.tag, sf), f.column, seen[f.column]))
		case f.key && len(out) > 0 && !out[len(out)-1].key:
			errs = append(errs, fmt.Errorf("field %s: tag %s: key columns come first: move it before field %s", name, quoteTag(g.tag, sf), firstValue(out)))
		default:
			f.name = name
			seen[f.column] = name
			out = append(out, f)
		}
	}
	return out, errors.Join(errs...)
}

func firstValue(fields []field) string {
	for _, f := range fields {
		if !f.key {
			return f.name
		}
	}
	return ""
}

func (g tags) field(sf reflect.StructField) (f field, skip bool, err error) {
	tag, tagged := sf.Tag.Lookup(g.tag)
	quoted := quoteTag(g.tag, sf)
	switch {
	case sf.Anonymous:
		return f, false, errors.New("an embedded struct is not supported: write its fields out")
	case !tagged && g.private:
		return f, false, errors.New("no row tag: name its column, as `row:\"net_mills\"`, or keep it out of the table with `row:\"-\"`")
	case !tagged:
		return f, false, errors.New("no event tag: name the column that it is read from, as `event:\"country\"`, or remove the field")
	case !sf.IsExported():
		return f, false, fmt.Errorf("tag %s: the field is not exported: begin its name with a capital", quoted)
	}
	column, options, _ := strings.Cut(tag, ",")
	if column == "-" {
		switch {
		case !g.private:
			return f, false, fmt.Errorf("tag %s: an event has columns only: remove the field", quoted)
		case options != "":
			return f, false, fmt.Errorf("tag %s: private state takes no options", quoted)
		}
		if err := checkPlain(sf.Type, nil); err != nil {
			return f, false, fmt.Errorf("tag %s: private state must be plain data, so that it can be checkpointed: %w", quoted, err)
		}
		return f, true, nil
	}
	if column == "" || strings.TrimSpace(column) != column {
		return f, false, fmt.Errorf("tag %s: names no column", quoted)
	}
	f = field{column: column, offset: sf.Offset}
	of := g.of
	if of == nil {
		of = (*field).of
	}
	elem, err := of(&f, sf.Type)
	if err != nil {
		return f, false, fmt.Errorf("tag %s: %w", quoted, err)
	}
	for _, o := range splitOptions(options) {
		known := slices.Contains(g.options, strings.SplitAfter(o, "=")[0])
		switch from, isFrom := strings.CutPrefix(o, "from="); {
		case o == "null" && known && (f.lent || g.tag == "event"):
			f.ptr = true
		case isFrom && known && f.lent && from != "":
			f.from = from
		case o == "key" && known:
			f.key = true
		case o == "date" && known && f.typ == goTime:
			f.typ = goDate
		case o == "date" && known:
			return f, false, fmt.Errorf("tag %s: option date needs a time.Time, not %s", quoted, sf.Type)
		default:
			return f, false, fmt.Errorf("tag %s: unknown option %q: there is %s", quoted, o, strings.Join(g.options, " and "))
		}
	}
	if f.lent && f.from == "" {
		f.from = f.column
	}
	switch {
	case f.key && f.ptr:
		return f, false, fmt.Errorf("tag %s: a key column holds no null: use %s and filter such events with Where", quoted, elem)
	case f.key && f.typ == goFloat64:
		return f, false, fmt.Errorf("tag %s: a float cannot be a key: round it to an integer of a fixed unit", quoted)
	}
	return f, false, nil
}

// of says what a field of a type is.
func (f *field) of(t reflect.Type) (elem reflect.Type, err error) {
	elem = t
	if elem.Kind() == reflect.Pointer {
		f.ptr, elem = true, elem.Elem()
	}
	if f.typ = goTypeOf(elem); f.typ == 0 {
		return nil, fmt.Errorf("type %s cannot be a column: use %s", t, supported)
	}
	return elem, nil
}

func splitOptions(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

func goTypeOf(t reflect.Type) goType {
	switch t {
	case timeType:
		return goTime
	case microsType:
		return goMicros
	case daysType:
		return goDays
	}
	switch t.Kind() {
	case reflect.Bool:
		return goBool
	case reflect.Int64:
		return goInt64
	case reflect.Int32:
		return goInt32
	case reflect.Int:
		if strconv.IntSize == 64 {
			return goInt64
		}
		return goInt32
	case reflect.Float64:
		return goFloat64
	case reflect.String:
		return goString
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return goBytes
		}
	default:
	}
	return 0
}

func quoteTag(tag string, sf reflect.StructField) string {
	return "`" + tag + ":" + strconv.Quote(sf.Tag.Get(tag)) + "`"
}

func typeName(t reflect.Type) string {
	if t.Name() != "" {
		return t.Name()
	}
	return "struct"
}

func schemaOf(fields []field) record.Schema {
	s := make(record.Schema, len(fields))
	for i := range fields {
		s[i] = fields[i].schema()
	}
	return s
}

func keyCount(fields []field) int {
	n := 0
	for _, f := range fields {
		if f.key {
			n++
		}
	}
	return n
}
