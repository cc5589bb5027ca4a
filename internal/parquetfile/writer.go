package parquetfile

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"hindcast/internal/record"
)

// Encoding is how a column's values are laid out before compression.
type Encoding uint8

// The encodings that can be written. All common readers know them.
const (
	// Auto is Dictionary for strings and dates, Plain for all else.
	Auto Encoding = iota
	Plain
	// Dictionary goes on as Plain within a row group whose dictionary passes 1 MiB.
	Dictionary
	// Delta stores differences: of integers, dates and timestamps from their predecessors; of strings, what follows the prefix
	// that they share with theirs. Bool and Float64 columns have none.
	Delta
)

// WriterOptions says how to lay a file out. The zero value works.
type WriterOptions struct {
	// RowGroupRows is the most rows of a row group; 0 means 131,072. A group ends earlier when its values pass 128 MiB.
	RowGroupRows int
	// Encodings are by column name; other columns are Auto.
	Encodings map[string]Encoding
	// Millis names the Timestamp columns that are stored in milliseconds. A value that is no whole millisecond is then an error.
	Millis []string
	// Binary names the String columns that are any bytes: the file does not call them text.
	Binary []string
	// KeyValue is metadata for the footer.
	KeyValue map[string]string
}

const (
	defaultRowGroupRows = 1 << 17
	rowGroupBytes       = 128 << 20
	pageBytes           = 256 << 10
	dictionaryBytes     = 1 << 20
	// stepRows is how many rows pass through all columns at a time.
	stepRows = 1024
)

// Writer writes batches to one Parquet file: zstd, CRCs, statistics and page
// index, columns in the order of the schema with field ids from 1. The same
// rows give the same bytes, however they are cut into batches. It buffers one row
// group, compressed. It is not safe for concurrent use; after an error it writes no more.
type Writer struct {
	schema  record.Schema
	w       *parquet.Writer //nolint:staticcheck // GenericWriter wants a Go type; the columns are known at run time only
	columns []columnWriter
	values  []parquet.Value
	group   int   // rows per group, at most
	rows    int   // rows in the current group
	bytes   int64 // of values in the current group
	err     error
}

// columnWriter ends pages itself, by rows and lengths alone: the library does
// so at the end of whatever batch happens to fill its buffer.
type columnWriter struct {
	*parquet.ColumnWriter
	name   string
	width  int // bytes that a value counts for, beside a string's length
	millis bool
	page   int // bytes in the current page
}

