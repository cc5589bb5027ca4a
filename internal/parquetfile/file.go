package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go/format"

	"hindcast/internal/record"
	"hindcast/internal/unit"
)

// File is an open Parquet file: its footer, checked. It may be used concurrently
// if its io.ReaderAt may.
type File struct {
	name    string
	r       io.ReaderAt
	end     int64 // where the footer starts
	footer  *footer
	columns []column
	trusted bool
}

// RowGroup describes a row group.
type RowGroup struct {
	Rows  int64
	Bytes unit.Bytes // compressed, of all columns
}

// Open reads and checks the footer of the file of size bytes behind r. The name
// is for errors, which are [Error] values. It reads no data page, page index or bloom filter.
func Open(r io.ReaderAt, size int64, name string) (*File, error) {
	f := &File{name: name, r: r}
	if err := guard(func() error { return f.open(size) }); err != nil {
		var e *Error
		if errors.As(err, &e) {
			return nil, err
		}
		return nil, &Error{File: name, RowGroup: -1, Reason: "its footer is damaged; export the file again", Err: err}
	}
	return f, nil
}

func (f *File) open(size int64) error {
	refuse := func(format string, args ...any) error {
		return &Error{File: f.name, RowGroup: -1, Reason: fmt.Sprintf(format, args...)}
	}
	const trailer, least = 8, 12
	if size < least {
		return refuse("with %d bytes it is too short to be Parquet; it is empty or cut off", size)
	}
	// Most footers fit the first read.
	tail := make([]byte, min(size, 64<<10))
	if err := readAt(f.r, tail, size-int64(len(tail))); err != nil {
		return &Error{File: f.name, RowGroup: -1, Reason: "its footer cannot be read", Err: err}
	}
	if int64(len(tail)) == size && string(tail[:4]) != "PAR1" && string(tail[:4]) != "PARE" {
		return refuse("it begins with %q, so it is not Parquet", tail[:4])
	}
	switch magic := string(tail[len(tail)-4:]); magic {
	case "PAR1":
	case "PARE":
		return refuse("its footer is encrypted, which is not read")
	default:
		return refuse("it ends with %q, so it is not Parquet, cut off, or still being written", magic)
	}
	length := int64(binary.LittleEndian.Uint32(tail[len(tail)-trailer:]))
	if length > size-least || length > maxFooter {
		return refuse("it states a footer of %d bytes, which is more than fits; it is damaged or cut off", length)
	}
	f.end = size - trailer - length
	if have := int64(len(tail)) - trailer; length > have {
		whole := make([]byte, length)
		copy(whole[length-have:], tail)
		if err := readAt(f.r, whole[:length-have], f.end); err != nil {
			return &Error{File: f.name, RowGroup: -1, Reason: "its footer cannot be read", Err: err}
		}
		tail = whole
	} else {
		tail = tail[have-length : have]
	}
	var err error
	if f.footer, err = parseFooter(tail); err != nil {
		return err
	}
	if f.footer.encrypted {
		return refuse("it is encrypted or signed with a key, which is not read")
	}
	f.trusted = trusted(f.footer.createdBy)
	return f.reconcile()
}

// reconcile holds the parts of the footer against each other.
func (f *File) reconcile() error {
	cols, leaves, err := columns(f.footer.schema)
	if err != nil {
		return err
	}
	f.columns = cols
	rows := int64(0)
	for i := range f.footer.groups {
		g := &f.footer.groups[i]
		if g.rows > maxGroupRows {
			return &Error{File: f.name, RowGroup: i, Reason: fmt.Sprintf("it states %d rows, which is more than is read", g.rows)}
		}
		rows += g.rows
		if len(g.chunks) != leaves {
			return &Error{File: f.name, RowGroup: i, Reason: fmt.Sprintf("it has %d column chunks for %d columns", len(g.chunks), leaves)}
		}
		for j := range cols {
			c := &cols[j]
			if c.reason != "" {
				continue
			}
			if err := f.checkChunk(c, &g.chunks[c.leaf], g.rows); err != nil {
				return &Error{File: f.name, RowGroup: i, Column: c.field.Name, Reason: err.Error()}
			}
		}
	}
	if rows != f.footer.rows {
		return &Error{File: f.name, RowGroup: -1, Reason: fmt.Sprintf("it states %d rows, but its row groups hold %d", f.footer.rows, rows)}
	}
	return nil
}

// checkChunk returns what is wrong in the file, and marks the column where it is merely not read.
func (f *File) checkChunk(c *column, m *chunkMeta, rows int64) error {
	switch {
	case m.encrypted:
		c.reason = "it is encrypted, which is not read"
		return nil
	case m.elsewhere:
		c.reason = "its data lies in another file, which is not read"
		return nil
	case m.path != c.field.Name:
		return fmt.Errorf("its chunk is that of the column %q", m.path)
	case format.Type(m.typ) != c.typ:
		return fmt.Errorf("its chunk has the type %v, its schema %v", format.Type(m.typ), c.typ)
	case m.values != rows:
		return fmt.Errorf("it holds %d values for %d rows", m.values, rows)
	}
	if reason := codecReason(m.codec); reason != "" {
		c.reason = reason
		return nil
	}
	if rows == 0 {
		return nil
	}
	start := m.start()
	if start < 4 || m.compressed <= 0 || start > f.end || m.compressed > f.end-start {
		return fmt.Errorf("it states to lie at bytes %d to %d, which is outside the data (4 to %d)", start, start+m.compressed, f.end)
	}
	return nil
}

