// Package archive copies a topic's log to Parquet segments, for those whom no exporter serves: so that the next correction has its input.
//
//	topics/<topic>/partition=P/<topic>+P+OFFSET.parquet
//
// Segments are named as Kafka Connect's, by the offset of their first record, and hold a fixed number of records each; the last one of a
// call is shorter. Their footers say which offsets were copied (hindcast.range), so that one without a row is known to hold no record: a transaction's marker, an
// aborted or a compacted record. Only committed records are copied.
//
// A call goes on where the segments end, up to the end that was pinned when it began; it keeps no state of its own. Segments are written once and never
// again: what a plan has pinned stays as it is, and a call after a short segment begins another. Whoever writes an object second loses ([ErrConflict]). A log
// that is no longer the one that the segments are of, or that has lost what comes next, is [ErrRefused].
package archive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"

	"hindcast/internal/blob"
	"hindcast/internal/plan"
	"hindcast/internal/source/tailsrc"
	"hindcast/internal/unit"
)

// ErrRefused means that the archive cannot be continued from this log: the message says why, and what to do.
var ErrRefused = errors.New("the archive cannot be continued")

// ErrConflict means that another call archives the same topic to the same location. What it wrote is whole: the next call goes on from there.
var ErrConflict = errors.New("the topic is being archived by another call")

// Reader yields the committed records of a range of a partition, in order; none at its end. See package tailsrc.
type Reader interface {
	Next(ctx context.Context) ([]*kgo.Record, error)
	Close()
}

// Options say what to archive, and where to. Those that say "0 means" may be left out.
type Options struct {
	Topic   string
	TopicID string      // as pinned; empty where the brokers have none
	Tails   []plan.Tail // of all partitions, ascending from 0: where the log starts, and up to where to copy
	// Open reads the offsets [from, to) of a partition whose log is still what was pinned; another is [tailsrc.ErrChanged]. Of an empty range it
	// is asked that alone.
	Open func(ctx context.Context, pinned plan.Tail, from, to int64) (Reader, error)
	// From is where to begin in partitions of which nothing is archived yet; those that are not named begin where the log starts.
	From map[int32]int64

	Store blob.Store
	// Columns are what is kept of a record; nil means [Raw].
	Columns Columns

	// RecordsPerSegment is the number of records at which a segment ends; 0 means DefaultRecordsPerSegment.
	RecordsPerSegment int
	// RecordsPerSecond throttles, on average; 0 means no limit.
	RecordsPerSecond int
	// Watch, where set, is told how it goes on.
	Watch func(Progress)
}

const (
	// DefaultRecordsPerSegment is a compromise: large segments are read with fewer requests, and take memory while they are written.
	DefaultRecordsPerSegment = 250_000
	// segmentBytes is the size of values at which a segment ends early: it is built in memory.
	segmentBytes = 128 << 20
	// rowGroupRows is the number of rows that are read or left out together.
	rowGroupRows = 10_000
)

// Progress is how far a call has come.
type Progress struct {
	Partition     int32
	Offsets, Done int64 // of all partitions: to copy, and copied
	Records       int64
}

// Report is what a call has copied.
type Report struct {
	Topic      string            `json:"topic"`
	TopicID    string            `json:"topic_id,omitempty"`
	Partitions []PartitionReport `json:"partitions"`
	Segments   int               `json:"segments"` // that were written
	Records    int64             `json:"records"`
	Bytes      unit.Bytes        `json:"bytes"`
}

// PartitionReport is that of one partition.
type PartitionReport struct {
	Partition int32 `json:"partition"`
	// First and Next are what the archive has by now, and From where this call went on.
	First    int64    `json:"first"`
	From     int64    `json:"from"`
	Next     int64    `json:"next"`
	Records  int64    `json:"records"` // that this call copied
	Segments []string `json:"segments,omitempty"`
}

