package check

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"golang.org/x/sync/errgroup"

	"hindcast/internal/blob"
	"hindcast/internal/partition"
	"hindcast/internal/plan"
	"hindcast/internal/spec"
	"hindcast/internal/table"
	"hindcast/internal/transform"
)

// Inputs is all that checks look at.
type Inputs struct {
	Candidate *table.Candidate
	// Partial says that the candidate has those partitions only that a probe has made whole, and that there are no accounts.
	Partial bool
	// Dataset is where the candidate's files lie.
	Dataset blob.Store
	// Found, where set, is told of each file of the candidate that was read and has the bytes that were written, and its ETag then. It is called concurrently.
	Found func(path string, tag blob.ETag)
	// Base is the version that the candidate was made for; nil where there was none.
	Base   *table.Snapshot
	Checks spec.Checks
	// Canaries are the files that the checks name.
	Canaries []Canaries

	// Accounts has one entry for each table, topic partition and origin.
	Accounts []Account
	// DeadLetters and Conflicts are how many the shards found, and the first of them.
	DeadLetters      int64
	FirstDeadLetters []transform.DeadLetter
	Conflicts        int64
	FirstConflicts   []transform.Conflict
	// Event is what the job declares of its events. Strays is how many were read that contradict it, FirstStrays the first of them.
	Event       spec.Event
	WholeLog    bool
	Strays      int64
	FirstStrays []transform.Stray
	// IDs are the event ids of the shards, where events are deduped: a shard sees no id of another.
	IDs []ShardIDs
}

// Canaries is a CSV file of rows whose right values are known independently.
type Canaries struct {
	Name string
	Data string
}

// Account says what became of the offsets of one topic partition and origin, for
// one table. Every offset of the read range is counted once.
type Account struct {
	transform.Count
	// Offsets is how many the read range has here.
	Offsets int64 `json:"offsets"`
	// Skipped are those that no shard read: provably outside the window, or without
	// a record (markers, compaction, accepted gaps). SkippedFor is how many for which reason.
	Skipped    int64                     `json:"skipped,omitempty"`
	SkippedFor map[plan.SkipReason]int64 `json:"skipped_for,omitempty"`
}

// ShardIDs are the fingerprints of a shard's event ids; see [transform.Result].
type ShardIDs struct {
	Shard string
	// Scheme is that of the shard's tables. An id must not be in two shards of one scheme.
	Scheme partition.Scheme
	// Open gives them as 8 bytes each, little-endian, ascending.
	Open func(ctx context.Context) (io.ReadCloser, error)
	// Locate finds the shard's events whose ids have such fingerprints. It is called only where another shard has them, too.
	Locate func(ctx context.Context, fingerprints []uint64) ([]transform.Sighting, error)
}

// one is a check: its name in verdicts, and how it is made. An error means that it could not be made, and says nothing of the candidate.
type one struct {
	name string
	run  func(ctx context.Context, e *evidence) (Result, error)
	// meanwhile: it looks at nothing that is read back, and is made while that goes on.
	meanwhile bool
}

// all are the checks, in the order of the verdict.
func all() []one {
	return []one{
		{name: "input", run: input},
		{name: "dead-letters", run: deadLetters},
		{name: "lateness", run: lateness},
		{name: "ids", run: ids, meanwhile: true},
		{name: "files", run: files},
		{name: "keys", run: keys},
		{name: "rows", run: rows},
		{name: "canaries", run: canaries},
		{name: "emptied", run: emptied},
	}
}

// evidence is what the checks share: their inputs, and the candidate as it was read back.
type evidence struct {
	Inputs
	canaries *canaryBook
	back     readBack
}

// Run makes all checks. An error means that they could not be made: it may be tried again.
func Run(ctx context.Context, in Inputs) (Verdict, error) {
	digest, err := in.Candidate.Digest()
	if err != nil {
		return Verdict{}, err
	}
	v := Verdict{Run: in.Candidate.Run, Candidate: digest}
	if (in.Base == nil) != (in.Candidate.Base == nil) || in.Base != nil && in.Base.Ref != *in.Candidate.Base {
		return Verdict{}, fmt.Errorf("check run %s: the base is not the one that the candidate was made for", v.Run)
	}
	e := &evidence{Inputs: in, canaries: readCanaries(in)}
	checks := all()
	v.Results = make([]Result, len(checks))
	do := func(ctx context.Context, i int) (err error) {
		c := &checks[i]
		if v.Results[i], err = c.run(ctx, e); err != nil {
			return fmt.Errorf("check run %s: %s: %w", v.Run, c.name, err)
		}
		v.Results[i].Check = c.name
		return nil
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		if e.back, err = readCandidate(gctx, in, e.canaries); err != nil {
			return fmt.Errorf("check run %s: read its candidate: %w", v.Run, err)
		}
		return nil
	})
	for i := range checks {
		if checks[i].meanwhile {
			g.Go(func() error { return do(gctx, i) })
		}
	}
	if err := g.Wait(); err != nil {
		return Verdict{}, err
	}
	for i := range checks {
		if checks[i].meanwhile {
			continue
		}
		if err := do(ctx, i); err != nil {
			return Verdict{}, err
		}
	}
	return v, nil
}

// count writes n with its digits in groups, as "544,617".
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := 0
	if n < 0 {
		sign = 1
	}
	for at := len(s) - 3; at > sign; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}
