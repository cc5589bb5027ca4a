// Package parquetsrc lists a topic's history as an exporter left it in Parquet files, so that it can be planned.
//
// It owns naming profiles, of which there is one: Kafka Connect's S3 sink with
// its default partitioner. It reads footers, and data only where a footer does not prove a segment's offsets.
// Whatever lies among the segments and cannot be read is an error, not a
// hole: only what is known not to be a segment by its name is passed over, and counted. It decides nothing about overlaps, gaps
// and windows: that is plan's.
//
// What it takes from footers — offsets, times, counts — is held against the rows when a run reads them. A row group that the
// footer keeps a run from reading is not seen, so a footer that was damaged without becoming unreadable could hide rows:
// Parquet has no checksum over it. Where that matters, name the segments' SHA-256 sums (sums: in job.yaml); every segment is then
// read whole and compared when a run is planned.
package parquetsrc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"hindcast/internal/blob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/spec"
)

const (
	// footers is how many are read at a time.
	footers = 16
	// shown is how many errors are told of one listing.
	shown = 3
)

// List finds the segments of src below store, which is what src.Segments.Parquet locates. Beside the
// columns that src names, every segment must have the given ones, in their kinds; whether they may be null is not compared.
//
// Errors name the file and what to do. They wrap what the store returned, so that a
// passing failure can be told from a refusal. A topic without segments is no error if src has a tail.
func List(ctx context.Context, store blob.Store, src spec.Source, columns ...record.Field) (plan.Listing, error) {
	listing, err := list(ctx, store, src, columns)
	if err != nil {
		return plan.Listing{}, fmt.Errorf("list segments of %s below %s: %w", src.Topic, src.Segments.Parquet, err)
	}
	return listing, nil
}

func list(ctx context.Context, store blob.Store, src spec.Source, columns []record.Field) (plan.Listing, error) {
	if src.Segments.Naming != spec.KafkaConnect {
		return plan.Listing{}, fmt.Errorf("the naming %q is not read yet, only %s", src.Segments.Naming, spec.KafkaConnect)
	}
	sums, err := readSums(ctx, store, src.Segments)
	if err != nil {
		return plan.Listing{}, err
	}
	objects, passed, err := find(ctx, store, src.Topic, sums)
	if err != nil {
		return plan.Listing{}, err
	}
	if len(objects) == 0 && src.Tail == nil {
		return plan.Listing{}, fmt.Errorf("there is none; expected objects named %s…", strings.Join(prefixes(src.Topic), "… or "))
	}
	if err := sums.complete(src.Topic, objects); err != nil {
		return plan.Listing{}, err
	}
	r := reader{store: store, columns: src.Segments.Columns, event: src.Event.Time, sums: sums, need: needed(src, columns)}
	segments := make([]plan.Segment, len(objects))
	errs := make([]error, len(objects))
	var g errgroup.Group
	g.SetLimit(footers)
	for i, o := range objects {
		g.Go(func() error {
			if errs[i] = ctx.Err(); errs[i] == nil {
				segments[i], errs[i] = r.segment(ctx, o)
			}
			return nil
		})
	}
	_ = g.Wait() // errs has them all, in the order of the keys
	if err := first(errs); err != nil {
		return plan.Listing{}, err
	}
	return plan.Listing{Segments: segments, Ignored: passed}, nil
}

// first joins the first few errors, so that a person need not run once an error.
func first(errs []error) error {
	var some []error
	n := 0
	for _, err := range errs {
		if err != nil {
			if n++; n <= shown {
				some = append(some, err)
			}
		}
	}
	if n > shown {
		some = append(some, fmt.Errorf("and %d more", n-shown))
	}
	return errors.Join(some...)
}

// find lists the objects that are segments by their names, in key order, and counts those that are not.
func find(ctx context.Context, store blob.Store, topic string, sums *sums) (objects []object, passed int, err error) {
	var errs []error
	for _, prefix := range prefixes(topic) {
		folder := prefix
		if !strings.HasSuffix(prefix, "/") {
			folder = ""
		}
		for info, err := range blob.All(ctx, store, prefix) {
			if err != nil {
				return nil, 0, err
			}
			rel := strings.TrimPrefix(info.Key, folder)
			if ignored(rel, info.Size) || sums != nil && info.Key == sums.key {
				passed++
				continue
			}
			n, err := parseName(topic, rel)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", info.Key, err))
				continue
			}
			objects = append(objects, object{info, n})
		}
		if len(objects) > 0 || len(errs) > 0 {
			break
		}
	}
	return objects, passed, first(errs)
}

// needed are the columns that every segment must have. Null kinds match any.
func needed(src spec.Source, columns []record.Field) []record.Field {
	kafka := src.Segments.Columns
	need := []record.Field{
		{Name: kafka.Partition, Kind: record.Int64},
		{Name: kafka.Offset, Kind: record.Int64},
		{Name: kafka.Time, Kind: record.Timestamp},
		{Name: src.Event.Time, Kind: record.Timestamp},
	}
	if src.Event.ID != "" && !slices.ContainsFunc(columns, func(f record.Field) bool { return f.Name == src.Event.ID }) {
		need = append(need, record.Field{Name: src.Event.ID})
	}
	return append(need, columns...)
}

// reader describes segments.
type reader struct {
	store   blob.Store
	columns spec.KafkaColumns
	event   string
	need    []record.Field
	sums    *sums
}

// segment describes one object.
func (r *reader) segment(ctx context.Context, o object) (plan.Segment, error) {
	in, err := r.open(ctx, o)
	if err != nil {
		return plan.Segment{}, err
	}
	f, err := parquetfile.Open(in, o.Size, o.Key)
	if err != nil {
		return plan.Segment{}, err
	}
	for _, want := range r.need {
		got, err := f.Column(want.Name)
		if err != nil {
			return plan.Segment{}, fmt.Errorf("%w; every segment must have the columns that the job reads: export it again", err)
		}
		if want.Kind != 0 && got.Kind != want.Kind {
			return plan.Segment{}, &parquetfile.Error{File: o.Key, RowGroup: -1, Column: want.Name, Reason: fmt.Sprintf(
				"it holds %v where the job reads %v; segments whose schema changed are not converted yet: export it again as the others", got.Kind, want.Kind)}
		}
	}
	return r.describe(f, o)
}

// open returns the object's bytes. Where there are sums they are all read, and compared.
func (r *reader) open(ctx context.Context, o object) (io.ReaderAt, error) {
	if r.sums == nil {
		return blob.ReaderAt(ctx, r.store, o.Info), nil
	}
	body, err := r.store.Get(ctx, o.Key, blob.GetOptions{IfMatch: o.ETag})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.Key, err)
	}
	defer body.Body.Close()
	hash := sha256.New()
	var in io.ReaderAt
	if o.Size <= wholeSize {
		data, err := io.ReadAll(io.LimitReader(body.Body, wholeSize+1))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", o.Key, err)
		}
		hash.Write(data)
		in = bytes.NewReader(data)
	} else {
		if _, err := io.Copy(hash, body.Body); err != nil {
			return nil, fmt.Errorf("read %s: %w", o.Key, err)
		}
		in = blob.ReaderAt(ctx, r.store, o.Info)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != r.sums.of[o.Key] {
		return nil, fmt.Errorf("%s: its SHA-256 is %s, but %s has %s: the segment was damaged or replaced; restore it, or update the sums if it was replaced on purpose",
			o.Key, got, r.sums.key, r.sums.of[o.Key])
	}
	return in, nil
}

// wholeSize is the size up to which an object that is hashed is kept until its footer is read.
const wholeSize = 8 << 20