// Run archives. If it fails, the report says what was copied before; calling again goes on from there.
func Run(ctx context.Context, opts Options) (Report, error) {
	a, err := newArchiver(opts)
	if err == nil {
		err = a.run(ctx)
	}
	if err != nil {
		return a.report, fmt.Errorf("archive topic %s: %w", opts.Topic, err)
	}
	return a.report, nil
}

type archiver struct {
	Options
	limit    *rate.Limiter // nil: none
	report   Report
	progress Progress
}

func newArchiver(opts Options) (*archiver, error) {
	opts.RecordsPerSegment = cmp.Or(opts.RecordsPerSegment, DefaultRecordsPerSegment)
	if opts.Columns == nil {
		opts.Columns = Raw()
	}
	a := &archiver{Options: opts, report: Report{Topic: opts.Topic, TopicID: opts.TopicID, Partitions: []PartitionReport{}}}
	if opts.RecordsPerSegment < 0 || opts.RecordsPerSecond < 0 {
		return a, errors.New("a size or rate is negative")
	}
	if opts.RecordsPerSecond > 0 {
		a.limit = rate.NewLimiter(rate.Limit(opts.RecordsPerSecond), opts.RecordsPerSecond)
	}
	for p, t := range opts.Tails {
		if int(t.Partition) != p {
			return a, fmt.Errorf("partition %d is in the place of %d", t.Partition, p)
		}
	}
	return a, nil
}

func (a *archiver) run(ctx context.Context) error {
	// Every partition is looked at before anything is written.
	held, err := a.held(ctx)
	if err != nil {
		return err
	}
	for _, t := range a.Tails {
		p, err := a.begin(ctx, t, held[t.Partition])
		if err != nil {
			return err
		}
		a.report.Partitions = append(a.report.Partitions, p)
		a.progress.Offsets += t.End - p.Next
	}
	if a.progress.Offsets > 0 {
		if err := blob.Probe(ctx, a.Store, path.Join(a.dir(), "_probe")); err != nil {
			return fmt.Errorf("archives need a store that honours conditional puts: %w", err)
		}
	}
	for i := range a.report.Partitions {
		p := &a.report.Partitions[i]
		if end := a.Tails[i].End; p.Next < end {
			if err := a.copy(ctx, p, a.Tails[i]); err != nil {
				return fmt.Errorf("partition %d, offsets %d-%d: %w", p.Partition, p.Next, end, err)
			}
		}
	}
	return nil
}

// begin decides where to go on in a partition.
func (a *archiver) begin(ctx context.Context, t plan.Tail, held []segment) (PartitionReport, error) {
	p := PartitionReport{Partition: t.Partition, First: t.Start, Next: t.Start}
	from, named := a.From[t.Partition]
	refuse := func(format string, args ...any) (PartitionReport, error) {
		return p, fmt.Errorf("partition %d: %s: %w", t.Partition, fmt.Sprintf(format, args...), ErrRefused)
	}
	switch {
	case len(held) > 0:
		last := held[len(held)-1]
		p.First, p.Next = held[0].First, last.Next
		switch {
		case named && from != p.Next:
			return refuse("it is to begin at offset %d, but the archive has the offsets %d-%d already: leave that out, or archive to another location", from, p.First, p.Next)
		case t.End < p.Next:
			return refuse("the archive goes to offset %d (%s), but the log ends at %d: it was truncated, or is another topic's; archive to another location", p.Next, last.key, t.End)
		case t.Start > p.Next:
			return refuse("the archive ends at offset %d (%s), but the log now starts at %d: the offsets %d-%d were deleted before they were archived; "+
				"if they are lost, archive to another location from here, and archive more often than retention deletes", p.Next, last.key, t.Start, p.Next, t.Start)
		}
		// The same offsets may be those of other records by now: where a leader was elected that lacked the last ones.
		in, err := a.Open(ctx, plan.Tail{Partition: t.Partition, Start: p.First, End: p.Next, Epoch: last.epoch}, p.Next, p.Next)
		if errors.Is(err, tailsrc.ErrChanged) {
			return refuse("the log is no longer the one that was archived to offset %d (%s): %v; archive to another location", p.Next, last.key, err)
		}
		if err != nil {
			return p, err
		}
		in.Close()
	case named && (from < t.Start || from > t.End):
		return refuse("it is to begin at offset %d, but the log has the offsets %d-%d", from, t.Start, t.End)
	case named:
		p.First, p.Next = from, from
	}
	p.From = p.Next
	return p, nil
}

