package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"hindcast/internal/blob"
	"hindcast/internal/check"
	"hindcast/internal/table"
)

// Options are for [Open]. The zero value works.
type Options struct {
	// Settle is how long a put that the store did not answer is followed up, even
	// after the caller's context ended; 0 means 30 s.
	Settle time.Duration
}

const defaultSettle = 30 * time.Second

// Dataset moves the pointer of one dataset. It may be used concurrently, by any number of processes at once.
type Dataset struct {
	store  blob.Store
	name   string
	settle time.Duration
	proven atomic.Bool // the store honours conditions
}

// Open gives the dataset called name, which lies at the root of store. Nothing is read yet.
func Open(store blob.Store, name string, opts Options) *Dataset {
	if opts.Settle == 0 {
		opts.Settle = defaultSettle
	}
	return &Dataset{store: store, name: name, settle: opts.Settle}
}

// Request says who asks for an operation, when, and why.
type Request struct {
	By  string
	At  time.Time
	Why string
}

// maxText is the most bytes of a name or reason; they stand in the pointer.
const maxText = 2000

func (r Request) validate() error {
	if r.At.IsZero() {
		return errors.New("the time of the request is missing")
	}
	if len(r.By) > maxText || len(r.Why) > maxText {
		return fmt.Errorf("who asks, or why, has more than %d bytes", maxText)
	}
	return nil
}

func (r Request) commit(op table.Op) table.Commit {
	return table.Commit{Op: op, By: r.By, At: r.At.UTC().Truncate(time.Microsecond), Why: r.Why}
}

// Result is what an operation came to.
type Result struct {
	// Version is the version that the operation made, now or earlier.
	Version table.Ref
	Commit  table.Commit
	// Repeated says that it had been made before, by an earlier attempt or by somebody else who asked for the same.
	Repeated bool
	// Undone says of a repeated promotion that the run was rolled back since, and stays so.
	Undone bool
	// Served is what the pointer showed last: the version, or one that followed it.
	Served table.Ref
}

// Promotion asks to serve a run's candidate.
type Promotion struct {
	// Run is the run's folder.
	Run       blob.Store
	Candidate *table.Candidate
	// Verdict must have passed, on exactly that candidate.
	Verdict check.Verdict
	// Proven are ETags under which files of the candidate were read, by path, and held what it says.
	// A file that has its ETag still is not read again: this spares reading, and proves nothing else. It may be nil.
	Proven map[string]blob.ETag
	Request
	// Again puts a run that was promoted and rolled back into service once more.
	// Without it such a run stays out: the promotion was done, and succeeds without effect.
	Again bool
}

// Promote swaps a candidate in. A repeat succeeds, and moves nothing: see [Result]. The errors are ErrNotProven, ErrFileChanged,
// ErrDecided after an abort, ErrBaseMoved, ErrBusy, ErrOutcomeUnknown, and those of the store.
func (d *Dataset) Promote(ctx context.Context, p Promotion) (Result, error) {
	res, err := d.promote(ctx, p)
	if err != nil {
		return res, fmt.Errorf("promote run %s: %w", p.Candidate.Run, err)
	}
	return res, nil
}

func (d *Dataset) promote(ctx context.Context, p Promotion) (Result, error) {
	if err := p.validate(); err != nil {
		return Result{}, err
	}
	digest, err := p.Candidate.Digest()
	if err != nil {
		return Result{}, err
	}
	if err := proven(p.Verdict, p.Candidate.Run, digest); err != nil {
		return Result{}, err
	}
	decision, err := ReadDecision(ctx, p.Run)
	if err != nil {
		return Result{}, err
	}
	if decision == nil {
		// A promotion that is refused as things stand must not be decided: that would rule out an abort for nothing.
		if err := d.Check(ctx, p.Candidate); err != nil {
			return Result{}, err
		}
		if err := d.unchanged(ctx, replaced(p.Candidate), p.Proven); err != nil {
			return Result{}, err
		}
	}
	decided, err := Decide(ctx, p.Run, Decision{
		Run: p.Candidate.Run, Kind: KindPromote, Candidate: digest, Nonce: nonce("promote", p.Candidate.Run, digest), By: p.By, At: p.At, Why: p.Why,
	})
	if err != nil {
		return Result{}, err
	}
	op := operation{nonce: decided.Nonce, since: generation(p.Candidate.Base)}
	if decision != nil { // else they were looked at just now
		op.ready = func(ctx context.Context) error { return d.unchanged(ctx, replaced(p.Candidate), p.Proven) }
	}
	// Who, when and why are the decision's, so that all who carry it out write the same.
	commit := Request{By: decided.By, At: decided.At, Why: decided.Why}.commit(table.OpPromote)
	now, _, err := d.read(ctx)
	if err != nil {
		return Result{}, err
	}
	last, err := latest(ctx, now, p.Candidate.Run, op.since)
	if err != nil {
		return Result{}, err
	}
	undone := last != nil && last.Manifest.Commit.Op == table.OpRollback
	switch {
	case last != nil && !undone:
		return repeated(last, now), nil
	case undone && p.Again:
		op.nonce, op.since = nonce("again", last.Ref.Nonce), last.Ref.Generation
		commit = p.commit(table.OpPromote)
	}
	op.build = func(now *table.Snapshot, l link) (*table.Manifest, error) {
		return apply(p.Candidate, now, l.of(commit))
	}
	res, err := d.swap(ctx, op)
	res.Undone = undone && !p.Again
	return res, err
}