// NewWriter starts a file. Options that do not fit the schema are an error. The
// caller owns w and must call [Writer.Close].
func NewWriter(w io.Writer, schema record.Schema, opts WriterOptions) (*Writer, error) {
	if err := checkOptions(schema, opts); err != nil {
		return nil, fmt.Errorf("write parquet: %w", err)
	}
	out := &Writer{schema: schema, group: opts.RowGroupRows, values: make([]parquet.Value, 0, stepRows)}
	if out.group == 0 {
		out.group = defaultRowGroupRows
	}
	root := &rootNode{}
	for i, f := range schema {
		c := columnWriter{name: f.Name, width: valueWidth(f), millis: slices.Contains(opts.Millis, f.Name)}
		out.columns = append(out.columns, c)
		root.fields = append(root.fields, &fieldNode{Node: parquet.FieldID(columnNode(f, opts.Encodings[f.Name], c.millis, slices.Contains(opts.Binary, f.Name)), i+1), name: f.Name})
	}
	config := []parquet.WriterOption{
		parquet.NewSchema("schema", root),
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedDefault}),
		// The library's own default depends on how the binary was built.
		parquet.CreatedBy("hindcast", "1.0.0", "parquet-go-0.32.0"),
		parquet.PageBufferSize(4 * pageBytes), // more than columnWriter lets a page have, so that the library ends none
		parquet.DictionaryMaxBytes(dictionaryBytes),
		parquet.DataPageVersion(2),
		parquet.DataPageStatistics(true),
		parquet.MaxRowsPerRowGroup(math.MaxInt64),
	}
	for _, k := range slices.Sorted(maps.Keys(opts.KeyValue)) {
		config = append(config, parquet.KeyValueMetadata(k, opts.KeyValue[k]))
	}
	err := guard(func() error {
		out.w = parquet.NewWriter(w, config...)
		for i, c := range out.w.ColumnWriters() {
			out.columns[i].ColumnWriter = c
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("write parquet: %w", err)
	}
	return out, nil
}

func checkOptions(schema record.Schema, opts WriterOptions) error {
	if len(schema) == 0 {
		return errors.New("a file needs a column")
	}
	if opts.RowGroupRows < 0 {
		return fmt.Errorf("%d rows per row group", opts.RowGroupRows)
	}
	seen := map[string]record.Kind{}
	for _, f := range schema {
		if _, ok := seen[f.Name]; ok || f.Name == "" {
			return fmt.Errorf("column name %q is empty or repeated", f.Name)
		}
		if f.Kind < record.Bool || f.Kind > record.Date {
			return fmt.Errorf("column %q: cannot write %v", f.Name, f.Kind)
		}
		seen[f.Name] = f.Kind
	}
	for name, enc := range opts.Encodings {
		kind, ok := seen[name]
		switch {
		case !ok:
			return fmt.Errorf("encoding for %q, which is no column", name)
		case enc > Delta, enc == Delta && (kind == record.Bool || kind == record.Float64), enc == Dictionary && kind == record.Bool:
			return fmt.Errorf("column %q: no such encoding for %v", name, kind)
		}
	}
	for _, name := range opts.Millis {
		if seen[name] != record.Timestamp {
			return fmt.Errorf("milliseconds for %q, which is no timestamp column", name)
		}
	}
	for _, name := range opts.Binary {
		if seen[name] != record.String {
			return fmt.Errorf("any bytes for %q, which is no string column", name)
		}
	}
	return nil
}

// Write appends the rows of b, whose columns are those of the schema. Nulls in a column that is not nullable are an error.
func (w *Writer) Write(b *record.Batch) error {
	if w.err == nil {
		w.err = guard(func() error { return w.write(b) })
	}
	if w.err != nil {
		return fmt.Errorf("write parquet: %w", w.err)
	}
	return nil
}

// Close writes what is buffered and the footer. A file without rows is a valid file.
func (w *Writer) Close() error {
	if w.err == nil {
		if w.err = guard(w.w.Close); w.err == nil {
			w.err = errClosed
			return nil
		}
	}
	return fmt.Errorf("write parquet: %w", w.err)
}

var errClosed = errors.New("the file is closed")

func (w *Writer) write(b *record.Batch) error {
	if len(b.Columns) != len(w.schema) {
		return fmt.Errorf("a batch of %d columns for a file of %d", len(b.Columns), len(w.schema))
	}
	for i, f := range w.schema {
		if b.Columns[i].Kind != f.Kind {
			return fmt.Errorf("column %q: %v values for a column of %v", f.Name, b.Columns[i].Kind, f.Kind)
		}
	}
	for at := 0; at < b.Len; {
		// Steps end at multiples of stepRows within the group, so that what is decided between them depends on rows only.
		n := min(b.Len-at, stepRows-w.rows%stepRows, w.group-w.rows)
		for i := range w.columns {
			if err := w.writeColumn(i, &b.Columns[i], at, at+n); err != nil {
				return fmt.Errorf("column %q: %w", w.columns[i].name, err)
			}
		}
		at, w.rows = at+n, w.rows+n
		if w.rows == w.group || w.rows%stepRows == 0 && w.bytes >= rowGroupBytes {
			if err := w.endGroup(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *Writer) endGroup() error {
	w.rows, w.bytes = 0, 0
	for i := range w.columns {
		w.columns[i].page = 0
	}
	return w.w.Flush()
}

// writeColumn appends rows [from, to) of c, ending pages on the way.
func (w *Writer) writeColumn(i int, c *record.Column, from, to int) error {
	out, f := &w.columns[i], w.schema[i]
	level := 0
	if f.Nullable {
		level = 1
	}
	values := w.values[:0]
	for row := from; row < to; row++ {
		var v parquet.Value
		size := out.width
		switch {
		case c.Nulls.Get(row):
			if !f.Nullable {
				return fmt.Errorf("row %d of the batch is null, and the column is not nullable", row)
			}
			values = append(values, parquet.NullValue().Level(0, 0, i))
		case f.Kind == record.String:
			s := c.Strings.At(row)
			size += len(s)
			values = append(values, parquet.ByteArrayValue(s).Level(0, level, i))
		default:
			var err error
			if v, err = fixedValue(f.Kind, c, row, out.millis); err != nil {
				return err
			}
			values = append(values, v.Level(0, level, i))
		}
		out.page += size
		w.bytes += int64(size)
		if out.page >= pageBytes {
			if err := out.append(values); err != nil {
				return err
			}
			if err := out.Flush(); err != nil {
				return err
			}
			out.page, values = 0, values[:0]
		}
	}
	return out.append(values)
}

func (c *columnWriter) append(values []parquet.Value) error {
	if len(values) == 0 {
		return nil
	}
	n, err := c.WriteRowValues(values)
	if err == nil && n != len(values) {
		err = fmt.Errorf("wrote %d of %d rows", n, len(values))
	}
	return err
}

func fixedValue(kind record.Kind, c *record.Column, row int, millis bool) (parquet.Value, error) {
	if kind == record.Float64 {
		return parquet.DoubleValue(c.Float64s[row]), nil
	}
	v := c.Int64s[row]
	switch {
	case kind == record.Bool:
		return parquet.BooleanValue(v != 0), nil
	case kind == record.Date:
		if v < math.MinInt32 || v > math.MaxInt32 {
			return parquet.Value{}, fmt.Errorf("%d days since 1970 are past what a Parquet date holds", v)
		}
		return parquet.Int32Value(int32(v)), nil
	case millis:
		if v%1000 != 0 {
			return parquet.Value{}, fmt.Errorf("the timestamp %d µs is no whole millisecond", v)
		}
		return parquet.Int64Value(v / 1000), nil
	}
	return parquet.Int64Value(v), nil
}

// valueWidth bounds what a value takes of the library's buffers, without the bytes of a string.
func valueWidth(f record.Field) int {
	n := 8
	if f.Nullable {
		n += 5 // a definition level and a row index
	}
	return n
}
