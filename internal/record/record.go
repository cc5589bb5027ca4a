// Package record is the data that the hot path passes on: batches of columns.
//
// A batch is read-only to whoever receives it, and valid until its producer is
// asked for the next one: copy what must outlive that.
package record

import (
	"fmt"
	"slices"
	"sync/atomic"
)

// Kind is the type of a column's values.
type Kind uint8

// The kinds of columns. The comment says where a [Column] holds the values.
const (
	Bool      Kind = iota + 1 // Int64s: 0 or 1
	Int64                     // Int64s
	Float64                   // Float64s
	String                    // Strings: bytes, not checked to be UTF-8
	Timestamp                 // Int64s: microseconds since 1970-01-01T00:00:00Z
	Date                      // Int64s: days since 1970-01-01
)

var kindNames = map[Kind]string{
	Bool: "bool", Int64: "int64", Float64: "float64", String: "string", Timestamp: "timestamp", Date: "date",
}

func (k Kind) String() string {
	if s, ok := kindNames[k]; ok {
		return s
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// MarshalText writes the kind's name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads the kind's name.
func (k *Kind) UnmarshalText(b []byte) error {
	for kind, name := range kindNames {
		if name == string(b) {
			*k = kind
			return nil
		}
	}
	return fmt.Errorf("unknown column kind %q", b)
}

// Field is one column of a schema.
type Field struct {
	Name     string `json:"name"`
	Kind     Kind   `json:"kind"`
	Nullable bool   `json:"nullable,omitempty"`
}

// Schema is an ordered list of columns.
type Schema []Field

// Index returns the position of the column called name, or -1.
func (s Schema) Index(name string) int {
	return slices.IndexFunc(s, func(f Field) bool { return f.Name == name })
}

// Equal reports whether both have the same columns in the same order.
func (s Schema) Equal(o Schema) bool { return slices.Equal(s, o) }

// Bitmap has one bit a row. The nil bitmap has no bit set.
type Bitmap []uint64

// NewBitmap returns a bitmap of n clear bits.
func NewBitmap(n int) Bitmap { return make(Bitmap, (n+63)/64) }

// Get reports bit i; it is false for the nil bitmap.
func (b Bitmap) Get(i int) bool { return b != nil && b[i>>6]&(1<<(i&63)) != 0 }

// Set sets bit i.
func (b Bitmap) Set(i int) { b[i>>6] |= 1 << (i & 63) }

// Shift copies bits [at, at+n) to the start of out's memory, or of more where that is short.
func (b Bitmap) Shift(out Bitmap, at, n int) Bitmap {
	words := (n + 63) / 64
	out = slices.Grow(out[:0], words)[:words]
	from, by := at>>6, at&63
	for i := range out {
		out[i] = b[from+i] >> by
		if by > 0 && from+i+1 < len(b) {
			out[i] |= b[from+i+1] << (64 - by)
		}
	}
	return out
}

// Strings are byte strings, plain or by dictionary code.
type Strings struct {
	// Codes, where not nil, has one dictionary position a row; Offsets and Data then hold the dictionary.
	Codes []uint32
	// Offsets has one more entry than there are values (of rows or of the dictionary): value i is Data[Offsets[i]:Offsets[i+1]].
	Offsets []uint32
	Data    []byte
	// Dictionary, unless 0, tells dictionaries apart: of two with one number Offsets and Data are the same. It is a [NewDictionary].
	Dictionary uint64
}

var dictionaries atomic.Uint64

// NewDictionary numbers a dictionary. Numbers say nothing else: nothing that is stored may depend on them.
func NewDictionary() uint64 { return dictionaries.Add(1) }

// At returns the value of row i. The caller must not change it.
func (s *Strings) At(i int) []byte {
	if s.Codes != nil {
		i = int(s.Codes[i])
	}
	return s.Data[s.Offsets[i]:s.Offsets[i+1]:s.Offsets[i+1]]
}

// Append adds a value to plain strings.
func (s *Strings) Append(v []byte) {
	if len(s.Offsets) == 0 {
		s.Offsets = append(s.Offsets, 0)
	}
	s.Data = append(s.Data, v...)
	s.Offsets = append(s.Offsets, uint32(len(s.Data)))
}

// Column holds one value a row in the slice that its kind names. A null row
// has an undefined value in that slice: an empty string, for plain Strings; the position of some value, for Codes.
type Column struct {
	Kind     Kind
	Nulls    Bitmap // a set bit is a null
	Int64s   []int64
	Float64s []float64
	Strings  Strings
}

// Append adds a row of another column of the kind as row n. Strings become plain; c's must be.
func (c *Column) Append(n int, from *Column, row int) {
	null := from.Nulls.Get(row)
	if null || c.Nulls != nil {
		for len(c.Nulls)*64 <= n {
			c.Nulls = append(c.Nulls, 0)
		}
		if null {
			c.Nulls.Set(n)
		}
	}
	switch {
	case from.Kind == Float64:
		c.Float64s = append(c.Float64s, from.Float64s[row])
	case from.Kind != String:
		c.Int64s = append(c.Int64s, from.Int64s[row])
	case null:
		c.Strings.Append(nil)
	default:
		c.Strings.Append(from.Strings.At(row))
	}
}

// Nulls returns a column of n rows that are null.
func Nulls(kind Kind, n int) Column {
	c := Column{Kind: kind, Nulls: NewBitmap(n)}
	for i := range c.Nulls {
		c.Nulls[i] = ^uint64(0)
	}
	switch kind {
	case Float64:
		c.Float64s = make([]float64, n)
	case String:
		c.Strings.Offsets = make([]uint32, n+1)
	default:
		c.Int64s = make([]int64, n)
	}
	return c
}

// Batch is a run of rows, by column.
type Batch struct {
	Len     int
	Columns []Column
	// Of rows that come from a log: their offsets, ascending, and record times
	// in microseconds. RecordTimes is nil where the log's times are unknown.
	Offsets     []int64
	RecordTimes []int64
	// Lent, where not nil, says where the values lie of columns that have none in the batch.
	Lent *Lent
}

// Lent is where values of a batch's columns lie: in a row group of a file, for whoever takes them from there as they lie.
type Lent struct {
	// From is the row group, as the package that reads files has it.
	From any
	// Names are, of each column of the batch, that of the file's column; empty where the values are in the batch.
	Names []string
	// Rows are the batch's rows there, ascending.
	Rows []int64
}