// proven asks for a passing verdict on exactly this candidate.
func proven(v check.Verdict, run, digest string) error {
	switch {
	case v.Run != run || v.Candidate != digest:
		return fmt.Errorf("%w: the verdict is on candidate %.12s of run %s, not on %.12s: validate again", ErrNotProven, v.Candidate, v.Run, digest)
	case !v.Passed():
		var failed []string
		for _, r := range v.Results {
			if r.Status == check.Fail {
				failed = append(failed, r.Check)
			}
		}
		return fmt.Errorf("%w: checks failed: %s", ErrNotProven, strings.Join(failed, ", "))
	}
	return nil
}

// Check reports whether a candidate could be promoted as things stand: nil, or the
// error that [Dataset.Promote] would give. It changes nothing.
func (d *Dataset) Check(ctx context.Context, c *table.Candidate) error {
	now, _, err := d.read(ctx)
	if err != nil {
		return err
	}
	last, err := latest(ctx, now, c.Run, generation(c.Base))
	if err != nil || last != nil && last.Manifest.Commit.Op == table.OpPromote {
		return err // it is promoted
	}
	l := link{nonce: "check"}
	if now != nil {
		l.parent = &now.Ref
	}
	m, err := apply(c, now, l.of(Request{At: time.Unix(0, 0)}.commit(table.OpPromote)))
	if err != nil {
		return err
	}
	_, _, err = m.Encode()
	return err
}

// apply makes the version that follows now, nil for none, with the candidate swapped in.
func apply(c *table.Candidate, now *table.Snapshot, commit table.Commit) (*table.Manifest, error) {
	if c.Base != nil && (now == nil || now.Ref.Generation < c.Base.Generation || now.Ref.Generation == c.Base.Generation && now.Ref != *c.Base) {
		return nil, fmt.Errorf("%w: the dataset no longer has version %d, which the candidate was made for: was it restored or made anew?",
			ErrBaseMoved, c.Base.Generation)
	}
	var base *table.Manifest
	if now != nil {
		base = now.Manifest
	}
	m, err := c.Apply(base, commit)
	if _, moved := errors.AsType[*table.MovedError](err); moved {
		return nil, fmt.Errorf("%w: %w: compute it again on what is served now", ErrBaseMoved, err)
	}
	if err != nil {
		return nil, err
	}
	// What must hold of the one thing that matters most is looked at once more, on the outcome.
	for name, partitions := range table.Diff(base, m) {
		for _, label := range partitions {
			if _, ok := c.Tables[name].Partitions[label]; !ok {
				return nil, fmt.Errorf("%s %s would change, which the candidate does not replace", name, label)
			}
		}
	}
	return m, nil
}

// Rollback takes a run's partitions back out: each is again what it was before the
// run was promoted; what others committed to other partitions stays. A repeat succeeds, and moves nothing. The errors are
// ErrNotPromoted, ErrWouldLose, ErrBusy, ErrOutcomeUnknown, and those of the store.
func (d *Dataset) Rollback(ctx context.Context, run string, r Request) (Result, error) {
	res, err := d.rollback(ctx, run, r)
	if err != nil {
		return res, fmt.Errorf("roll back run %s: %w", run, err)
	}
	return res, nil
}

