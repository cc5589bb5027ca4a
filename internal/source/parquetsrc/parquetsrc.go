// Package parquetsrc lists a topic's history as an exporter left it in Parquet files, so that it can be planned.
//
// It owns naming profiles, one file each, and says of every segment how well its offsets are known: exact from an
// offset column, derived from names where as many rows are there as these leave room for, or unknown. It reads footers, and data only where a
// footer does not prove a segment's offsets, partition or times. Whatever lies among the segments and cannot be read is an error, not a
// hole: only what is known not to be a segment by its name is passed over, and counted. Folders of time are hints that it does not take.
// It decides nothing about overlaps, gaps and windows: that is plan's.
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
	"hindcast/internal/source"
	"hindcast/internal/spec"
	"hindcast/internal/unit"
)

const (
	// footers is how many are read at a time.
	footers = 16
	// shown is how many errors are told of one listing.
	shown = 3
)

// List finds the segments of src below store, which is what src.Segments.Parquet locates. Beside the columns that src names, every
// segment must have the given ones, in their kinds or in ones that fit them without loss; see [source.NewFit]. One that may be null
// may be missing.
//
// Segments whose offsets cannot be told are of [plan.Unknown] quality: whether that matters is the plan's to say. Errors name the
// file and what to do. They wrap what the store returned, so that a passing failure can be told from a refusal. A topic without
// segments is no error if src has a tail.
func List(ctx context.Context, store blob.Store, src spec.Source, columns ...record.Field) (plan.Listing, error) {
	listing, err := list(ctx, store, src, columns)
	if err != nil {
		return plan.Listing{}, fmt.Errorf("list segments of %s below %s: %w", src.Topic, src.Segments.Parquet, err)
	}
	return listing, nil
}

