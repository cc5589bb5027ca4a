package parquetsrc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/blob/fileblob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/partition"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/source/parquetsrc"
	"hindcast/internal/source/sourcetest"
	"hindcast/internal/spec"
	"hindcast/internal/testenv"
)

// An exporter that was told to flush at every record leaves a file a record: they are planned all the same, and the plan says what they cost.
func TestTwoThousandOneRowFilesArePlannedInSeconds(t *testing.T) {
	const files, within = 2000, 5 * time.Second
	dir := t.TempDir()
	one := newTemplate(t, 1, 1)
	for i := range int64(files) {
		p, first := int32(i%2), i/2
		file := filepath.Join(dir, filepath.FromSlash(sourcetest.Key(p, first)))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(bytes.Clone(one.data), one.of(p, first)...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	store, err := fileblob.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	listing, p, err := planned(t, store, sourceOf(spec.KafkaConnect))
	if err != nil {
		t.Fatal(err)
	}
	p.Listed = listing.Listed
	sum, err := p.Summary()
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)
	t.Logf("%d files in %v; %+v; %d requests to read", files, took, sum.Listed, sum.Requests)
	if took > within {
		t.Errorf("it took %v, more than %v", took, within)
	}
	if sum.Listed.Footers != files || sum.Listed.Requests < files || sum.Requests < files || !strings.Contains(strings.Join(p.Warnings, "\n"), "tiny segments: 2000 of") {
		t.Errorf("%+v, warnings %q", sum, p.Warnings)
	}
}

// template is a segment whose footer is made to be that of another: one that begins elsewhere, of another partition.
type template struct {
	data, footer         []byte
	offsets, partitionAt []int // where in the footer they stand
}

const (
	templateFirst     = 1 << 40
	templatePartition = 0x5a5a5a5a
)

func newTemplate(t *testing.T, groups, rows int) template {
	t.Helper()
	events := sourcetest.Events(templatePartition, dense(templateFirst, templateFirst+int64(groups*rows)))
	for i := range events {
		events[i].Time = int64(i+1) * 1000
		events[i].At = &events[i].Time
	}
	schema, b := sourcetest.Batch(events, false)
	file := sourcetest.Parquet(t, schema, b, parquetfile.WriterOptions{RowGroupRows: rows})
	begin := len(file) - 8 - int(binary.LittleEndian.Uint32(file[len(file)-8:]))
	out := template{data: file[:begin], footer: file[begin:]}
	for i := 0; i+8 <= len(out.footer); i++ {
		switch v := int64(binary.LittleEndian.Uint64(out.footer[i:])); {
		case v >= templateFirst && v < templateFirst+int64(groups*rows):
			out.offsets = append(out.offsets, i)
		case v == templatePartition:
			out.partitionAt = append(out.partitionAt, i)
		}
	}
	if len(out.offsets) < 2*groups || len(out.partitionAt) < 2*groups {
		t.Fatalf("the footer has offsets at %d places, and its partition at %d", len(out.offsets), len(out.partitionAt))
	}
	return out
}

// of is the footer of a segment of that partition which begins with that offset.
func (m *template) of(partition int32, first int64) []byte {
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

// manyFooters is a store of large segments, of which there is nothing but the footers: a request for what lies before them fails.
type manyFooters struct {
	blob.Store
	template
	segments, partitions int64
	rows                 int64 // of a segment
	before               int64 // bytes before the footer
	stray                atomic.Pointer[error]
}

func newManyFooters(t *testing.T, segments int64, groups, rows int) *manyFooters {
	t.Helper()
	return &manyFooters{template: newTemplate(t, groups, rows), segments: segments, partitions: 20, rows: int64(groups * rows), before: 64 << 20}
}

func (m *manyFooters) info(i int64) blob.Info {
	p, n := i%m.partitions, i/m.partitions
	return blob.Info{Key: sourcetest.Key(int32(p), n*m.rows), Size: m.before + int64(len(m.footer)), ETag: "e"}
}

func (m *manyFooters) List(_ context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	var keys []blob.Info
	for i := range m.segments {
		if o := m.info(i); strings.HasPrefix(o.Key, prefix) && o.Key > after {
			keys = append(keys, o)
		}
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i].Key < keys[j].Key })
	return keys[:min(limit, len(keys))], nil
}

func (m *manyFooters) Get(_ context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	const widened = 256 << 10 // what a read of the end may take in
	if opts.Offset < m.before-widened {
		err := fmt.Errorf("%s: %d bytes are read at %d, before the footer at %d", key, opts.Length, opts.Offset, m.before)
		m.stray.Store(&err)
		return nil, err
	}
	var p int32
	var first int64
	name := key[strings.LastIndexByte(key, '/')+1:]
	if _, err := fmt.Sscanf(name, sourcetest.Topic+"+%d+%d.", &p, &first); err != nil {
		return nil, err
	}
	whole := append(make([]byte, widened), m.of(p, first)...)
	size := m.before + int64(len(m.footer))
	from, to, err := opts.Range(size)
	if err != nil {
		return nil, err
	}
	begin := size - int64(len(whole))
	return &blob.Object{Info: blob.Info{Key: key, Size: size, ETag: "e"}, Body: io.NopCloser(bytes.NewReader(whole[from-begin : to-begin]))}, nil
}

// A large topic's quarter: 10,000 segments of 100 row groups. Their plan takes less than a gigabyte, and no data page.
func TestTenThousandSegmentsArePlannedInAGigabyte(t *testing.T) {
	const groups, most = 100, 1 << 30
	segments, limit := int64(250), uint64(200<<20)
	if testenv.Full() {
		segments, limit = 10_000, most
	}
	store := newManyFooters(t, segments, groups, 10)
	s := sourceOf(spec.KafkaConnect)
	js := &spec.Spec{Job: "j", Source: s, Dataset: "d", Outputs: []spec.Output{{Table: "t", Scheme: partition.Scheme{Buckets: 16}, BucketColumn: "id"}}}
	var took time.Duration
	used := testenv.Peak(func() {
		begin := time.Now()
		listing, err := parquetsrc.List(t.Context(), store, s, record.Schema{{Name: "id", Kind: record.String}}...)
		if err != nil {
			t.Error(err)
			return
		}
		if c := listing.Listed; int64(c.Footers) != segments || c.Scanned != 0 || len(listing.Segments[7].RowGroups) != groups {
			t.Errorf("%+v", c)
		}
		p, err := plan.Build(js, nil, plan.Inventory{Topic: s.Topic, Segments: listing.Segments, Listed: listing.Listed}, plan.Options{})
		if err != nil {
			t.Error(err)
			return
		}
		sum, err := p.Summary()
		if err != nil || sum.Rows != segments*groups*10 || sum.RowGroups != int(segments)*groups {
			t.Errorf("%+v, %v", sum, err)
		}
		if _, _, err := plan.Shards(p, nil); err != nil {
			t.Error(err)
		}
		b, err := p.Encode()
		if err != nil {
			t.Error(err)
		}
		took = time.Since(begin)
		t.Logf("the plan is %d MB of JSON", len(b)>>20)
	})
	t.Logf("%d segments of %d row groups: %v, at most %d MB in use", segments, groups, took, used>>20)
	if used > limit {
		t.Errorf("%d MB were in use, more than %d", used>>20, limit>>20)
	}
	if err := store.stray.Load(); err != nil {
		t.Error(*err)
	}
}