func (d *Dataset) rollback(ctx context.Context, run string, r Request) (Result, error) {
	if err := r.validate(); err != nil {
		return Result{}, err
	}
	now, _, err := d.read(ctx)
	if err != nil {
		return Result{}, err
	}
	done, err := latest(ctx, now, run, 0)
	if err != nil {
		return Result{}, err
	}
	if done == nil {
		return Result{}, fmt.Errorf("%w: dataset %s has no version of it", ErrNotPromoted, d.name)
	}
	if done.Manifest.Commit.Op == table.OpRollback {
		return repeated(done, now), nil
	}
	parent, err := done.Parent(ctx)
	if err != nil {
		return Result{}, err
	}
	var before *table.Manifest
	if parent != nil {
		before = parent.Manifest
	}
	var restored []table.File
	for name, labels := range table.Diff(before, done.Manifest) {
		for _, label := range labels {
			if before != nil {
				restored = append(restored, before.Tables[name].Partitions[label].Files...)
			}
		}
	}
	return d.swap(ctx, operation{
		nonce: nonce("rollback", done.Ref.Nonce),
		since: done.Ref.Generation,
		ready: func(ctx context.Context) error { return d.present(ctx, restored) },
		build: func(now *table.Snapshot, l link) (*table.Manifest, error) {
			if now == nil {
				return nil, table.ErrNoVersion
			}
			m, err := table.Revert(now.Manifest, done.Manifest, before, l.of(r.commit(table.OpRollback)))
			if _, moved := errors.AsType[*table.MovedError](err); moved {
				return nil, fmt.Errorf("%w: %w: roll those back first, or correct them with a new run", ErrWouldLose, err)
			}
			return m, err
		},
	})
}

// CommitRequest asks to replace partitions by what a live writer wrote.
type CommitRequest struct {
	// Name identifies the commit, and is what its files lie under (see
	// [table.Path]). The same name again is the same commit, or refused if it holds something else.
	Name string
	// Parent is the generation that the writer read before it computed; 0 where there was none. If
	// a partition that it replaces changed since, the commit is refused.
	Parent int64
	// Code is the version of the writer's code.
	Code string
	// Outputs are the replaced partitions, by table.
	Outputs map[string]table.Output
	Request
}

// Commit swaps a live writer's partitions in, as a version of their own. A repeat succeeds, and moves
// nothing. The errors are ErrBaseMoved, ErrBusy, ErrOutcomeUnknown, and those of the store.
func (d *Dataset) Commit(ctx context.Context, r CommitRequest) (Result, error) {
	res, err := d.commit(ctx, r)
	if err != nil {
		return res, fmt.Errorf("commit %s: %w", r.Name, err)
	}
	return res, nil
}

func (d *Dataset) commit(ctx context.Context, r CommitRequest) (Result, error) {
	if err := r.validate(); err != nil {
		return Result{}, err
	}
	now, _, err := d.read(ctx)
	if err != nil {
		return Result{}, err
	}
	var base *table.Snapshot
	switch {
	case r.Parent != 0 && now == nil:
		return Result{}, fmt.Errorf("parent generation %d: %w", r.Parent, table.ErrNoVersion)
	case r.Parent != 0:
		if base, err = now.Version(ctx, r.Parent); err != nil {
			return Result{}, err
		}
	}
	c, err := table.NewCandidate(d.name, r.Name, base, table.Provenance{Code: r.Code}, r.Outputs)
	if err != nil {
		return Result{}, err
	}
	// The name is bound to one candidate before the pointer is touched. So a writer that was
	// restarted, and read another parent meanwhile, finds its first attempt instead of making a second.
	key := "commits/" + r.Name + ".json"
	switch _, err := table.WriteCandidate(ctx, d.store, key, c); {
	case errors.Is(err, table.ErrOther):
		first, err := table.ReadCandidate(ctx, d.store, key, "")
		if err != nil {
			return Result{}, err
		}
		if first.Provenance.Content != c.Provenance.Content {
			return Result{}, fmt.Errorf("%w: the name was used for other contents, on generation %d: take a new name", ErrConflict, generation(first.Base))
		}
		c = first
	case err != nil:
		return Result{}, err
	}
	return d.swap(ctx, operation{
		nonce: nonce("commit", r.Name),
		since: generation(c.Base),
		ready: func(ctx context.Context) error { return d.present(ctx, replaced(c)) },
		build: func(now *table.Snapshot, l link) (*table.Manifest, error) {
			return apply(c, now, l.of(r.commit(table.OpCommit)))
		},
	})
}