func list(ctx context.Context, store blob.Store, src spec.Source, columns []record.Field) (plan.Listing, error) {
	p, err := profileOf(src.Segments.Naming)
	if err != nil {
		return plan.Listing{}, err
	}
	count := blob.Count(store)
	sums, err := readSums(ctx, count, src.Segments)
	if err != nil {
		return plan.Listing{}, err
	}
	found, err := find(ctx, count, p, src.Topic, sums)
	if err != nil {
		return plan.Listing{}, err
	}
	if len(found.objects) == 0 && src.Tail == nil {
		return plan.Listing{}, fmt.Errorf("there is none; expected objects named %s", p.expect(src.Topic))
	}
	if err := sums.complete(p, src.Topic, found); err != nil {
		return plan.Listing{}, err
	}
	r := reader{
		store: count, profile: p, topic: src.Topic, columns: src.Segments.Columns, event: src.Event.Time, sums: sums,
		need: needed(src, columns), layout: source.LayoutOf(src, nil),
	}
	segments := make([]described, len(found.objects))
	errs := make([]error, len(found.objects))
	var g errgroup.Group
	g.SetLimit(footers)
	for i, o := range found.objects {
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
	if src.Tail == nil {
		if err := nowhere(segments); err != nil {
			return plan.Listing{}, err
		}
	}
	l := plan.Listing{Listed: plan.Cost{Footers: len(segments)}}
	if err := place(&l, p, src, segments); err != nil {
		return plan.Listing{}, err
	}
	l.Segments = make([]plan.Segment, len(segments))
	for i := range segments {
		l.Segments[i] = segments[i].Segment
		if segments[i].scanned {
			l.Listed.Scanned++
		}
	}
	l.Listed.Requests, l.Listed.Bytes = count.Requests(), unit.Bytes(count.Bytes())
	found.tell(&l)
	return l, nil
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

// found is what lies below the location.
type found struct {
	root    string      // of the profile's, under which the objects lie
	objects []object    // that are segments by their names, in key order
	listed  []blob.Info // everything, in key order, where the profile needs it
	passed  map[passedOver]int
}

// strangers is how many objects are looked at where nothing lies below the roots that come first, before the location is said to have none of the topic.
const strangers = 10_000

// find lists the objects that are segments by their names, and counts those that are not.
func find(ctx context.Context, store blob.Store, p profile, topic string, sums *sums) (found, error) {
	var f found
	roots := p.roots(topic)
	for i, root := range roots {
		f.root = root
		f.passed = map[passedOver]int{}
		var errs []error
		seen := 0
		for info, err := range blob.All(ctx, store, f.root) {
			if err != nil {
				return found{}, err
			}
			if p.committed != nil {
				f.listed = append(f.listed, info)
			}
			o, err := f.look(p, topic, info, sums)
			var passed passedOver
			switch {
			case errors.As(err, &passed):
				f.passed[passed]++
			case err != nil:
				errs = append(errs, fmt.Errorf("%s: %w", info.Key, err))
			default:
				f.objects = append(f.objects, o)
			}
			if seen++; seen == strangers && i > 0 && f.root == "" && len(f.objects) == 0 {
				break
			}
		}
		if len(f.objects) > 0 || len(errs) > 0 && f.root != "" {
			if err := first(errs); err != nil {
				return found{}, err
			}
			if err := onlyThere(ctx, store, f.root, roots[i+1:]); err != nil {
				return found{}, err
			}
			break
		}
		if len(errs) > 0 {
			return found{}, fmt.Errorf("there is none of this topic; expected objects named %s; of what is there:\n%w", p.expect(topic), first(errs))
		}
	}
	if len(f.objects) == 0 {
		delete(f.passed, passedOther) // nothing says that they lie among segments
	}
	if p.committed != nil {
		if err := p.committed(commits{ctx, store, f.listed, &f.objects, f.passed}); err != nil {
			return found{}, err
		}
	}
	return f, nil
}

// onlyThere refuses a topic that lies below several roots: which of them is the history is for a person to say.
func onlyThere(ctx context.Context, store blob.Store, root string, others []string) error {
	for _, other := range others {
		if other == "" {
			continue // it holds root, too
		}
		page, err := store.List(ctx, other, "", 1)
		if err != nil {
			return err
		}
		if len(page) > 0 {
			return fmt.Errorf("objects of the topic lie below both %s and %s: name the location of the one that counts, or move the other away", root, other)
		}
	}
	return nil
}

// look reads an object's name.
func (f *found) look(p profile, topic string, info blob.Info, sums *sums) (object, error) {
	rel := strings.TrimPrefix(info.Key, folderOf(f.root))
	if why := generic(rel, info.Size); why != "" {
		return object{}, why
	}
	if sums != nil && info.Key == sums.key {
		return object{}, passedSums
	}
	n, err := p.parse(topic, rel)
	return object{info, n}, err
}

// tell adds what was passed over to a listing.
func (f *found) tell(l *plan.Listing) {
	for why, n := range f.passed {
		if l.Passed == nil {
			l.Passed = map[string]int{}
		}
		l.Passed[string(why)] = n
		l.Ignored += n
	}
	if n := f.passed[passedTombstones]; n > 0 {
		l.Notes = append(l.Notes, fmt.Sprintf("%d objects hold tombstones, records without a value, which are not read: their offsets are gaps, and a job that must follow deletes "+
			"cannot be computed from these segments", n))
	}
}

// needed are the columns of the event that segments are held against. Those without a kind match any.
func needed(src spec.Source, columns []record.Field) record.Schema {
	need := record.Schema(slices.Clone(columns))
	if need.Index(src.Event.Time) < 0 {
		need = append(need, record.Field{Name: src.Event.Time, Kind: record.Timestamp})
	}
	if src.Event.ID != "" && need.Index(src.Event.ID) < 0 {
		need = append(need, record.Field{Name: src.Event.ID})
	}
	for i := range need {
		if need[i].Name == src.Event.Time || need[i].Name == src.Event.ID {
			need[i].Nullable = false // no event is without
		}
	}
	return need
}

// nowhere refuses a column that no segment has: its name is misspelt, or it was renamed.
func nowhere(segments []described) error {
	if len(segments) == 0 {
		return nil
	}
	for _, name := range segments[0].missing {
		if !slices.ContainsFunc(segments, func(s described) bool { return !slices.Contains(s.missing, name) }) {
			return &parquetfile.Error{File: segments[0].Key, RowGroup: -1, Column: name, Reason: fmt.Sprintf(
				"neither this segment nor any other has the column, which the job reads; this one has %s; if it had another name, say so in source.event.columns.%s.aliases",
				segments[0].columns, name)}
		}
	}
	return nil
}

// reader describes segments.
type reader struct {
	topic   string
	store   blob.Store
	profile profile
	columns spec.KafkaColumns
	event   string
	need    record.Schema
	layout  source.Layout
	sums    *sums
}

// segment describes one object.
func (r *reader) segment(ctx context.Context, o object) (described, error) {
	in, err := r.open(ctx, o)
	if err != nil {
		return described{}, err
	}
	f, err := r.layout.Open(in, o.Size, o.Key)
	if err != nil {
		return described{}, err
	}
	fit, err := source.NewFit(f, r.need, r.layout)
	if err != nil {
		return described{}, err
	}
	d, err := r.describe(f, fit, o)
	d.fit = nil // with its footer, which all listings together must not hold
	if d.missing = fit.Missing(); len(d.missing) > 0 {
		d.columns = strings.Join(f.Columns(), ", ")
	}
	return d, err
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
