package job

import (
	"fmt"
	"io"
	"iter"

	"hindcast/internal/record"
)

// Transform computes the rows of one output. [Fold] and [Map] are the ways to write one. A transform is a pure
// function of the events that it is given in order: no clock, no randomness, no I/O, nothing remembered outside its state.
type Transform interface {
	// Shape describes the transform. An error names the struct field or function that is wrong.
	Shape() (Shape, error)
	// Open starts a computation. It may be called any number of times; runners share nothing.
	Open(Options) (Runner, error)
}

// Shape is what a transform reads and writes.
type Shape struct {
	// Events are the columns read. One that is not Nullable must hold no null in the rows that are given.
	Events record.Schema
	// Rows are the columns written; the first Keys of them identify a row and order the output. Key columns hold no null.
	Rows record.Schema
	Keys int
	// OneRowPerKey says that no two rows of a partition have one key, as after a fold.
	OneRowPerKey bool
	// Passing is how many of Events, the last ones, no function sees: a map passes them through. Same are, of each column of Rows, that of the events
	// whose values it has as they lie; empty where it is made. Nil: all are made.
	Passing int      `json:",omitempty"`
	Same    []string `json:",omitempty"`
	// Versioned says that a version guard skips events at or below the version that their key has.
	Versioned bool
	// Merges says that what comes of parts of the log, one after the other, can be merged: the transform is a [Merger].
	Merges bool
}

// Options say how a computation keeps partitions apart.
type Options struct {
	// Slots is the number of partitions of the output that are computed together, numbered from 0.
	Slots int
	// Bucket, where set, decides the slot of a row by the value of its key column BucketColumn, as
	// [record.Column] would hold it: a string's bytes, an integer in decimal. Else the caller of [Runner.Add] decides.
	Bucket       func(value []byte) int
	BucketColumn int
	// Keys are those that the computation keeps.
	Keys Share
	// Partial has [Runner.Drain] yield what [Merger.Combine] takes.
	Partial bool
	// Lent are columns of the events that only pass through. If there are some, batches have one more column than [Shape.Events], of integers, which passes through
	// to one more column of the rows: where it is not null it stands for them, and they are null whatever they are in the log.
	Lent []string
}

// Share is some of the keys, divided by their hashes among Of computations that are given the same events: those of number Number. The zero Share is all keys. What
// has no key, or is not known to, as an event that Where leaves out, is number 0's; so are all rows of a map.
type Share struct {
	Number int `json:"number"`
	Of     int `json:"of"`
}

// has reports whether a key belongs to the share, by its hash. The bits are not those that indexes and scratch files go by.
func (s Share) has(hash uint64) bool { return s.Of < 2 || int(hash>>32&0xFFFF)%s.Of == s.Number }

// Merger is a transform that can be computed in parts: of events that are cut, in the order of the log, among computations with [Options.Partial].
type Merger interface {
	Transform
	// Partial are the columns that such a computation drains: the key columns as rows have them, and what is kept of the key.
	Partial() (record.Schema, error)
	// Combine makes rows of what they drained of one slot, which comes sorted by key, and for one key in the order of the log. What it yields is valid until the next.
	Combine(partials iter.Seq2[*record.Batch, error]) iter.Seq2[*record.Batch, error]
}

// Runner is one computation: rows go in, then each slot is drained once. It is not safe for concurrent use.
type Runner interface {
	// Add applies the rows of b that are listed, ascending, in order. The columns of b are those of [Shape.Events], in order;
	// slots[i] is the slot of rows[i], and nil where [Options.Bucket] decides. It adds to out. What is wrong with
	// one event goes to out.Failures and leaves no trace in the rows; an error means that the computation is void.
	Add(b *record.Batch, rows, slots []int32, out *Outcome) error
	// Drain yields the rows of a slot, sorted by key, in batches of bounded size that are valid during the call. It ends with
	// yield's first error. A slot can be drained once; after the first Drain nothing can be added.
	Drain(slot int, yield func(*record.Batch) error) error
	// Size is about the memory in bytes that the computation holds: of what is behind maps, slices and strings of states it is an estimate. It is
	// cheap to ask after each Add.
	Size() int64
	// Snapshot writes what the computation holds, the same bytes for the same state. Restore, on a new
	// runner of the same transform and options, takes it back; r must end where the snapshot ends.
	Snapshot(w io.Writer) error
	Restore(r io.Reader) error
}

// Flowing is a [Runner] whose rows can leave before the end, in the order in which they came, if no key orders them: those of maps.
type Flowing interface {
	Runner
	// Flow yields the rows of slots that have least or more, if another slot may begin, and forgets them; once a slot did, it takes fewer. Batches are valid
	// during the call. It is to be called before [Runner.Size] is. Where rows have keys, or lack columns that are lent, it yields nothing.
	Flow(least int, may func() bool, yield func(slot int, b *record.Batch) error) error
}

// Outcome counts what became of events: each row given to [Runner.Add] is counted once, here or as a Failure or Left.
type Outcome struct {
	Applied  int64 // in the state, or made into at least one row
	Filtered int64 // not wanted by the transform
	Stale    int64 // at or below the version that its key already has
	Failures []Failure
	Left     []Left // not looked at; see [Bounded]
	// Elsewhere counts what another [Share] accounts for.
	Elsewhere int64
}

// Failure is an event that the transform could not take. As the error of [Runner.Add] it says which event voids the computation.
type Failure struct {
	Row int32 // in the batch
	Err error
}

func (f *Failure) Error() string { return fmt.Sprintf("row %d: %v", f.Row, f.Err) }

func (f *Failure) Unwrap() error { return f.Err }
