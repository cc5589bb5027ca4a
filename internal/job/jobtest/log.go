package jobtest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"hindcast/internal/parquetfile"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/spec"
	"hindcast/internal/transform"
)

// Log is records for a job to run over.
type Log struct {
	read func(s *spec.Spec, columns record.Schema) ([]part, error)
}

// part is the records of a topic partition: the columns asked for, then [transform.ErrorColumn].
type part struct {
	partition int32
	batch     *record.Batch
	tail      plan.Ranges // offsets that are not from segments
}

// JSONL is a log of one JSON object a line: the event itself, then records are numbered from 0 in partition 0, or as exported from Kafka,
// {"partition":0,"offset":12,"value":{…}}. Empty lines do not count.
func JSONL(tb testing.TB, text string) Log {
	tb.Helper()
	return Log{func(_ *spec.Spec, columns record.Schema) ([]part, error) {
		p := parts{columns: columns}
		if err := p.readJSON(strings.NewReader(text)); err != nil {
			return nil, err
		}
		return p.sorted()
	}}
}

// Folder is a log of all Parquet segments (*.parquet) and files of JSON lines (*.jsonl, *.jsonl.zst: the tail) below a folder. Segments have the
// columns that the job's source names for partition and offset.
func Folder(tb testing.TB, dir string) Log {
	tb.Helper()
	return Log{func(s *spec.Spec, columns record.Schema) ([]part, error) {
		var segments, tails []string
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || d.IsDir():
			case strings.HasSuffix(path, ".parquet"):
				segments = append(segments, path)
			case strings.HasSuffix(path, ".jsonl"), strings.HasSuffix(path, ".jsonl.zst"):
				tails = append(tails, path)
			}
			return err
		})
		p := parts{columns: columns}
		for _, path := range segments {
			err = errors.Join(err, p.readParquet(path, s.Source.Segments.Columns))
		}
		for _, path := range tails {
			err = errors.Join(err, p.readJSONFile(path))
		}
		if err != nil {
			return nil, err
		}
		return p.sorted()
	}}
}

// parts collects records by topic partition.
type parts struct {
	columns record.Schema
	list    []part
}

func (p *parts) of(partition int32) *part {
	i := slices.IndexFunc(p.list, func(d part) bool { return d.partition == partition })
	if i < 0 {
		i = len(p.list)
		b := &record.Batch{Columns: make([]record.Column, len(p.columns)+1)}
		for c, f := range p.columns {
			b.Columns[c].Kind = f.Kind
		}
		b.Columns[len(p.columns)].Kind = record.String
		p.list = append(p.list, part{partition: partition, batch: b})
	}
	return &p.list[i]
}

// sorted returns the parts by topic partition, their records by offset.
func (p *parts) sorted() ([]part, error) {
	slices.SortFunc(p.list, func(a, b part) int { return cmp.Compare(a.partition, b.partition) })
	for i := range p.list {
		d := &p.list[i]
		for n := range d.batch.Columns {
			for c := &d.batch.Columns[n]; len(c.Nulls)*64 < d.batch.Len; {
				c.Nulls = append(c.Nulls, 0)
			}
		}
		if !slices.IsSorted(d.batch.Offsets) {
			return nil, fmt.Errorf("records of partition %d are not in offset order", d.partition)
		}
	}
	return p.list, nil
}

func (p *parts) readParquet(path string, kafka plan.KafkaColumns) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	f, err := parquetfile.Open(bytes.NewReader(b), int64(len(b)), path)
	if err != nil {
		return err
	}
	names := []string{kafka.Partition, kafka.Offset}
	for _, c := range p.columns {
		names = append(names, c.Name)
	}
	for r := f.Read(parquetfile.ReadOptions{Columns: names}); ; {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for i, c := range p.columns {
			if b.Columns[i+2].Kind != c.Kind {
				return fmt.Errorf("%s: column %s is %s, the job reads %s", path, c.Name, b.Columns[i+2].Kind, c.Kind)
			}
		}
		for row := range b.Len {
			d := p.of(int32(b.Columns[0].Int64s[row])).batch
			d.Offsets = append(d.Offsets, b.Columns[1].Int64s[row])
			for i := range p.columns {
				appendFrom(&d.Columns[i], d.Len, &b.Columns[i+2], row)
			}
			appendNull(&d.Columns[len(p.columns)], d.Len)
			d.Len++
		}
	}
}

