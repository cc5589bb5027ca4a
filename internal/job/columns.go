package job

import (
	"fmt"
	"reflect"
	"time"
	"unsafe"

	"hindcast/internal/record"
)

// Micros is an instant: microseconds since 1970-01-01T00:00:00Z.
type Micros int64

// Time returns the instant in UTC.
func (m Micros) Time() time.Time { return time.UnixMicro(int64(m)).UTC() }

// Days is a date: days since 1970-01-01.
type Days int64

// Time returns midnight UTC of the date.
func (d Days) Time() time.Time { return time.Unix(int64(d)*secondsPerDay, 0).UTC() }

// Column is a column of events that a [ColumnFold] reads: int64, float64, bool, [Micros] for a timestamp, or [Days] for a date. Its values are
// those of the log, and cannot be changed.
type Column[T int64 | float64 | bool | Micros | Days] struct {
	values []T
	nulls  record.Bitmap
}

// At returns the value of a row. It panics at a null: where the column may have some, ask Null first.
func (c *Column[T]) At(row int32) T {
	if c.nulls != nil {
		mustHold(c.nulls, row)
	}
	return c.values[row]
}

// mustHold panics at a null. It is apart so that what calls it can be inlined.
//
//go:noinline
func mustHold(nulls record.Bitmap, row int32) {
	if nulls.Get(int(row)) {
		panic("the value is null: ask Null before At")
	}
}

// Null reports whether a row has no value. That can be only in a column with the option "null".
func (c *Column[T]) Null(row int32) bool { return c.nulls.Get(int(row)) }

func (c *Column[T]) kind() record.Kind {
	switch any(*new(T)).(type) {
	case float64:
		return record.Float64
	case bool:
		return record.Bool
	case Micros:
		return record.Timestamp
	case Days:
		return record.Date
	}
	return record.Int64
}

func (c *Column[T]) set(from *record.Column, _ int) {
	c.nulls = from.Nulls
	switch values := any(&c.values).(type) {
	case *[]float64:
		*values = from.Float64s
	case *[]bool:
		*values = (*values)[:0]
		for _, v := range from.Int64s {
			*values = append(*values, v != 0)
		}
	default: // an int64 by another name
		c.values = unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(from.Int64s))), len(from.Int64s))
	}
}

// Text is a column of strings that a [ColumnFold] reads.
type Text struct {
	from *record.Column
	dict dictionary
}

// At returns the string of a row, which may be kept. It panics at a null: where the column may have some, ask Null first.
func (t *Text) At(row int32) string {
	if mustHold(t.from.Nulls, row); t.dict.active {
		return t.dict.value(t.from.Strings.Codes[row])
	}
	return string(t.from.Strings.At(int(row)))
}

// Null reports whether a row has no value. That can be only in a column with the option "null".
func (t *Text) Null(row int32) bool { return t.from.Nulls.Get(int(row)) }

func (t *Text) kind() record.Kind { return record.String }

func (t *Text) set(from *record.Column, rows int) {
	t.from = from
	t.dict.begin(&from.Strings, rows)
}

// Each is a function of a column's strings, by row. See [Of].
type Each[T any] struct {
	text   *Text
	f      func(string) T
	values []T
	known  []bool
}

// Of has f asked once for each string that is needed, where rows share strings: say, whether a kind of event counts. Strings that
// rows do not share are asked for row by row.
func Of[T any](t *Text, f func(string) T) Each[T] {
	e := Each[T]{text: t, f: f}
	if n := len(t.dict.offsets) - 1; t.dict.active && n <= maxShared {
		e.values, e.known = make([]T, n), make([]bool, n)
	}
	return e
}

// maxShared is how many values a dictionary may have for it to be worth a place for each.
const maxShared = 1024

// At returns what f says of a row's string. It panics at a null.
func (e *Each[T]) At(row int32) T {
	if e.values == nil || e.text.Null(row) {
		return e.f(e.text.At(row))
	}
	code := e.text.from.Strings.Codes[row]
	if !e.known[code] {
		e.values[code], e.known[code] = e.f(e.text.At(row)), true
	}
	return e.values[code]
}

// column is what the fields of a struct of columns are.
type column interface {
	kind() record.Kind
	// set has the column be that of a batch, of which so many rows are asked for.
	set(from *record.Column, rows int)
}

var columnType = reflect.TypeFor[column]()

const supportedColumns = "job.Text, or job.Column of int64, float64, bool, job.Micros or job.Days"

// columnTags are those of a struct of columns of events.
var columnTags = tags{tag: "event", options: []string{"null"}, of: func(f *field, t reflect.Type) (reflect.Type, error) {
	if !reflect.PointerTo(t).Implements(columnType) {
		return nil, fmt.Errorf("type %s is no column of events: use %s", t, supportedColumns)
	}
	f.typ = goTypeOfKind(reflect.New(t).Interface().(column).kind())
	return t, nil
}}

func goTypeOfKind(k record.Kind) goType {
	switch k {
	case record.Bool:
		return goBool
	case record.Float64:
		return goFloat64
	case record.String:
		return goString
	case record.Timestamp:
		return goMicros
	case record.Date:
		return goDays
	default:
		return goInt64
	}
}
