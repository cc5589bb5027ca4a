package job

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"hindcast/internal/record"
)

// outRows is the number of rows in a batch that a transform yields.
const outRows = 4096

// touchRows is how many rows' keys and states are brought into the cache at a time: what they take of it should stay in the fastest.
const touchRows = 128

// rowType knows the columns of a row struct.
type rowType struct {
	name   string
	fields []field
	keys   int
	key    []byte // scratch
}

func rowTypeOf(t reflect.Type, tags tags) (rowType, error) {
	fields, err := tags.fields(t)
	if err == nil && len(fields) == 0 {
		err = fmt.Errorf("%s has no column: tag its fields, as `row:\"country,key\"`", typeName(t))
	}
	return rowType{name: typeName(t), fields: fields, keys: keyCount(fields)}, err
}

// keyText is the field of the key that is a string, if the key is one field.
func (t *rowType) keyText() *field {
	if t.keys == 1 && t.fields[0].typ == goString {
		return &t.fields[0]
	}
	return nil
}

// appendTo adds the row at p to b, whose columns are those of the row. Columns that pass through are left to the caller.
func (t *rowType) appendTo(b *record.Batch, p unsafe.Pointer) error {
	for i := range t.fields {
		if t.fields[i].lent {
			continue
		}
		if err := t.fields[i].appendTo(&b.Columns[i], b.Len, unsafe.Add(p, t.fields[i].offset)); err != nil {
			truncate(b, b.Len) // the columns before this one have the row already
			return err
		}
	}
	b.Len++
	return nil
}

// appendTo adds the value of a field at a place to c as row n.
func (f *field) appendTo(c *record.Column, n int, at unsafe.Pointer) error {
	if f.ptr {
		extendNulls(c, n)
		if at = *(*unsafe.Pointer)(at); at == nil {
			appendNull(c, n)
			return nil
		}
	}
	if err := f.appendValue(c, at); err != nil {
		return fmt.Errorf("field %s: %w", f.name, err)
	}
	return nil
}

func (f *field) appendValue(c *record.Column, at unsafe.Pointer) error {
	switch f.typ {
	case goBool:
		c.Int64s = append(c.Int64s, int64(boolByte(*(*bool)(at))))
	case goInt64, goMicros, goDays:
		c.Int64s = append(c.Int64s, *(*int64)(at))
	case goInt32:
		c.Int64s = append(c.Int64s, int64(*(*int32)(at)))
	case goFloat64:
		c.Float64s = append(c.Float64s, *(*float64)(at))
	case goTime, goDate:
		v, err := f.instant(at)
		if err != nil {
			return err
		}
		c.Int64s = append(c.Int64s, v)
	case goString:
		return appendString(c, unsafe.Slice(unsafe.StringData(*(*string)(at)), len(*(*string)(at))))
	case goBytes:
		return appendString(c, *(*[]byte)(at))
	}
	return nil
}

// instant returns the microseconds or days that the time at a field stands for.
func (f *field) instant(at unsafe.Pointer) (int64, error) {
	t := *(*time.Time)(at)
	if f.typ == goTime {
		v, ok := micros(t)
		if !ok {
			return 0, fmt.Errorf("time %s is beyond what a timestamp holds", t)
		}
		return v, nil
	}
	s := t.Unix()
	if s%secondsPerDay != 0 || t.Nanosecond() != 0 {
		return 0, fmt.Errorf("%s is not a date: a date column takes midnight UTC, as time.Date(y, m, d, 0, 0, 0, 0, time.UTC)", t)
	}
	return s / secondsPerDay, nil
}

func appendString(c *record.Column, v []byte) error {
	if uint64(len(c.Strings.Data))+uint64(len(v)) > math.MaxUint32 {
		return fmt.Errorf("%d bytes are too many for one batch of rows", len(v))
	}
	c.Strings.Append(v)
	return nil
}

// extendNulls makes the null bits of a column reach row n.
func extendNulls(c *record.Column, n int) {
	for len(c.Nulls)*64 <= n {
		c.Nulls = append(c.Nulls, 0)
	}
}

// appendNull adds a null as row n.
func appendNull(c *record.Column, n int) {
	extendNulls(c, n)
	c.Nulls.Set(n)
	switch c.Kind {
	case record.Float64:
		c.Float64s = append(c.Float64s, 0)
	case record.String:
		c.Strings.Append(nil)
	default:
		c.Int64s = append(c.Int64s, 0)
	}
}

// truncate shortens b to n rows.
func truncate(b *record.Batch, n int) {
	for i := range b.Columns {
		c := &b.Columns[i]
		c.Int64s = c.Int64s[:min(n, len(c.Int64s))]
		c.Float64s = c.Float64s[:min(n, len(c.Float64s))]
		if s := &c.Strings; s.Codes != nil {
			s.Codes = s.Codes[:min(n, len(s.Codes))]
		} else if len(s.Offsets) > n {
			s.Offsets = s.Offsets[:n+1]
			s.Data = s.Data[:s.Offsets[n]]
		}
		for w := range c.Nulls {
			switch from := n - w*64; {
			case from <= 0:
				c.Nulls[w] = 0
			case from < 64:
				c.Nulls[w] &= 1<<from - 1
			}
		}
	}
	b.Len = n
}

