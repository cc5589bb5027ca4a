package parquetfile

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"hindcast/internal/record"
)

// Encoding is how a column's values are laid out before compression.
type Encoding uint8

// The encodings that can be written. All common readers know them.
const (
	// Auto is Dictionary for strings and dates, Delta for integers and timestamps of a row group that become about as small by it, Plain for all else.
	Auto Encoding = iota
	Plain
	// Dictionary ends within a row group whose dictionary passes 1 MiB, and is not used where hardly a value of its first page comes twice. Strings then lie behind
	// the differences of their lengths (DELTA_LENGTH_BYTE_ARRAY), other values are Plain.
	Dictionary
	// Delta stores differences: of integers, dates and timestamps from their predecessors; of strings, what follows the prefix
	// that they share with theirs. Bool and Float64 columns have none.
	Delta
)

// WriterOptions says how to lay a file out. The zero value works.
type WriterOptions struct {
	// RowGroupRows is the most rows of a row group; 0 means 131,072. A group ends earlier when its values pass 128 MiB.
	RowGroupRows int
	// PageBytes is the size of values, before they are encoded, at which a page ends; 0 means 256 KiB.
	PageBytes int
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
//
// See https://github.com/apache/parquet-format: data pages are of version 2, and a page index precedes the footer.
type Writer struct {
	schema  record.Schema
	w       io.Writer
	at      int64 // bytes written
	columns []*chunkWriter
	group   int          // rows per group, at most
	rows    int          // rows in the current group
	bytes   int64        // of values in the current group
	lent    *record.Lent // where columns of the current group are
	taken   []int64      // memory of its rows
	footer  format.FileMetaData
	indexes [][]format.ColumnIndex // by row group and column
	offsets [][]format.OffsetIndex
	err     error
}

const magic = "PAR1"

// NewWriter starts a file. Options that do not fit the schema are an error. The
// caller owns w and must call [Writer.Close].
func NewWriter(w io.Writer, schema record.Schema, opts WriterOptions) (*Writer, error) {
	if err := checkOptions(schema, opts); err != nil {
		return nil, fmt.Errorf("write parquet: %w", err)
	}
	out := &Writer{schema: schema, w: w, group: cmp.Or(opts.RowGroupRows, defaultRowGroupRows)}
	out.footer = format.FileMetaData{
		Version: 2, KeyValueMetadata: []format.KeyValue{}, // empty lists are written, as ever
		CreatedBy: "hindcast version 1.0.0(build parquet-go-0.32.0)",
		Schema:    []format.SchemaElement{{Name: "schema", NumChildren: thrift.New(count(len(schema)))}},
	}
	shared := new(bench)
	for i, f := range schema {
		c := newChunkWriter(f, opts.Encodings[f.Name], slices.Contains(opts.Millis, f.Name), shared)
		c.full = cmp.Or(opts.PageBytes, pageBytes)
		out.columns = append(out.columns, c)
		out.footer.Schema = append(out.footer.Schema, c.schemaElement(i+1, slices.Contains(opts.Binary, f.Name)))
		out.footer.ColumnOrders = append(out.footer.ColumnOrders, format.ColumnOrder{Value: new(format.TypeDefinedOrder)})
	}
	for _, k := range slices.Sorted(maps.Keys(opts.KeyValue)) {
		out.footer.KeyValueMetadata = append(out.footer.KeyValueMetadata, format.KeyValue{Key: k, Value: opts.KeyValue[k]})
	}
	return out, nil
}

// packWindow is how far back a page's matches lie at most. Pages are hardly ever larger; a coder holds as much.
const packWindow = 512 << 10

// compressor packs pages at the fastest level, for all files: few are at work at a time.
type compressor struct {
	literals bool
	coders   sync.Pool
}

// What has no match is left as it is by that for numbers, and that for texts makes rare bytes take more bits than others: random ids become smaller by it, at little cost.
var numbers, texts = compressor{}, compressor{literals: true}

// pack appends src, compressed, to dst.
func (c *compressor) pack(src, dst []byte) ([]byte, error) {
	z, ok := c.coders.Get().(*zstd.Encoder)
	if !ok {
		var err error
		z, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(packWindow), zstd.WithEncoderConcurrency(1), zstd.WithZeroFrames(true), zstd.WithEncoderCRC(false),
			zstd.WithLowerEncoderMem(true), zstd.WithAllLitEntropyCompression(c.literals))
		if err != nil {
			return nil, err
		}
	}
	defer c.coders.Put(z)
	return z.EncodeAll(src, dst), nil
}

