package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go/format"

	"hindcast/internal/parquetfile/column"
	"hindcast/internal/parquetfile/footer"
	"hindcast/internal/record"
	"hindcast/internal/unit"
)

const (
	maxFooter    = 64 << 20
	maxGroupRows = 1 << 31
)

// File is an open Parquet file: its footer, checked. It may be used concurrently
// if its io.ReaderAt may.
type File struct {
	name    string
	r       io.ReaderAt
	end     int64 // where the footer starts
	footer  *footer.Footer
	columns []field
	rules   map[string]Rule
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
		if _, ok := errors.AsType[*Error](err); ok {
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
		return refuse("with %d bytes it is too short to be Parquet; it is empty or cut off; export the file again", size)
	}
	// Most footers fit the first read.
	tail := make([]byte, min(size, 64<<10))
	if err := column.ReadAt(f.r, tail, size-int64(len(tail))); err != nil {
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
		return refuse("it ends with %q, so it is not Parquet, cut off, or still being written; if it stays so, export the file again", magic)
	}
	length := int64(binary.LittleEndian.Uint32(tail[len(tail)-trailer:]))
	if length > size-least || length > maxFooter {
		return refuse("it states a footer of %d bytes, which is more than fits; it is damaged or cut off; export the file again", length)
	}
	f.end = size - trailer - length
	if have := int64(len(tail)) - trailer; length > have {
		whole := make([]byte, length)
		copy(whole[length-have:], tail)
		if err := column.ReadAt(f.r, whole[:length-have], f.end); err != nil {
			return &Error{File: f.name, RowGroup: -1, Reason: "its footer cannot be read", Err: err}
		}
		tail = whole
	} else {
		tail = tail[have-length : have]
	}
	var err error
	if f.footer, err = footer.Parse(tail); err != nil {
		return err
	}
	if f.footer.Encrypted {
		return refuse("it is encrypted or signed with a key, which is not read")
	}
	f.trusted = trusted(f.footer.CreatedBy)
	f.allow()
	return f.reconcile()
}

// allow notes for what is known to be wrong in files of some writers, and does no harm.
func (f *File) allow() {
	short := omitsDictionaryHeader(f.footer.CreatedBy)
	// Arrow's Go writer counts a v2 page's nulls by its statistics, which it has none of for INT96, or at all where they are switched off.
	uncounted := strings.HasPrefix(f.footer.CreatedBy, "parquet-go version ")
	if !short && !uncounted {
		return
	}
	for i := range f.footer.Groups {
		for j := range f.footer.Groups[i].Chunks {
			c := &f.footer.Groups[i].Chunks[j]
			c.Uncounted = uncounted
			if short {
				c.Slack = max(0, min(100, f.end-c.Start()-c.Compressed)) // what Arrow allows for
			}
		}
	}
}

// omitsDictionaryHeader reports whether a writer states chunks without the header of their dictionary: parquet-mr before 1.2.9 (PARQUET-816).
func omitsDictionaryHeader(createdBy string) bool {
	rest, ok := strings.CutPrefix(createdBy, "parquet-mr")
	if !ok {
		return false
	}
	version, ok := strings.CutPrefix(rest, " version ")
	if !ok {
		return rest == ""
	}
	var major, minor, patch int
	n, _ := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch)
	return n == 3 && slices.Compare([]int{major, minor, patch}, []int{1, 2, 9}) < 0
}

// reconcile holds the parts of the footer against each other.
func (f *File) reconcile() error {
	cols, leaves, err := fields(f.footer.Schema, f.rules)
	if err != nil {
		return err
	}
	f.columns = cols
	rows := int64(0)
	for i := range f.footer.Groups {
		g := &f.footer.Groups[i]
		if g.Rows > maxGroupRows {
			return &Error{File: f.name, RowGroup: i, Reason: fmt.Sprintf("it states %d rows, which is more than is read", g.Rows)}
		}
		rows += g.Rows
		if len(g.Chunks) != leaves {
			return &Error{File: f.name, RowGroup: i, Reason: fmt.Sprintf("it has %d column chunks for %d columns", len(g.Chunks), leaves)}
		}
		for j := range cols {
			c := &cols[j]
			if c.reason != "" {
				continue
			}
			if err := f.checkChunk(c, &g.Chunks[c.leaf], g.Rows); err != nil && c.within {
				c.reason = err.Error() // who does not ask for it can do without
			} else if err != nil {
				return &Error{File: f.name, RowGroup: i, Column: c.name, Reason: err.Error()}
			}
		}
	}
	if rows != f.footer.Rows {
		return &Error{File: f.name, RowGroup: -1, Reason: fmt.Sprintf("it states %d rows, but its row groups hold %d", f.footer.Rows, rows)}
	}
	return nil
}