// newBatch returns an empty batch for rows of the given fields.
func newBatch(fields []field) *record.Batch {
	b := &record.Batch{Columns: make([]record.Column, len(fields))}
	for i := range fields {
		b.Columns[i].Kind = fields[i].kind()
	}
	return b
}

// appendKey adds the key of the row at p to dst, encoded so that bytes sort as keys do:
// column by column, strings bytewise, numbers and times by value, false before true.
func (t *rowType) appendKey(dst []byte, p unsafe.Pointer) ([]byte, error) {
	for i := range t.keys {
		f := &t.fields[i]
		at := unsafe.Add(p, f.offset)
		switch f.typ {
		case goBool:
			dst = append(dst, boolByte(*(*bool)(at)))
		case goInt64, goMicros, goDays:
			dst = appendOrdered(dst, *(*int64)(at))
		case goInt32:
			dst = appendOrdered(dst, int64(*(*int32)(at)))
		case goTime, goDate:
			v, err := f.instant(at)
			if err != nil {
				return dst, fmt.Errorf("field %s: %w", f.name, err)
			}
			dst = appendOrdered(dst, v)
		case goString:
			dst = appendKeyString(dst, *(*string)(at), i == t.keys-1)
		case goBytes:
			b := *(*[]byte)(at)
			dst = appendKeyString(dst, unsafe.String(unsafe.SliceData(b), len(b)), i == t.keys-1)
		case goFloat64: // refused as a key
		}
	}
	return dst, nil
}

func appendOrdered(dst []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(v)^1<<63)
}

// ordered is what appendOrdered wrote at the beginning of a key.
func ordered(key []byte) int64 { return int64(binary.BigEndian.Uint64(key) ^ 1<<63) }

// appendKeyString ends a string with 0 0 and writes a zero byte in it as 0 255, so that none is the beginning of another. The
// last of a key needs no end.
func appendKeyString(dst []byte, s string, last bool) []byte {
	if last {
		return append(dst, s...)
	}
	for {
		zero := strings.IndexByte(s, 0)
		if zero < 0 {
			dst = append(dst, s...)
			return append(dst, 0, 0)
		}
		dst = append(dst, s[:zero]...)
		dst = append(dst, 0, 255)
		s = s[zero+1:]
	}
}

// bucketValue returns the bytes that decide the bucket of a row: a string's, or an integer's in decimal. It may use buf.
func (f *field) bucketValue(buf []byte, p unsafe.Pointer) []byte {
	at := unsafe.Add(p, f.offset)
	switch f.typ {
	case goString:
		return append(buf, *(*string)(at)...)
	case goBytes:
		return append(buf, *(*[]byte)(at)...)
	case goInt32:
		return strconv.AppendInt(buf, int64(*(*int32)(at)), 10)
	default:
		return strconv.AppendInt(buf, *(*int64)(at), 10)
	}
}

// appendBucketValue adds what bucketValue returns of a row whose key column c is.
func appendBucketValue(dst []byte, c *record.Column, row int) []byte {
	if c.Kind == record.String {
		return append(dst, c.Strings.At(row)...)
	}
	return strconv.AppendInt(dst, c.Int64s[row], 10)
}

// checkSlot asks that the slot of an event or row is one of those that are computed.
func checkSlot[T int | int32](slot T, slots int) error {
	if slot < 0 || int(slot) >= slots {
		return fmt.Errorf("it belongs to slot %d of %d", slot, slots)
	}
	return nil
}

// bucketColumn returns the key column that decides buckets.
func (t *rowType) bucketColumn(o Options) (*field, error) {
	if o.BucketColumn < 0 || o.BucketColumn >= t.keys {
		return nil, fmt.Errorf("bucket column %d is not one of the %d key columns of %s", o.BucketColumn, t.keys, t.name)
	}
	f := &t.fields[o.BucketColumn]
	switch f.typ {
	case goString, goBytes, goInt32, goInt64:
		return f, nil
	default:
		return nil, fmt.Errorf("field %s: a %s cannot decide buckets: use a string or an integer", f.name, f.kind())
	}
}

// comparer orders two rows of batches by a key column.
type comparer func(a *record.Batch, i int, b *record.Batch, j int) int

func (t *rowType) comparers() []comparer {
	out := make([]comparer, t.keys)
	for k := range out {
		if t.fields[k].kind() == record.String {
			out[k] = func(a *record.Batch, i int, b *record.Batch, j int) int {
				return bytes.Compare(a.Columns[k].Strings.At(i), b.Columns[k].Strings.At(j))
			}
			continue
		}
		out[k] = func(a *record.Batch, i int, b *record.Batch, j int) int {
			return cmp.Compare(a.Columns[k].Int64s[i], b.Columns[k].Int64s[j])
		}
	}
	return out
}