func checkOptions(schema record.Schema, opts WriterOptions) error {
	if len(schema) == 0 {
		return errors.New("a file needs a column")
	}
	if opts.RowGroupRows < 0 || opts.PageBytes < 0 {
		return fmt.Errorf("%d rows per row group, pages of %d bytes", opts.RowGroupRows, opts.PageBytes)
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
	_, err := w.Fill(b, 0, math.MaxInt64)
	return err
}

// Fill appends rows of b from one on, as Write does, until the file has target bytes, about, beside its footer; it returns the first row that it did not
// take, or b.Len. Where it ends depends on the rows of the file alone: a file that is full takes no row.
func (w *Writer) Fill(b *record.Batch, from int, target int64) (next int, err error) {
	if w.err == nil {
		w.err = guard(func() (err error) { next, err = w.write(b, from, target); return err })
	}
	if w.err != nil {
		return next, fmt.Errorf("write parquet: %w", w.err)
	}
	return next, nil
}

// Close writes what is buffered and the footer. A file without rows is a valid file.
func (w *Writer) Close() error {
	if w.err == nil {
		if w.err = guard(w.close); w.err == nil {
			w.err = errClosed
			return nil
		}
	}
	return fmt.Errorf("write parquet: %w", w.err)
}

var errClosed = errors.New("the file is closed")

// size is about how many bytes the file has, with what is still buffered: of a page that is not compressed yet, a quarter.
func (w *Writer) size() int64 {
	n := w.at
	for _, c := range w.columns {
		n += int64(c.pages.Len() + c.dict.size() + c.page.size/4)
	}
	return n
}

func (w *Writer) write(b *record.Batch, at int, target int64) (next int, err error) {
	if len(b.Columns) != len(w.schema) {
		return at, fmt.Errorf("a batch of %d columns for a file of %d", len(b.Columns), len(w.schema))
	}
	for i, f := range w.schema {
		if b.Columns[i].Kind != f.Kind {
			return at, fmt.Errorf("column %q: %v values for a column of %v", f.Name, b.Columns[i].Kind, f.Kind)
		}
	}
	if b.Lent != nil && at < b.Len {
		return w.writeLent(b, at, target)
	}
	if w.lent != nil {
		if err := w.endGroup(); err != nil {
			return at, err
		}
	}
	for at < b.Len {
		if w.rows%stepRows == 0 && w.size() >= target {
			return at, nil
		}
		// Steps end at multiples of stepRows within the group, so that what is decided between them depends on rows only.
		n := min(b.Len-at, stepRows-w.rows%stepRows, w.group-w.rows)
		for i, c := range w.columns {
			size, err := c.append(&b.Columns[i], at, at+n)
			if err != nil {
				return at, fmt.Errorf("column %q: %w", c.field.Name, err)
			}
			w.bytes += int64(size)
		}
		at, w.rows = at+n, w.rows+n
		if w.rows == w.group || w.rows%stepRows == 0 && w.bytes >= rowGroupBytes {
			if err := w.endGroup(); err != nil {
				return at, err
			}
		}
	}
	return at, nil
}

// writeLent adds rows of which columns are lent. They are a row group for as long as rows of one that is lent follow one another; a file ends between two.
func (w *Writer) writeLent(b *record.Batch, at int, target int64) (next int, err error) {
	l, ok := b.Lent.From.(*Lent)
	if !ok || at > 0 || len(b.Lent.Rows) != b.Len || len(b.Lent.Names) != len(w.schema) {
		return at, fmt.Errorf("from row %d on, %d rows of %d columns are lent, by %T, to a batch of %d rows", at, len(b.Lent.Rows), len(b.Lent.Names), b.Lent.From, b.Len)
	}
	if !w.goesOn(b.Lent) {
		if err := w.endGroup(); err != nil || w.size() >= target {
			return 0, err
		}
		for i, c := range w.columns {
			if name := b.Lent.Names[i]; name != "" && !l.file.CanLend(name, c.field) {
				return 0, fmt.Errorf("column %q: column %q of %s cannot be taken as it lies", c.field.Name, name, l.file.name)
			}
		}
		w.lent = &record.Lent{From: l, Names: slices.Clone(b.Lent.Names), Rows: w.taken[:0]}
	}
	for i, c := range w.columns {
		if w.lent.Names[i] != "" {
			continue
		}
		if _, err := c.append(&b.Columns[i], 0, b.Len); err != nil {
			return 0, fmt.Errorf("column %q: %w", c.field.Name, err)
		}
	}
	w.lent.Rows = append(w.lent.Rows, b.Lent.Rows...)
	w.rows += b.Len
	return b.Len, nil
}

// goesOn reports whether rows belong to the current row group, which is of lent ones, too.
func (w *Writer) goesOn(l *record.Lent) bool {
	return w.lent != nil && *w.lent.From.(*Lent) == *l.From.(*Lent) && slices.Equal(w.lent.Names, l.Names) && w.lent.Rows[len(w.lent.Rows)-1] < l.Rows[0]
}

// endGroup writes the row group, if it has a row.
func (w *Writer) endGroup() error {
	if w.rows == 0 {
		return nil
	}
	if err := w.begin(); err != nil {
		return err
	}
	g := format.RowGroup{NumRows: int64(w.rows), SortingColumns: []format.SortingColumn{}, FileOffset: w.at, Ordinal: int16(len(w.footer.RowGroups))} //nolint:gosec // checked below
	if len(w.footer.RowGroups) > math.MaxInt16 {
		return fmt.Errorf("more than %d row groups", math.MaxInt16+1)
	}
	indexes, offsets := make([]format.ColumnIndex, len(w.columns)), make([]format.OffsetIndex, len(w.columns))
	for i, c := range w.columns {
		if w.lent != nil && w.lent.Names[i] != "" {
			l := w.lent.From.(*Lent)
			if err := c.lend(l, w.lent.Names[i], w.lent.Rows); err != nil {
				return fmt.Errorf("column %q, taken as it lies: %w", c.field.Name, l.file.wrap(l.group, w.lent.Names[i], err))
			}
		}
		if err := c.finish(w.at, w.put); err != nil {
			return fmt.Errorf("column %q: %w", c.field.Name, err)
		}
		g.Columns = append(g.Columns, format.ColumnChunk{MetaData: c.meta})
		g.TotalByteSize += c.meta.TotalUncompressedSize
		g.TotalCompressedSize += c.meta.TotalCompressedSize
		indexes[i], offsets[i] = c.index, c.offsets
		c.reset()
	}
	w.footer.RowGroups = append(w.footer.RowGroups, g)
	w.indexes, w.offsets = append(w.indexes, indexes), append(w.offsets, offsets)
	w.footer.NumRows += int64(w.rows)
	if w.lent != nil {
		w.taken = w.lent.Rows
	}
	w.rows, w.bytes, w.lent = 0, 0, nil
	return nil
}

func (w *Writer) begin() error {
	if w.at > 0 {
		return nil
	}
	return w.put([]byte(magic))
}

func (w *Writer) put(b []byte) error {
	n, err := w.w.Write(b)
	w.at += int64(n)
	return err
}

func (w *Writer) close() error {
	if err := w.endGroup(); err != nil {
		return err
	}
	if err := w.begin(); err != nil {
		return err
	}
	var out bytes.Buffer
	for g := range w.indexes {
		for i := range w.indexes[g] {
			c := &w.footer.RowGroups[g].Columns[i]
			if w.indexes[g][i].NullPages == nil {
				continue // of pages whose bounds are not known
			}
			c.ColumnIndexOffset = w.at + int64(out.Len())
			if err := encodeThrift(&out, &w.indexes[g][i]); err != nil {
				return err
			}
			c.ColumnIndexLength = count(int(w.at + int64(out.Len()) - c.ColumnIndexOffset))
		}
	}
	for g := range w.offsets {
		for i := range w.offsets[g] {
			c := &w.footer.RowGroups[g].Columns[i]
			c.OffsetIndexOffset = w.at + int64(out.Len())
			if err := encodeThrift(&out, &w.offsets[g][i]); err != nil {
				return err
			}
			c.OffsetIndexLength = count(int(w.at + int64(out.Len()) - c.OffsetIndexOffset))
		}
	}
	footer := out.Len()
	if err := encodeThrift(&out, &w.footer); err != nil {
		return err
	}
	out.Write(binary.LittleEndian.AppendUint32(nil, uint32(out.Len()-footer))) //nolint:gosec // far less
	out.WriteString(magic)
	return w.put(out.Bytes())
}

// valueWidth is what a value counts for where a page or a row group ends, without the bytes of a string.
func valueWidth(f record.Field) int {
	n := 8
	if f.Nullable {
		n += 5 // a definition level and a row index
	}
	return n
}
