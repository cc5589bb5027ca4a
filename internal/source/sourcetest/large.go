package sourcetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sort"
	"strings"
	"sync/atomic"
	"testing"

	"hindcast/internal/blob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/plan"
)

// Template is a segment whose footer is made to be that of another: one that begins elsewhere, of another partition.
type Template struct {
	Data                 []byte // before the footer
	footer               []byte
	offsets, partitionAt []int // where in the footer they stand
}

const (
	templateFirst     = 1 << 40
	templatePartition = 0x5a5a5a5a
)

// NewTemplate makes one of so many row groups of so many rows.
func NewTemplate(tb testing.TB, groups, rows int) Template {
	tb.Helper()
	events := Events(templatePartition, plan.Ranges{{First: templateFirst, Next: templateFirst + int64(groups*rows)}})
	for i := range events {
		events[i].Time = int64(i+1) * 1000
		events[i].At = &events[i].Time
	}
	schema, b := Batch(events, false)
	file := Parquet(tb, schema, b, parquetfile.WriterOptions{RowGroupRows: rows})
	begin := len(file) - 8 - int(binary.LittleEndian.Uint32(file[len(file)-8:]))
	out := Template{Data: file[:begin], footer: file[begin:]}
	for i := 0; i+8 <= len(out.footer); i++ {
		switch v := int64(binary.LittleEndian.Uint64(out.footer[i:])); {
		case v >= templateFirst && v < templateFirst+int64(groups*rows):
			out.offsets = append(out.offsets, i)
		case v == templatePartition:
			out.partitionAt = append(out.partitionAt, i)
		}
	}
	if len(out.offsets) < 2*groups || len(out.partitionAt) < 2*groups {
		tb.Fatalf("the footer has offsets at %d places, and its partition at %d", len(out.offsets), len(out.partitionAt))
	}
	return out
}

// Footer is that of a segment of that partition which begins with that offset, up to the end of the file.
func (m *Template) Footer(partition int32, first int64) []byte {
	footer := bytes.Clone(m.footer)
	for _, i := range m.offsets {
		v := int64(binary.LittleEndian.Uint64(footer[i:]))
		binary.LittleEndian.PutUint64(footer[i:], uint64(v-templateFirst+first))
	}
	for _, i := range m.partitionAt {
		binary.LittleEndian.PutUint64(footer[i:], uint64(partition))
	}
	return footer
}

// LargeLog is a store of large segments, of which there is nothing but the footers: a request for what lies before them fails.
type LargeLog struct {
	blob.Store
	Template
	segments, partitions int64
	rows                 int64 // of a segment
	before               int64 // bytes before the footer
	stray                atomic.Pointer[error]
}

// NewLargeLog makes one of that many segments, of 20 partitions.
func NewLargeLog(tb testing.TB, segments int64, groups, rows int) *LargeLog {
	tb.Helper()
	return &LargeLog{Template: NewTemplate(tb, groups, rows), segments: segments, partitions: 20, rows: int64(groups * rows), before: 64 << 20}
}

// Stray is the last request for what lies before a footer, as an error; nil where there was none.
func (m *LargeLog) Stray() error {
	if err := m.stray.Load(); err != nil {
		return *err
	}
	return nil
}

func (m *LargeLog) info(i int64) blob.Info {
	p, n := i%m.partitions, i/m.partitions
	return blob.Info{Key: Key(int32(p), n*m.rows), Size: m.before + int64(len(m.footer)), ETag: "e"}
}

// List is [blob.Store]'s.
func (m *LargeLog) List(_ context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	var keys []blob.Info
	for i := range m.segments {
		if o := m.info(i); strings.HasPrefix(o.Key, prefix) && o.Key > after {
			keys = append(keys, o)
		}
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i].Key < keys[j].Key })
	return keys[:min(limit, len(keys))], nil
}

// Get is [blob.Store]'s.
func (m *LargeLog) Get(_ context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	const widened = 256 << 10 // what a read of the end may take in
	if opts.Offset < m.before-widened {
		err := fmt.Errorf("%s: %d bytes are read at %d, before the footer at %d", key, opts.Length, opts.Offset, m.before)
		m.stray.Store(&err)
		return nil, err
	}
	var p int32
	var first int64
	name := key[strings.LastIndexByte(key, '/')+1:]
	if _, err := fmt.Sscanf(name, Topic+"+%d+%d.", &p, &first); err != nil {
		return nil, err
	}
	whole := append(make([]byte, widened), m.Footer(p, first)...)
	size := m.before + int64(len(m.footer))
	from, to, err := opts.Range(size)
	if err != nil {
		return nil, err
	}
	begin := size - int64(len(whole))
	return &blob.Object{Info: blob.Info{Key: key, Size: size, ETag: "e"}, Body: io.NopCloser(bytes.NewReader(whole[from-begin : to-begin]))}, nil
}
