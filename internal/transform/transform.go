// Package transform runs a shard: it takes the rows of a log in order, gives each event to the transforms once, and passes on
// the rows that come out. It owns order, windows, partitions, dedupe and the account of what became of every row.
//
// It neither opens segments nor writes tables: rows come from a [Reader] and go to a [Sink]. It reads no clock and starts no goroutine that outlives [Run].
//
// # Memory
//
// [Config.Memory] is divided between the ids seen and each output. What finds no room in its share goes to scratch files, and the rows, the account and
// the bytes of the tables stay the same. That they do rests on three orders.
//
//   - Ids. Once they are full, a row whose id is not among them cannot be decided about: it waits in a file of rows, in the order of the log, and its id, contents
//     and number in a file of ids, one of 16 by its hash. When the input has ended, the ids of each file are compared in that order, which tells which rows
//     repeat one. (A first event is never decided about after a second: both are among the ids in memory, or both wait.) Then the rows that are left go to the outputs. They come after all
//     those that did not wait, as in the log: since the ids were full, none that was new went on.
//   - Folds. A fold cannot be merged of parts, since events must be applied in order. But it is by key that they must be: a full one takes no more keys, goes on
//     with those that it has, and leaves the others' events, 16 files by their keys' hashes. When the input has ended, each file is a new computation of keys of its own.
//   - Rows. Each computation drains its rows to a run, sorted by partition and key; a map does so whenever it is full. Runs are merged. Keys of a fold
//     are in one run only; rows of a map that have one key stay in the order of the runs, which is the log's. Rows without keys are passed on early, where there
//     are many ([Config.Early]); when a lap ends, those that come back are a run before all others.
//
// A file whose keys or ids find no room again is divided by the next bits of their hashes.
//
// # Laps
//
// All of that is a list of files to go over once more, and after it partitions to pass on; a lap can end after any batch of such a file, and after any partition. Its
// checkpoint has what is in memory, the list, how far the file at hand was read, and the files themselves.
package transform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"hindcast/internal/job"
	"hindcast/internal/partition"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/source"
	"hindcast/internal/spec"
)

// ErrorColumn is the column that says why a captured record could not be decoded. It comes after
// [Config.Columns] in every batch, null where the record is fine.
const ErrorColumn = source.ErrorColumn

// Reader gives the rows of a shard by topic partition, ascending, and in it by offset, ascending. A batch
// is valid until the next call; io.EOF ends.
type Reader = source.Reader

// Sink takes the rows of one partition of a table, in key order and in the columns of the transform's rows. It is called for tables in their
// order and for labels ascending, never for a partition without rows. Batches are valid until the next; an error among them is to be returned.
type Sink func(table, label string, rows iter.Seq2[*record.Batch, error]) error

// Output is a table that the shard computes.
type Output struct {
	Table     string
	Transform job.Transform
	// BucketColumn is the key column that decides, of a table cut in buckets.
	BucketColumn string
}

// Config describes a shard's work. [ForShard] makes it from a plan.
type Config struct {
	Outputs []Output
	// Scheme is that of all outputs. Slots are the shard's partitions, contiguous and ascending; nil for bucket tables, and where
	// no event has a time that a table can be cut by.
	Scheme partition.Scheme
	Slots  []partition.Slot
	// Keys are those of each table that are computed, where several workers read the same rows. Number 0 accounts for what is not about a key. Partial has the
	// sink get what [job.Merger.Combine] takes.
	Keys    job.Share
	Partial bool
	// Window is that of the run: rows outside it are counted as such. Nil takes every event time.
	Window *spec.Window

	// Columns are those of the reader's batches before ErrorColumn; see [job.Columns].
	Columns record.Schema
	// Time and ID are the columns that date and identify an event. Without ID nothing is deduped.
	Time, ID string

	// Lent are the columns of events that only pass through, as the table has them. Where there are any, the last of Columns is [source.PlaceColumn], and a row
	// that has a place may lack them; rows that the sink is given have their place as one more column, the last.
	Lent record.Schema

	// Lateness and Ahead are what the job declares: an event's time lies in [record time - Lateness, record time + Ahead].
	Lateness, Ahead spec.Duration

	// Owned are the offsets, by topic partition, that the shard accounts for where the row has no slot of any shard.
	Owned map[int32]plan.Ranges
	// Tail are the offsets that were captured from the brokers, Tiered those that were from tiered storage.
	Tail, Tiered map[int32]plan.Ranges

	// Rows is how many rows to expect: a hint.
	Rows int64
	// Fingerprints, if set, is given hashes of the ids of the shard's events, 8 bytes each, little-endian, ordered by [FingerprintGroup]: an id in two
	// shards of a scheme may have come with two contents.
	Fingerprints io.Writer

	// Memory is how many bytes ids, states and rows may take, about, before they go to files in the folder Scratch; 0: no limit. An
	// empty Scratch is the system's folder for such files.
	Memory  int64
	Scratch string

	Sink Sink
	// Early, if set, is given rows that need not wait for the end.
	Early *Early
	// Stop, if set, is asked after each piece of work, with the number of rows that this lap has worked on: a batch of the input, one of those that went to
	// scratch, a partition given to the sink. When it says true, the state goes to Checkpoint, and Run returns with Done unset; a later Run
	// with Resume reading the checkpoint goes on, over a reader that may begin anywhere at or before the cursor, and is not asked for anything once the input has
	// ended. Every lap does at least one piece of work. What it gave to Sink, and to Fingerprints, no later lap gives again.
	Stop       func(rows int64) bool
	Checkpoint io.Writer
	Resume     io.Reader
	// Save, if set, gives what the caller wants to have kept in the checkpoint: what became of the rows that Sink was given, which are not given again. Load
	// is given it when the shard is resumed.
	Save func() (json.RawMessage, error)
	Load func(json.RawMessage) error
}