func (p *parts) readJSONFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".zst") {
		z, err := zstd.NewReader(f)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		defer z.Close()
		r = z
	}
	if err := p.readJSON(r); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (p *parts) readJSON(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if err := p.addJSON(lines.Bytes()); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return lines.Err()
}

func (p *parts) addJSON(line []byte) error {
	var rec struct {
		Partition int32           `json:"partition"`
		Offset    *int64          `json:"offset"`
		Value     json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(line, &rec); err != nil {
		return err
	}
	if rec.Value == nil || rec.Offset == nil {
		rec.Partition, rec.Offset, rec.Value = 0, nil, line
	}
	var event map[string]any
	dec := json.NewDecoder(bytes.NewReader(rec.Value))
	dec.UseNumber()
	if err := dec.Decode(&event); err != nil {
		return err
	}
	d := p.of(rec.Partition)
	offset := int64(d.batch.Len)
	if rec.Offset != nil {
		offset = *rec.Offset
		d.tail = d.tail.Union(plan.Ranges{{First: offset, Next: offset + 1}})
	}
	b := d.batch
	for i, f := range p.columns {
		if err := appendJSON(&b.Columns[i], b.Len, event[f.Name]); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	appendNull(&b.Columns[len(p.columns)], b.Len)
	b.Offsets = append(b.Offsets, offset)
	b.Len++
	return nil
}

// appendJSON adds a decoded value as row n.
func appendJSON(c *record.Column, n int, v any) error {
	wrong := fmt.Errorf("%v is not a %s", v, c.Kind)
	switch v := v.(type) {
	case nil:
		appendNull(c, n)
		return nil
	case bool:
		if c.Kind != record.Bool {
			return wrong
		}
		n := int64(0)
		if v {
			n = 1
		}
		c.Int64s = append(c.Int64s, n)
		return nil
	case json.Number:
		if c.Kind == record.Float64 {
			f, err := v.Float64()
			c.Float64s = append(c.Float64s, f)
			return err
		}
		if c.Kind != record.Int64 {
			return wrong
		}
		i, err := v.Int64()
		c.Int64s = append(c.Int64s, i)
		return err
	case string:
		layout := time.RFC3339
		switch c.Kind {
		case record.String:
			c.Strings.Append([]byte(v))
			return nil
		case record.Date:
			layout = time.DateOnly
		case record.Timestamp:
		default:
			return wrong
		}
		t, err := time.Parse(layout, v)
		if err != nil {
			return err
		}
		if c.Kind == record.Date {
			c.Int64s = append(c.Int64s, t.Unix()/(24*60*60))
		} else {
			c.Int64s = append(c.Int64s, t.UnixMicro())
		}
		return nil
	}
	return wrong
}

// appendFrom copies a value of another column as row n.
func appendFrom(c *record.Column, n int, from *record.Column, row int) {
	switch {
	case from.Nulls.Get(row):
		appendNull(c, n)
	case c.Kind == record.String:
		c.Strings.Append(from.Strings.At(row))
	case c.Kind == record.Float64:
		c.Float64s = append(c.Float64s, from.Float64s[row])
	default:
		c.Int64s = append(c.Int64s, from.Int64s[row])
	}
}

func appendNull(c *record.Column, n int) {
	for len(c.Nulls)*64 <= n {
		c.Nulls = append(c.Nulls, 0)
	}
	c.Nulls.Set(n)
	switch c.Kind {
	case record.String:
		c.Strings.Append(nil)
	case record.Float64:
		c.Float64s = append(c.Float64s, 0)
	default:
		c.Int64s = append(c.Int64s, 0)
	}
}

// reader gives the records of a shard, in batches of one size or, with rng, of random sizes.
type reader struct {
	run   *run
	shard plan.Shard
	input int
	row   int
}

var _ transform.Reader = (*reader)(nil)

func (r *reader) Next(context.Context) (int32, *record.Batch, error) {
	for ; r.input < len(r.shard.Inputs); r.input, r.row = r.input+1, 0 {
		in := r.shard.Inputs[r.input].Partition
		d := r.run.data[slices.IndexFunc(r.run.data, func(d part) bool { return d.partition == in })]
		if r.row == d.batch.Len {
			continue
		}
		n := 8192
		if r.run.rng != nil {
			n = 1 + r.run.rng.IntN(3000)
		}
		from := r.row
		r.row = min(from+n, d.batch.Len)
		return in, d.batch.Slice(from, r.row), nil
	}
	return 0, nil, io.EOF
}

func (r *reader) Close() error { return nil }