// checkChunk returns what is wrong in the file, and marks the column where it is merely not read.
func (f *File) checkChunk(c *field, m *footer.Chunk, rows int64) error {
	switch {
	case m.Encrypted:
		c.reason = "it is encrypted, which is not read"
		return nil
	case m.Elsewhere:
		c.reason = "its data lies in another file, which is not read"
		return nil
	case m.Path != c.name:
		return fmt.Errorf("its chunk is that of the column %q", m.Path)
	case format.Type(m.Type) != c.Type:
		return fmt.Errorf("its chunk has the type %v, its schema %v", format.Type(m.Type), c.Type)
	case m.Values != rows:
		return fmt.Errorf("it holds %d values for %d rows", m.Values, rows)
	}
	if reason := column.CodecReason(m.Codec); reason != "" {
		c.reason = reason
		return nil
	}
	if rows == 0 {
		return nil
	}
	start := m.Start()
	if start < 4 || m.Compressed <= 0 || start > f.end || m.Compressed > f.end-start {
		return fmt.Errorf("it states to lie at bytes %d to %d, which is outside the data (4 to %d)", start, start+m.Compressed, f.end)
	}
	return nil
}

// Schema lists the columns that can be read, in the file's order.
func (f *File) Schema() record.Schema {
	var s record.Schema
	for i := range f.columns {
		if f.columns[i].reason == "" {
			s = append(s, f.columns[i].field())
		}
	}
	return s
}

// Columns lists the names of all columns, readable or not: those in structures by their paths, as a.b, and lists and maps as one each.
func (f *File) Columns() []string {
	var names []string
	for i := range f.columns {
		names = append(names, f.columns[i].name)
	}
	return names
}

// WithRules returns the file as it is read by rules for its columns, by name. A rule for a column that the file has not has no effect.
func (f *File) WithRules(rules map[string]Rule) (*File, error) {
	ruled := *f
	ruled.rules = rules
	if err := ruled.reconcile(); err != nil {
		return nil, err
	}
	return &ruled, nil
}

// Stored describes how a column is stored, whether or not it can be read. It is not ok for lists, maps, structures and what is not there.
func (f *File) Stored(name string) (s Stored, ok bool) {
	i := f.index(name)
	if i < 0 || f.columns[i].nested {
		return Stored{}, false
	}
	c := &f.columns[i]
	return Stored{
		Type: c.Type.String(), Annotation: c.annotation(), Scale: int(c.logical.Scale), Precision: int(c.logical.Precision),
		Local: c.logical.ID == footer.Timestamp && !c.logical.UTC,
	}, true
}

// Column describes a column. The error says that there is none of that name, or why it cannot be read.
func (f *File) Column(name string) (record.Field, error) {
	c, err := f.column(name)
	if err != nil {
		return record.Field{}, err
	}
	return c.field(), nil
}

func (f *File) column(name string) (*field, error) {
	i := f.index(name)
	if i >= 0 && f.columns[i].reason == "" {
		return &f.columns[i], nil
	}
	e := &Error{File: f.name, RowGroup: -1, Column: name}
	switch inside := f.inside(name); {
	case i >= 0:
		e.Reason = f.columns[i].reason
	case inside >= 0:
		e.Reason = "it is a structure, which is not read as one value; name a column in it, as " + f.columns[inside].name
	default:
		e.Reason = "the file has no such column; it has " + strings.Join(f.Columns(), ", ")
	}
	return nil, e
}

// Has reports whether there is a column or structure of that name, readable or not.
func (f *File) Has(name string) bool { return f.index(name) >= 0 || f.inside(name) >= 0 }