// start is where the first page lies.
func (m *chunkMeta) start() int64 {
	if m.dictOffset > 0 && m.dictOffset < m.dataOffset {
		return m.dictOffset
	}
	return m.dataOffset
}

// Schema lists the columns that can be read, in the file's order.
func (f *File) Schema() record.Schema {
	var s record.Schema
	for i := range f.columns {
		if f.columns[i].reason == "" {
			s = append(s, f.columns[i].field)
		}
	}
	return s
}

// Columns lists the names of all top-level columns, readable or not.
func (f *File) Columns() []string {
	var names []string
	for i := range f.columns {
		names = append(names, f.columns[i].field.Name)
	}
	return names
}

// Column describes a column. The error says that there is none of that name, or why it cannot be read.
func (f *File) Column(name string) (record.Field, error) {
	c, err := f.column(name)
	if err != nil {
		return record.Field{}, err
	}
	return c.field, nil
}

func (f *File) column(name string) (*column, error) {
	i := slices.IndexFunc(f.columns, func(c column) bool { return c.field.Name == name })
	if i < 0 {
		reason := "the file has no such column; it has " + strings.Join(f.Columns(), ", ")
		return nil, &Error{File: f.name, RowGroup: -1, Column: name, Reason: reason}
	}
	if c := &f.columns[i]; c.reason == "" {
		return c, nil
	}
	return nil, &Error{File: f.name, RowGroup: -1, Column: name, Reason: f.columns[i].reason}
}

// Name is what the file was opened as.
func (f *File) Name() string { return f.name }

// Rows is the number of rows of the file.
func (f *File) Rows() int64 { return f.footer.rows }

// RowGroups describes the row groups, in the file's order.
func (f *File) RowGroups() []RowGroup {
	groups := make([]RowGroup, len(f.footer.groups))
	for i, g := range f.footer.groups {
		groups[i].Rows = g.rows
		for _, c := range g.chunks {
			groups[i].Bytes += unit.Bytes(max(c.compressed, 0))
		}
	}
	return groups
}

// Bounds returns the least and greatest value of an integer, timestamp or date
// column in a row group, as the footer has them, nulls left aside. It is not
// ok where they are missing, all values are null, or the writer of the file is not known to
// write them right. A [Reader] holds what it reads against them.
func (f *File) Bounds(group int, name string) (lo, hi int64, ok bool) {
	c, err := f.column(name)
	if err != nil || group < 0 || group >= len(f.footer.groups) {
		return 0, 0, false
	}
	return f.bounds(c, &f.footer.groups[group].chunks[c.leaf])
}

// Nulls returns how many rows of a row group are null in a column. It is not ok
// where the footer does not say or its writer is not known to be right. A [Reader] holds what it reads against it.
func (f *File) Nulls(group int, name string) (n int64, ok bool) {
	c, err := f.column(name)
	if err != nil || group < 0 || group >= len(f.footer.groups) {
		return 0, false
	}
	if !c.field.Nullable {
		return 0, true
	}
	s := &f.footer.groups[group].chunks[c.leaf].stats
	return s.nulls, s.counted && f.trusted
}

func (f *File) bounds(c *column, m *chunkMeta) (lo, hi int64, ok bool) {
	if !f.trusted || c.conv == fromUint32 || c.conv == fromUint64 {
		return 0, 0, false
	}
	s := m.stats
	if s.min == nil || s.max == nil {
		s.min, s.max = s.oldMin, s.oldMax // they are ordered as signed integers, which these are
	}
	switch {
	case c.typ == format.Int32 && len(s.min) == 4 && len(s.max) == 4:
		lo, hi = int64(int32(binary.LittleEndian.Uint32(s.min))), int64(int32(binary.LittleEndian.Uint32(s.max)))
	case c.typ == format.Int64 && len(s.min) == 8 && len(s.max) == 8:
		lo, hi = int64(binary.LittleEndian.Uint64(s.min)), int64(binary.LittleEndian.Uint64(s.max))
	default:
		return 0, 0, false
	}
	both := []int64{lo, hi}
	if convert(both, c.conv) != nil || both[0] > both[1] {
		return 0, 0, false
	}
	return both[0], both[1], true
}

// trusted reports whether a file's writer is known to write right statistics of signed integers.
func trusted(createdBy string) bool {
	for _, w := range []string{
		"hindcast ", "DuckDB", "parquet-cpp", "parquet-mr ", "parquet-rs ", "parquet-go ", "github.com/parquet-go/parquet-go",
		"Polars", "Arrow", "parquet-glib", "AWS",
	} {
		if strings.HasPrefix(createdBy, w) {
			return true
		}
	}
	return false
}

// readAt fills b from offset off.
func readAt(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return &readError{fmt.Errorf("read %d bytes at %d: %w", len(b), off, err)}
}

// readError is a failure of storage: the file's contents are not to blame.
type readError struct{ error }

func (e *readError) Unwrap() error { return e.error }
