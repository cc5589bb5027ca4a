package table

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"unicode/utf8"

	"hindcast/internal/parquetfile"
	"hindcast/internal/record"
)

// OutputFormat is how [Cat] writes rows.
type OutputFormat string

// The formats.
const (
	CSV     OutputFormat = "csv"     // a header, then a row a line, values as [Text] writes them; null and the empty string look alike
	JSON    OutputFormat = "json"    // an object a line, members in the order of the columns
	Parquet OutputFormat = "parquet" // one file
)

// Cat streams a table's rows to w, ordered by partition, then by key. The
// partition of a table cut by time is the first column, a bucket is none.
func Cat(ctx context.Context, s *Snapshot, name string, w io.Writer, format OutputFormat) error {
	t, err := s.Table(name)
	if err != nil {
		return err
	}
	columns := t.Schema.Columns()
	switch format {
	case CSV:
		return catCSV(ctx, s, name, columns, w)
	case JSON:
		return catJSON(ctx, s, name, columns, w)
	case Parquet:
		out, err := parquetfile.NewWriter(w, columns, parquetfile.WriterOptions{})
		if err != nil {
			return err
		}
		if err := s.Scan(ctx, name, out.Write); err != nil {
			return err
		}
		return out.Close()
	}
	return fmt.Errorf("unknown format %q: there are csv, json and parquet", format)
}

func catCSV(ctx context.Context, s *Snapshot, name string, columns record.Schema, w io.Writer) error {
	out := csv.NewWriter(w)
	row := make([]string, len(columns))
	for i, f := range columns {
		row[i] = f.Name
	}
	if err := out.Write(row); err != nil {
		return err
	}
	err := s.Scan(ctx, name, func(b *record.Batch) error {
		for i := range b.Len {
			for c := range b.Columns {
				row[c] = Text(&b.Columns[c], i)
			}
			if err := out.Write(row); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	out.Flush()
	return out.Error()
}

func catJSON(ctx context.Context, s *Snapshot, name string, columns record.Schema, w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	names := make([][]byte, len(columns))
	for i, f := range columns {
		key, err := encode(f.Name)
		if err != nil {
			return err
		}
		names[i] = append(bytes.TrimSuffix(key, []byte("\n")), ':')
	}
	var line []byte
	err := s.Scan(ctx, name, func(b *record.Batch) error {
		for i := range b.Len {
			line = append(line[:0], '{')
			for c := range b.Columns {
				if c > 0 {
					line = append(line, ',')
				}
				line = append(line, names[c]...)
				var err error
				if line, err = appendJSON(line, &b.Columns[c], i); err != nil {
					return fmt.Errorf("column %s: %w", columns[c].Name, err)
				}
			}
			if _, err := out.Write(append(line, '}', '\n')); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return out.Flush()
}

// appendJSON writes row i of a column as JSON: integers with all their digits, timestamps and dates as strings, floats that JSON
// does not have ("NaN", "+Inf", "-Inf") too. Bytes that are not text are an error, since JSON would change them.
func appendJSON(b []byte, c *record.Column, i int) ([]byte, error) {
	if c.Nulls.Get(i) {
		return append(b, "null"...), nil
	}
	switch c.Kind {
	case record.Timestamp, record.Date:
		return append(appendText(append(b, '"'), c, i), '"'), nil
	case record.Float64:
		if f := c.Float64s[i]; math.IsNaN(f) || math.IsInf(f, 0) {
			return append(appendText(append(b, '"'), c, i), '"'), nil
		}
	case record.String:
		v := c.Strings.At(i)
		if !utf8.Valid(v) {
			return b, fmt.Errorf("%q is not UTF-8, which JSON cannot hold: use csv or parquet", v)
		}
		text, err := encode(string(v))
		return append(b, bytes.TrimSuffix(text, []byte("\n"))...), err
	default: // as text
	}
	return appendText(b, c, i), nil
}