// Early takes the first rows of partitions of tables without keys while the shard goes on, in the order in which Sink would be given them: they need not be held.
type Early struct {
	// Rows is how many rows of a partition there are when the first are passed on, about.
	Rows int
	// Bytes is about the memory that it takes to have begun a partition. As many are as half of an output's share has room for.
	Bytes int64
	// Take is given a batch, which is valid during the call. Sink is called in the end for each such partition, with the rows that are left, if any.
	Take func(table, label string, b *record.Batch) error
	// Recall gives the rows back that Take was given of a partition, but for those that are done for good: a lap ends, its checkpoint is to have them, and
	// another lap will pass them on.
	Recall func(table, label string) iter.Seq2[*record.Batch, error]
}

// Times returns the half-open range of the times of events that the shard's tables take. Of other rows only their times and why they cannot be read
// matter. It is not ok where there is no such range.
func (c *Config) Times() (from, to int64, ok bool) {
	if len(c.Slots) == 0 {
		return 0, 0, false
	}
	return c.Slots[0].From, c.Slots[len(c.Slots)-1].To, true
}

// Origin says where a row came from.
type Origin string

// The origins.
const (
	FromSegment Origin = "segment"
	FromTail    Origin = "tail"
	FromTiered  Origin = "tiered"
)

// Count says what became of the rows of a topic partition and origin, for one table. A row of the shard is counted once a table:
// if it lies in one of the shard's partitions, or if the shard owns it.
type Count struct {
	Partition int32  `json:"partition"`
	Origin    Origin `json:"origin"`
	Table     string `json:"table"`

	Applied   int64 `json:"applied,omitempty"`
	Filtered  int64 `json:"filtered,omitempty"`  // not wanted by the transform
	Duplicate int64 `json:"duplicate,omitempty"` // the same event again
	Conflict  int64 `json:"conflict,omitempty"`  // an id again, with other contents
	Stale     int64 `json:"stale,omitempty"`     // at or below the version that the key had
	Outside   int64 `json:"outside,omitempty"`   // of the window
	Dead      int64 `json:"dead,omitempty"`      // unreadable; see DeadLetters
}

// Total is the number of rows counted.
func (c Count) Total() int64 {
	return c.Applied + c.Filtered + c.Duplicate + c.Conflict + c.Stale + c.Outside + c.Dead
}

// Position is a record's place in the log.
type Position struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

func (p Position) String() string {
	return fmt.Sprintf("partition %d, offset %d", p.Partition, p.Offset)
}

// DeadLetter is an event that could not be read, or that a transform could not take.
type DeadLetter struct {
	Position
	Table  string `json:"table,omitempty"` // empty: for all tables
	Reason string `json:"reason"`
}

// Conflict is an event id that came with two contents.
type Conflict struct {
	ID     string   `json:"id"`
	First  Position `json:"first"`
	Second Position `json:"second"`
	// Column is the first of the job's columns that differs, where that is known.
	Column string `json:"column,omitempty"`
}

// Stray is an event whose time is farther from its record time than the job declares. It is counted like any other.
type Stray struct {
	Position
	Event  int64 `json:"event_time"` // microseconds
	Record int64 `json:"record_time"`
}

// MaxFindings is the number of dead letters, of conflicts and of strays that are told one by one.
const MaxFindings = 100

