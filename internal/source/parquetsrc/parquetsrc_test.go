package parquetsrc_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"hindcast/internal/blob"
	"hindcast/internal/blob/fileblob"
	"hindcast/internal/blob/memblob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/source"
	"hindcast/internal/source/parquetsrc"
	"hindcast/internal/source/sourcetest"
	"hindcast/internal/spec"
	"hindcast/internal/testenv"
)

func src() spec.Source {
	return spec.Source{
		Topic:    sourcetest.Topic,
		Segments: spec.Segments{Parquet: "exports", Naming: spec.KafkaConnect, Columns: source.CapturedColumns},
		Event:    spec.Event{ID: "id", Time: "at"},
	}
}

func dense(first, next int64) plan.Ranges { return plan.Ranges{{First: first, Next: next}} }

func put(t *testing.T, s blob.Store, partition int32, first int64, offsets plan.Ranges, opts parquetfile.WriterOptions) blob.Info {
	t.Helper()
	return sourcetest.Put(t, s, sourcetest.Key(partition, first), sourcetest.File(t, sourcetest.Events(partition, offsets), false, opts))
}

// reads counts the bytes that were asked for of each key.
type reads struct {
	blob.Store
	n atomic.Int64
}

func (r *reads) Get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	r.n.Add(1)
	return r.Store.Get(ctx, key, opts)
}

func TestListDescribesSegments(t *testing.T) {
	mem := memblob.New()
	info := put(t, mem, 3, 100, dense(100, 350), parquetfile.WriterOptions{RowGroupRows: 100})
	listing, err := parquetsrc.List(t.Context(), mem, src(), sourcetest.Schema()...)
	if err != nil {
		t.Fatal(err)
	}
	if len(listing.Segments) != 1 || listing.Ignored != 0 {
		t.Fatalf("%+v", listing)
	}
	s := listing.Segments[0]
	if s.Key != info.Key || s.ETag != info.ETag || int64(s.Size) != info.Size || s.Partition != 3 || s.First != 100 || s.Next != 350 || s.Rows != 250 ||
		s.Offsets != nil || len(s.RowGroups) != 3 {
		t.Errorf("%+v", s)
	}
	for i, g := range s.RowGroups {
		rows := sourcetest.Events(3, dense(g.First, g.Next))
		var event *plan.Span
		for _, r := range rows {
			if r.At != nil && event == nil {
				event = &plan.Span{Min: *r.At, Max: *r.At}
			}
			if r.At != nil {
				event.Max = *r.At
			}
		}
		switch {
		case g.First != int64(100+100*i) || g.Rows != int64(len(rows)) || g.Bytes == 0:
			t.Errorf("group %d: %+v", i, g)
		case *g.RecordTime != plan.Span{Min: rows[0].Time, Max: rows[len(rows)-1].Time}:
			t.Errorf("group %d has the record times %+v", i, g.RecordTime)
		case *g.EventTime != *event || g.Timed:
			t.Errorf("group %d has the event times %+v (timed: %v), want %+v and rows without one", i, g.EventTime, g.Timed, event)
		}
	}
}

func TestListReadsOffsetsWhereTheFooterDoesNotProveThem(t *testing.T) {
	mem := memblob.New()
	holes := plan.Ranges{{First: 5, Next: 10}, {First: 20, Next: 21}, {First: 30, Next: 330}}
	put(t, mem, 0, 5, holes, parquetfile.WriterOptions{RowGroupRows: 100})
	listing, err := parquetsrc.List(t.Context(), mem, src())
	if err != nil {
		t.Fatal(err)
	}
	s := listing.Segments[0]
	if s.First != 5 || s.Next != 330 || !slices.Equal(s.Offsets, holes) || s.RowGroups[1].First != 124 || s.RowGroups[1].Next != 224 {
		t.Errorf("%+v", s)
	}
}

func TestListReadsFootersOnly(t *testing.T) {
	counted := &reads{Store: memblob.New()}
	for i := range int64(40) {
		put(t, counted.Store, int32(i%4), i*50, dense(i*50, i*50+50), parquetfile.WriterOptions{RowGroupRows: 10})
	}
	if _, err := parquetsrc.List(t.Context(), counted, src(), sourcetest.Schema()...); err != nil {
		t.Fatal(err)
	}
	if n := counted.n.Load(); n != 40 {
		t.Errorf("%d reads of 40 segments", n)
	}
}