// AbortRun decides that a run is never promoted. A repeat succeeds. The error is ErrDecided
// if its promotion was decided before, or ErrOutcomeUnknown.
func AbortRun(ctx context.Context, folder blob.Store, run string, r Request) (Decision, error) {
	if err := r.validate(); err != nil {
		return Decision{}, fmt.Errorf("abort run %s: %w", run, err)
	}
	return Decide(ctx, folder, Decision{Run: run, Kind: KindAbort, By: r.By, At: r.At, Why: r.Why})
}

// replaced are the files that a candidate brings in.
func replaced(c *table.Candidate) (files []table.File) {
	for _, change := range c.Tables {
		for _, r := range change.Partitions {
			files = append(files, r.Files...)
		}
	}
	return files
}

// present asks that files are there, with the sizes that were written.
func (d *Dataset) present(ctx context.Context, files []table.File) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for _, f := range files {
		g.Go(func() error {
			info, err := d.store.Head(ctx, f.Path)
			if err == nil && info.Size != int64(f.Bytes) {
				err = fmt.Errorf("file %s has %d bytes, not the %d that were written", f.Path, info.Size, f.Bytes)
			}
			return err
		})
	}
	return g.Wait()
}

// unchanged asks that files are there, and hold what was checked. Their size alone does not tell: it reads those that do not have the ETag of which that is proven.
func (d *Dataset) unchanged(ctx context.Context, files []table.File, proven map[string]blob.ETag) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for _, f := range files {
		g.Go(func() error {
			if tag := proven[f.Path]; tag != "" {
				info, err := d.store.Head(ctx, f.Path)
				if err != nil && !errors.Is(err, blob.ErrNotFound) || err == nil && info.ETag == tag && info.Size == int64(f.Bytes) {
					return err
				}
			}
			there, err := table.SumOf(ctx, d.store, f.Path)
			switch {
			case errors.Is(err, blob.ErrNotFound):
				return fmt.Errorf("%w: %s is missing: start a new run", ErrFileChanged, f.Path)
			case err == nil && there != f.SHA256:
				return fmt.Errorf("%w: the SHA-256 of %s is %.12s…, not %.12s…: start a new run", ErrFileChanged, f.Path, there, f.SHA256)
			}
			return err
		})
	}
	return g.Wait()
}

// Entry is one version in a dataset's log.
type Entry struct {
	table.Ref
	Commit table.Commit
	// Changed are the partitions that the version changed, by table, in the order of readers.
	Changed map[string][]string
}

// Log lists the versions of the dataset, newest first, at most limit of them (0: all). The error is ErrNoVersion where there is none.
func (d *Dataset) Log(ctx context.Context, limit int) ([]Entry, error) {
	now, err := table.OpenSnapshot(ctx, d.store)
	if err != nil {
		return nil, err
	}
	var out []Entry
	var child *table.Snapshot
	for v, err := range now.History(ctx) {
		if err != nil {
			return nil, err
		}
		if child != nil {
			out = append(out, entry(v.Manifest, child))
			if len(out) == limit {
				return out, nil
			}
		}
		child = v
	}
	return append(out, entry(nil, child)), nil
}

func entry(before *table.Manifest, v *table.Snapshot) Entry {
	return Entry{Ref: v.Ref, Commit: v.Manifest.Commit, Changed: table.Diff(before, v.Manifest)}
}

// latest finds the last promotion or rollback of a run, among now and its ancestors after
// generation since. It is nil where there is none.
func latest(ctx context.Context, now *table.Snapshot, run string, since int64) (*table.Snapshot, error) {
	return search(ctx, now, since, func(v *table.Snapshot) bool {
		c := v.Manifest.Commit
		return c.Run == run && (c.Op == table.OpPromote || c.Op == table.OpRollback)
	})
}

func search(ctx context.Context, now *table.Snapshot, since int64, found func(*table.Snapshot) bool) (*table.Snapshot, error) {
	for v := now; v != nil && v.Ref.Generation > since; {
		if found(v) {
			return v, nil
		}
		if v.Ref.Generation == since+1 {
			return nil, nil
		}
		var err error
		if v, err = v.Parent(ctx); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func repeated(v, now *table.Snapshot) Result {
	return Result{Version: v.Ref, Commit: v.Manifest.Commit, Repeated: true, Served: now.Ref}
}

func generation(r *table.Ref) int64 {
	if r == nil {
		return 0
	}
	return r.Generation
}

// nonce derives an operation's nonce from what it is for.
func nonce(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:16])
}