// inside is the position of the first column in a structure, or -1.
func (f *File) inside(name string) int {
	return slices.IndexFunc(f.columns, func(c field) bool { return c.within && strings.HasPrefix(c.name, name+".") })
}

// index is the position of a column, or -1.
func (f *File) index(name string) int {
	return slices.IndexFunc(f.columns, func(c field) bool { return c.name == name })
}

// KeyValue returns what the file's writer noted in the footer under a key, as by [WriterOptions]; ok is false where it is not there.
func (f *File) KeyValue(key string) (value string, ok bool) {
	for _, kv := range f.footer.KeyValue {
		if string(kv.Key) == key {
			return string(kv.Value), true
		}
	}
	return "", false
}

// Name is what the file was opened as.
func (f *File) Name() string { return f.name }

// Rows is the number of rows of the file.
func (f *File) Rows() int64 { return f.footer.Rows }

// RowGroups describes the row groups, in the file's order.
func (f *File) RowGroups() []RowGroup {
	groups := make([]RowGroup, len(f.footer.Groups))
	for i, g := range f.footer.Groups {
		groups[i].Rows = g.Rows
		for _, c := range g.Chunks {
			groups[i].Bytes += unit.Bytes(max(c.Compressed, 0))
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
	if err != nil || group < 0 || group >= len(f.footer.Groups) {
		return 0, 0, false
	}
	return f.bounds(c, &f.footer.Groups[group].Chunks[c.leaf])
}

// Nulls returns how many rows of a row group are null in an integer, timestamp or date column. It is not ok
// where the footer does not say or its writer is not known to be right. A [Reader] holds what it reads against it.
func (f *File) Nulls(group int, name string) (n int64, ok bool) {
	c, err := f.column(name)
	if err != nil || group < 0 || group >= len(f.footer.Groups) {
		return 0, false
	}
	return f.nulls(c, &f.footer.Groups[group].Chunks[c.leaf])
}

func (f *File) nulls(c *field, m *footer.Chunk) (n int64, ok bool) {
	switch {
	case c.Level == 0:
		return 0, true
	case c.maybe:
		return 0, false // whether rows count whose structure is null, writers need not agree on
	case c.Type != format.Int32 && c.Type != format.Int64:
		return 0, false // Arrow has miscounted those of dictionaries
	}
	return m.Stats.Nulls, m.Stats.Counted && f.trusted
}

func (f *File) bounds(c *field, m *footer.Chunk) (lo, hi int64, ok bool) {
	if !f.trusted || c.Kind == record.String || c.Conv == column.FromUint32 || c.Conv == column.FromUint64 {
		return 0, 0, false
	}
	s := m.Stats
	if s.Min == nil || s.Max == nil {
		s.Min, s.Max = s.OldMin, s.OldMax // they are ordered as signed integers, which these are
	}
	return c.span(s.Min, s.Max)
}

// span reads bounds of integers as statistics have them. It is not ok where they are missing or contradict themselves.
func (c *field) span(least, most []byte) (lo, hi int64, ok bool) {
	switch {
	case c.Type == format.Int32 && len(least) == 4 && len(most) == 4:
		lo, hi = int64(int32(binary.LittleEndian.Uint32(least))), int64(int32(binary.LittleEndian.Uint32(most)))
	case c.Type == format.Int64 && len(least) == 8 && len(most) == 8:
		lo, hi = int64(binary.LittleEndian.Uint64(least)), int64(binary.LittleEndian.Uint64(most))
	default:
		return 0, 0, false
	}
	both := []int64{lo, hi}
	if c.Convert(both) != nil || both[0] > both[1] {
		return 0, 0, false
	}
	return both[0], both[1], true
}

// trusted reports whether a file's writer is known to write right statistics of signed integers.
func trusted(createdBy string) bool {
	for _, w := range []string{
		"hindcast ", "DuckDB", "parquet-cpp", "parquet-mr version ", "parquet-rs version ", "Polars", "Redpanda version ", "github.com/parquet-go/parquet-go ",
		"parquet-go version 1", // Arrow's; that of xitongsys calls its version "latest", and is not
	} {
		if strings.HasPrefix(createdBy, w) {
			return true
		}
	}
	return false
}