func TestListPassesOverWhatIsNoSegment(t *testing.T) {
	for _, folder := range []string{"topics/" + sourcetest.Topic + "/", sourcetest.Topic + "/", ""} {
		mem := memblob.New()
		key := strings.TrimPrefix(sourcetest.Key(0, 0), "topics/"+sourcetest.Topic+"/")
		data := sourcetest.File(t, sourcetest.Events(0, dense(0, 10)), false, parquetfile.WriterOptions{})
		sourcetest.Put(t, mem, folder+key, data)
		for _, other := range []string{
			"partition=0/_SUCCESS", "partition=0/." + sourcetest.Topic + "+0+0000000000.parquet.crc", "partition=0/_temporary/0/x.parquet",
			"partition=0/" + sourcetest.Topic + "+0+0000000000.keys.parquet", "partition=0/x.crc",
		} {
			sourcetest.Put(t, mem, folder+other, []byte("?"))
		}
		listing, err := parquetsrc.List(t.Context(), mem, src())
		if err != nil {
			t.Fatal(err)
		}
		if len(listing.Segments) != 1 || listing.Ignored != 5 {
			t.Errorf("below %q: %d segments, %d ignored", folder, len(listing.Segments), listing.Ignored)
		}
	}
}

func TestListOfNothing(t *testing.T) {
	s := src()
	if _, err := parquetsrc.List(t.Context(), memblob.New(), s); err == nil || !strings.Contains(err.Error(), "topics/payments/") {
		t.Errorf("the error is %v", err)
	}
	s.Tail = &spec.Tail{}
	if listing, err := parquetsrc.List(t.Context(), memblob.New(), s); err != nil || len(listing.Segments) != 0 {
		t.Errorf("with a tail: %+v, %v", listing, err)
	}
}

// A segment without rows is fine.
func TestListOfAnEmptySegment(t *testing.T) {
	mem := memblob.New()
	put(t, mem, 0, 7, nil, parquetfile.WriterOptions{})
	listing, err := parquetsrc.List(t.Context(), mem, src())
	if err != nil {
		t.Fatal(err)
	}
	if s := listing.Segments[0]; s.Rows != 0 || s.First != 7 || s.Next != 7 || s.Offsets != nil {
		t.Errorf("%+v", s)
	}
}

func TestListRefuses(t *testing.T) {
	rows := sourcetest.Events(0, dense(0, 20))
	good := sourcetest.File(t, rows, false, parquetfile.WriterOptions{})
	swapped := slices.Clone(rows)
	swapped[3], swapped[4] = swapped[4], swapped[3]
	twice := slices.Clone(rows)
	twice[4].Offset = 3
	schema, batch := sourcetest.Batch(rows, false)
	text := slices.Clone(schema)
	text[5] = record.Field{Name: "amount", Kind: record.String}
	textBatch := *batch
	textBatch.Columns = slices.Clone(batch.Columns)
	textBatch.Columns[5] = batch.Columns[3]
	for name, c := range map[string]struct {
		key  string
		data []byte
		says string
	}{
		"an empty file":           {sourcetest.Key(0, 0), nil, "with 0 bytes it is too short"},
		"a text file":             {sourcetest.Key(0, 0), []byte("id,at\n1,2\n3,4\n5,6\n"), "it is not Parquet"},
		"a cut file":              {sourcetest.Key(0, 0), good[:len(good)-20], "cut off"},
		"another first offset":    {sourcetest.Key(0, 10), good, "it begins with offset 0, but its name says 10"},
		"another partition":       {sourcetest.Key(1, 0), good, "it has a record of partition 0, but its name says 1"},
		"a folder that disagrees": {"topics/payments/partition=1/payments+0+0000000000.parquet", good, "partition of its folder"},
		"another topic":           {"topics/payments/partition=0/refunds+0+0000000000.parquet", good, "does not begin with the topic"},
		"no offset":               {"topics/payments/partition=0/payments+0+x.parquet", good, "no offset"},
		"another format":          {"topics/payments/partition=0/payments+0+0000000000.avro", good, "no .parquet file"},
		"a segment in no folder":  {"topics/payments/payments+0+0000000000.parquet", good, "it lies in no folder"},
		"rows out of order":       {sourcetest.Key(0, 0), sourcetest.File(t, swapped, false, parquetfile.WriterOptions{RowGroupRows: 4}), "offset 3 follows 4"},
		"an offset twice":         {sourcetest.Key(0, 0), sourcetest.File(t, twice, false, parquetfile.WriterOptions{RowGroupRows: 5}), "offset 3 follows 3"},
		"a missing column":        {sourcetest.Key(0, 0), sourcetest.Parquet(t, schema[:6], &record.Batch{Len: 20, Columns: batch.Columns[:6]}, parquetfile.WriterOptions{}), `column "country"`},
		"a column of another kind": {
			sourcetest.Key(0, 0), sourcetest.Parquet(t, text, &textBatch, parquetfile.WriterOptions{}),
			`column "amount": it holds string where the job reads int64`,
		},
	} {
		mem := memblob.New()
		sourcetest.Put(t, mem, c.key, c.data)
		_, err := parquetsrc.List(t.Context(), mem, src(), sourcetest.Schema()...)
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.key) {
			t.Errorf("%s: the error is %v; want one with %q and the key", name, err, c.says)
		}
	}
}