// Result is the account of a shard. It depends on the rows alone, not on batches or laps.
type Result struct {
	// Done is unset if the shard stopped at a checkpoint; then Counts and the rest are those so far.
	Done bool `json:"done"`
	// Cursor is the last row that was taken; nil before the first.
	Cursor *Position `json:"cursor,omitempty"`
	Counts []Count   `json:"counts"` // by table, topic partition, origin
	// DeadLetters is the number of events that are dead for at least one table, FirstDeadLetters what is told of them. Conflicts likewise.
	DeadLetters      int64        `json:"dead_letters"`
	FirstDeadLetters []DeadLetter `json:"first_dead_letters,omitempty"`
	Conflicts        int64        `json:"conflicts"`
	FirstConflicts   []Conflict   `json:"first_conflicts,omitempty"`
	// Strays is the number of strays among the offsets that the shard owns.
	Strays      int64   `json:"strays,omitempty"`
	FirstStrays []Stray `json:"first_strays,omitempty"`
	// Ended says that all of the input was taken.
	Ended bool `json:"-"`
	// Fingerprints is how many were told; see [Config.Fingerprints].
	Fingerprints int64 `json:"fingerprints,omitempty"`
	// PeakMemory is the most bytes that ids, states and rows took at the end of a batch of this lap, but for what maps, slices and strings of states refer to.
	PeakMemory int64 `json:"-"`
}

// ForShard describes the work of a shard of p. The caller adds Sink, Fingerprints, and what concerns laps; it may call Lend.
func ForShard(p *plan.Plan, sh plan.Shard, outputs job.Outputs) (Config, error) {
	columns, err := job.Columns(p.Spec, outputs)
	if err != nil {
		return Config{}, err
	}
	c := Config{
		Scheme: sh.Scheme, Slots: sh.Slots, Window: p.Window, Columns: columns, Time: p.Spec.Source.Event.Time,
		Lateness: p.Spec.Source.Event.Lateness, Ahead: p.Spec.Source.Event.Ahead,
		Keys: job.Share(sh.Keys), Partial: sh.Slice,
		Owned: map[int32]plan.Ranges{}, Tail: map[int32]plan.Ranges{}, Tiered: map[int32]plan.Ranges{}, Rows: sh.Rows,
	}
	if p.Spec.Source.Event.Dedupe {
		c.ID = p.Spec.Source.Event.ID
	}
	for _, table := range sh.Tables {
		out := Output{Table: table, Transform: outputs[table]}
		for _, o := range p.Spec.Outputs {
			if o.Table == table {
				out.BucketColumn = o.BucketColumn
			}
		}
		c.Outputs = append(c.Outputs, out)
	}
	for _, in := range sh.Inputs {
		c.Owned[in.Partition] = c.Owned[in.Partition].Union(in.Owned)
	}
	for _, part := range p.Partitions {
		c.Tail[part.Partition], c.Tiered[part.Partition] = part.FromBrokers(), part.StoredOffsets()
	}
	return c, nil
}

// Lend finds the columns that need not be read of every row, for a reader that lends. Ids are told apart by the contents of all columns, keys are sorted by, and of
// several tables each may want something else of a column: there nothing is lent.
func (c *Config) Lend() error {
	if c.ID != "" || len(c.Outputs) != 1 || c.Columns.Index(source.PlaceColumn) >= 0 {
		return nil
	}
	shape, err := c.Outputs[0].Transform.Shape()
	if err != nil || shape.Keys > 0 {
		return err
	}
	for _, f := range shape.Events[len(shape.Events)-shape.Passing:] {
		if at := c.Columns.Index(f.Name); f.Name != c.Time && at >= 0 && c.Columns[at].Kind == f.Kind {
			c.Lent = append(c.Lent, f)
		}
	}
	if len(c.Lent) > 0 {
		c.Columns = append(slices.Clip(c.Columns), record.Field{Name: source.PlaceColumn, Kind: record.Int64, Nullable: true})
	}
	return nil
}

// Run computes a shard and closes r. An error means that nothing of the shard may be used, but for
// checkpoints of earlier laps.
func Run(ctx context.Context, r Reader, c Config) (res Result, err error) {
	defer func() { err = errors.Join(err, r.Close()) }()
	e, err := newEngine(c)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	if c.Resume != nil {
		if err := e.restore(c.Resume); err != nil {
			return Result{}, fmt.Errorf("resume from checkpoint: %w", err)
		}
	}
	if e.Stage == reading {
		err = e.read(ctx, r)
	}
	if err == nil {
		err = e.conclude(ctx)
	}
	switch {
	case err == nil:
		return e.result(true), nil
	case !errors.Is(err, errLap):
		return Result{}, err
	}
	if err := e.settle(); err != nil {
		return Result{}, err
	}
	if err := e.checkpoint(c.Checkpoint); err != nil {
		return Result{}, fmt.Errorf("write checkpoint: %w", err)
	}
	return e.result(false), nil
}

// read takes the input, to its end.
func (e *engine) read(ctx context.Context, r Reader) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		partition, b, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := e.add(partition, b); err != nil {
			return err
		}
		if err := e.bound(); err != nil {
			return err
		}
		if !e.resumed {
			continue // all of it was taken by an earlier lap
		}
		if err := e.worked(b.Len); err != nil {
			return err
		}
	}
}
