package table

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"time"

	"hindcast/internal/record"
)

// Text writes row i of a column as text: timestamps as RFC 3339 in UTC, dates as
// 2011-11-01, floats with the fewest digits that give them back, strings as they
// are. A null is the empty text.
func Text(c *record.Column, i int) string { return string(appendText(nil, c, i)) }

func appendText(b []byte, c *record.Column, i int) []byte {
	if c.Nulls.Get(i) {
		return b
	}
	switch c.Kind {
	case record.Bool:
		return strconv.AppendBool(b, c.Int64s[i] != 0)
	case record.Int64:
		return strconv.AppendInt(b, c.Int64s[i], 10)
	case record.Float64:
		return strconv.AppendFloat(b, c.Float64s[i], 'g', -1, 64)
	case record.Timestamp:
		return time.UnixMicro(c.Int64s[i]).UTC().AppendFormat(b, time.RFC3339Nano)
	case record.Date:
		return time.Unix(c.Int64s[i]*secondsPerDay, 0).UTC().AppendFormat(b, time.DateOnly)
	case record.String:
		return append(b, c.Strings.At(i)...)
	}
	return b
}

const secondsPerDay = 24 * 60 * 60

// compareRows orders rows by columns [from, to) of both batches: strings bytewise,
// nulls first, NaN before other floats.
func compareRows(a *record.Batch, i int, b *record.Batch, j, from, to int) int {
	for c := from; c < to; c++ {
		if d := compareValues(&a.Columns[c], i, &b.Columns[c], j); d != 0 {
			return d
		}
	}
	return 0
}

func compareValues(a *record.Column, i int, b *record.Column, j int) int {
	if x, y := a.Nulls.Get(i), b.Nulls.Get(j); x || y {
		return cmp.Compare(btoi(y), btoi(x))
	}
	switch a.Kind {
	case record.Float64:
		return cmp.Compare(a.Float64s[i], b.Float64s[j])
	case record.String:
		return bytes.Compare(a.Strings.At(i), b.Strings.At(j))
	default:
		return cmp.Compare(a.Int64s[i], b.Int64s[j])
	}
}

// compareText orders two texts of key columns of a kind, as [Text] writes them, like the values.
func compareText(kind record.Kind, a, b string) (int, error) {
	switch kind {
	case record.Int64:
		return compareParsed(a, b, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) })
	case record.Float64:
		return compareParsed(a, b, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
	case record.Timestamp:
		return compareParsed(a, b, func(s string) (int64, error) { t, err := time.Parse(time.RFC3339Nano, s); return t.UnixMicro(), err })
	case record.Date:
		return compareParsed(a, b, func(s string) (int64, error) { t, err := time.Parse(time.DateOnly, s); return t.Unix(), err })
	default: // booleans are in the order of their names
		return cmp.Compare(a, b), nil
	}
}

func compareParsed[T cmp.Ordered](a, b string, parse func(string) (T, error)) (int, error) {
	x, err := parse(a)
	y, errY := parse(b)
	return cmp.Compare(x, y), cmpErr(err, errY)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// newBatch is an empty batch to append rows to.
func newBatch(schema record.Schema) *record.Batch {
	b := &record.Batch{Columns: make([]record.Column, len(schema))}
	for i, f := range schema {
		b.Columns[i].Kind = f.Kind
	}
	return b
}

// appendRow copies row i of src, which has the same columns.
func appendRow(dst, src *record.Batch, i int) {
	for c := range dst.Columns {
		dst.Columns[c].Append(dst.Len, &src.Columns[c], i)
	}
	dst.Len++
}

// checkBatch reports columns that are not those of schema, and nulls where none may be.
func checkBatch(b *record.Batch, schema record.Schema) error {
	if len(b.Columns) != len(schema) {
		return fmt.Errorf("a batch of %d columns, expected %d", len(b.Columns), len(schema))
	}
	for i, f := range schema {
		if b.Columns[i].Kind != f.Kind {
			return fmt.Errorf("column %s holds %v, expected %v", f.Name, b.Columns[i].Kind, f.Kind)
		}
		if b.Lent != nil && b.Lent.Names[i] != "" {
			continue // the file's writer sees what is there
		}
		if nulls := b.Columns[i].Nulls; nulls != nil && !f.Nullable {
			for row := range b.Len {
				if nulls.Get(row) {
					return fmt.Errorf("column %s is null in a row, and may not be", f.Name)
				}
			}
		}
	}
	return nil
}

// sorter checks that rows come in ascending order of their key.
type sorter struct {
	from, to int           // the key columns
	last     *record.Batch // one row
	schema   record.Schema
}

func (s *sorter) check(b *record.Batch) error {
	if b.Len == 0 || s.from == s.to {
		return nil
	}
	if s.last != nil && compareRows(s.last, 0, b, 0, s.from, s.to) > 0 {
		return s.disorder(s.last, 0, b, 0)
	}
	for i := 1; i < b.Len; i++ {
		if compareRows(b, i-1, b, i, s.from, s.to) > 0 {
			return s.disorder(b, i-1, b, i)
		}
	}
	s.last = newBatch(s.schema)
	appendRow(s.last, b, b.Len-1)
	return nil
}

func (s *sorter) disorder(a *record.Batch, i int, b *record.Batch, j int) error {
	return fmt.Errorf("rows are not sorted by key: %q comes before %q", keyText(a, i, s.from, s.to), keyText(b, j, s.from, s.to))
}

func keyText(b *record.Batch, i, from, to int) []string {
	var out []string
	for c := from; c < to; c++ {
		out = append(out, Text(&b.Columns[c], i))
	}
	return out
}