func TestListHoldsSegmentsAgainstSums(t *testing.T) {
	list := func(break_ func(mem *memblob.Store)) error {
		mem := memblob.New()
		sums := ""
		for i := range int64(3) {
			data := sourcetest.File(t, sourcetest.Events(0, dense(i*10, i*10+10)), false, parquetfile.WriterOptions{})
			sourcetest.Put(t, mem, sourcetest.Key(0, i*10), data)
			sums += fmt.Sprintf("%x  %s\n", sha256.Sum256(data), sourcetest.Key(0, i*10))
		}
		sourcetest.Put(t, mem, "SHA256SUMS", []byte(sums+strings.Repeat("0", 64)+" *readme.txt\n"))
		break_(mem)
		s := src()
		s.Segments.Sums = "exports/SHA256SUMS"
		_, err := parquetsrc.List(t.Context(), mem, s, sourcetest.Schema()...)
		return err
	}
	if err := list(func(*memblob.Store) {}); err != nil {
		t.Error(err)
	}
	for says, f := range map[string]func(*memblob.Store){
		"its SHA-256 is": func(mem *memblob.Store) {
			data := sourcetest.File(t, sourcetest.Events(0, dense(10, 20)), false, parquetfile.WriterOptions{})
			data[len(data)-30] ^= 1 // in the footer, where Parquet has no checksum
			sourcetest.Put(t, mem, sourcetest.Key(0, 10), data)
		},
		"the history is incomplete": func(mem *memblob.Store) {
			if err := mem.Delete(context.Background(), sourcetest.Key(0, 20)); err != nil {
				t.Fatal(err)
			}
		},
		"has no sum for it": func(mem *memblob.Store) {
			put(t, mem, 0, 30, dense(30, 40), parquetfile.WriterOptions{})
		},
		"line 1: expected a SHA-256 sum": func(mem *memblob.Store) { sourcetest.Put(t, mem, "SHA256SUMS", []byte("abc  def\n")) },
		"read sums SHA256SUMS":           func(mem *memblob.Store) { _ = mem.Delete(context.Background(), "SHA256SUMS") },
	} {
		if err := list(f); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("the error is %v, want one with %q", err, says)
		}
	}
}

func TestListKeepsTheStoresErrors(t *testing.T) {
	mem := memblob.New()
	put(t, mem, 0, 0, dense(0, 10), parquetfile.WriterOptions{})
	if _, err := parquetsrc.List(t.Context(), broken{mem}, src()); !errors.Is(err, blob.ErrTransient) {
		t.Errorf("the error is %v", err)
	}
}

type broken struct{ blob.Store }

func (b broken) Get(context.Context, string, blob.GetOptions) (*blob.Object, error) {
	return nil, fmt.Errorf("get: %w", blob.ErrTransient)
}

// The sample: 535,507 exported records in four partitions, dense from 0.
func TestListRetailSample(t *testing.T) {
	store, err := fileblob.New(filepath.Join(testenv.Root(t), "samples", "retail"))
	if err != nil {
		t.Fatal(err)
	}
	s := spec.Source{
		Topic: "retail.invoice-lines",
		Segments: spec.Segments{
			Parquet: "samples/retail", Naming: spec.KafkaConnect, Columns: source.CapturedColumns, Sums: "samples/retail/SHA256SUMS",
		},
		Event: spec.Event{ID: "event_id", Time: "occurred_at"},
	}
	listing, err := parquetsrc.List(t.Context(), store, s)
	if err != nil {
		t.Fatal(err)
	}
	schema := record.Schema{{Name: "event_id", Kind: record.String}, {Name: "occurred_at", Kind: record.Timestamp}, {Name: "country", Kind: record.String}}
	var inputs []plan.Input
	next, total := map[int32]int64{}, int64(0)
	for _, seg := range listing.Segments {
		if seg.First != next[seg.Partition] || seg.Offsets != nil {
			t.Errorf("%s is %d-%d, want it dense from %d", seg.Key, seg.First, seg.Next, next[seg.Partition])
		}
		next[seg.Partition] = seg.Next
		total += seg.Rows
		in := plan.Input{Partition: seg.Partition, Segment: seg.Key, ETag: seg.ETag, Size: seg.Size, Rows: seg.Rows}
		for i, g := range seg.RowGroups {
			in.RowGroups = append(in.RowGroups, i)
			if g.RecordTime == nil || g.EventTime == nil || !g.Timed {
				t.Errorf("%s, group %d: %+v", seg.Key, i, g)
			}
		}
		inputs = append(inputs, in)
	}
	if total != 535_507 || len(next) != 4 {
		t.Errorf("%d records in %d partitions", total, len(next))
	}
	r, err := source.Open(t.Context(), source.Stores{Segments: store}, inputs, schema, source.Layout{Kafka: source.CapturedColumns})
	if err != nil {
		t.Fatal(err)
	}
	rows := int64(0)
	for {
		_, b, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		rows += int64(b.Len)
	}
	if rows != total {
		t.Errorf("%d rows were read", rows)
	}
}