// copy copies the offsets of a partition from p.Next on.
func (a *archiver) copy(ctx context.Context, p *PartitionReport, t plan.Tail) error {
	in, err := a.Open(ctx, t, p.Next, t.End)
	if err != nil {
		return err
	}
	defer in.Close()
	rows := a.Columns.rows(p.Partition)
	reached := p.Next
	for {
		records, err := in.Next(ctx)
		if err != nil {
			return err
		}
		if len(records) == 0 {
			break
		}
		for _, r := range records {
			if rows.full(a.RecordsPerSegment) {
				if err := a.flush(ctx, p, rows, r.Offset, t.Epoch); err != nil {
					return err
				}
				rows = a.Columns.rows(p.Partition)
			}
			if err := rows.add(ctx, r); err != nil {
				return fmt.Errorf("offset %d: %w", r.Offset, err)
			}
		}
		last := records[len(records)-1].Offset + 1
		a.watch(p.Partition, last-reached, int64(len(records)))
		reached = last
		if err := a.wait(ctx, len(records)); err != nil {
			return err
		}
	}
	a.watch(p.Partition, t.End-reached, 0)
	return a.flush(ctx, p, rows, t.End, t.Epoch)
}

func (a *archiver) watch(partition int32, offsets, records int64) {
	a.progress.Partition = partition
	a.progress.Done += offsets
	a.progress.Records += records
	if a.Watch != nil {
		a.Watch(a.progress)
	}
}

// wait holds the next request back until n records are due.
func (a *archiver) wait(ctx context.Context, n int) error {
	for a.limit != nil && n > 0 {
		k := min(n, a.limit.Burst())
		if err := a.limit.WaitN(ctx, k); err != nil {
			return err
		}
		n -= k
	}
	return nil
}

// flush writes the rows as the segment of the offsets from p.Next to next.
func (a *archiver) flush(ctx context.Context, p *PartitionReport, r *rows, next int64, epoch int32) error {
	copied := plan.Range{First: p.Next, Next: next}
	key := a.key(p.Partition, r.first(copied.First))
	data, err := a.encode(r, copied, epoch)
	if err != nil {
		return fmt.Errorf("write segment %s: %w", key, err)
	}
	if err := a.put(ctx, key, data); err != nil {
		return err
	}
	n := int64(r.batch.Len)
	p.Next, p.Records, p.Segments = next, p.Records+n, append(p.Segments, key)
	a.report.Segments, a.report.Records, a.report.Bytes = a.report.Segments+1, a.report.Records+n, a.report.Bytes+unit.Bytes(len(data))
	return nil
}

// put writes an object that must not be there. Where the reply is lost, what lies there decides.
func (a *archiver) put(ctx context.Context, key string, data []byte) error {
	_, err := blob.PutBytes(ctx, a.Store, key, data, blob.Condition{IfAbsent: true})
	if err == nil {
		return nil
	}
	there, _, errRead := blob.ReadAll(ctx, a.Store, key)
	switch {
	case errRead == nil && bytes.Equal(there, data):
		return nil
	case errRead == nil && errors.Is(err, blob.ErrPrecondition):
		return fmt.Errorf("segment %s was written meanwhile: %w; call again when it has ended", key, ErrConflict)
	}
	return fmt.Errorf("write segment %s: %w", key, err)
}

func (a *archiver) dir() string { return "topics/" + a.Topic + "/" }

func (a *archiver) key(partition int32, first int64) string {
	return fmt.Sprintf("%spartition=%d/%s+%d+%010d.parquet", a.dir(), partition, a.Topic, partition, first)
}
