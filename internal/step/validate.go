package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"hindcast/internal/blob"
	"hindcast/internal/check"
	"hindcast/internal/job"
	"hindcast/internal/partition"
	"hindcast/internal/plan"
	"hindcast/internal/table"
	"hindcast/internal/transform"
)

type validateIn struct {
	Run string `json:"run"`
}

type validateOut struct {
	Passed    bool   `json:"passed"`
	Candidate string `json:"candidate"` // digest
}

// validate makes the candidate of what the shards left, and checks exactly it.
func (e *Env) validate(ctx context.Context, in validateIn) (validateOut, error) {
	r, j, err := e.begun(ctx, in.Run)
	if err != nil {
		return validateOut{}, err
	}
	whole, err := e.Validated(ctx, in.Run)
	if err != nil {
		return validateOut{}, err
	}
	var v check.Verdict
	if whole {
		v, err = e.Verdict(ctx, in.Run)
	} else {
		if v, err = e.check(ctx, r, j); err == nil {
			err = writeOnce(ctx, e.runStore(in.Run), verdictKey, &v)
		}
	}
	if err != nil {
		return validateOut{}, err
	}
	return validateOut{Passed: v.Passed(), Candidate: v.Candidate}, nil
}

// Validated reports whether all lies there, whole, that validation leaves of a run.
func (e *Env) Validated(ctx context.Context, run string) (bool, error) {
	_, err := e.Accounts(ctx, run)
	if err == nil {
		var v check.Verdict
		if v, err = e.Verdict(ctx, run); err == nil {
			err = e.whole(ctx, run, v.Candidate)
		}
	}
	if lost(err) {
		return false, nil
	}
	return err == nil, err
}

// whole makes sure that a run's candidate is the one of that digest.
func (e *Env) whole(ctx context.Context, run, digest string) error {
	sum, err := table.SumOf(ctx, e.runStore(run), candidateKey)
	if err == nil && sum != digest {
		err = fmt.Errorf("read %s: %w: its SHA-256 is %s, and the checks looked at %s: hindcast resume makes it anew", candidateKey, errDamaged, sum, digest)
	}
	return err
}

func (e *Env) check(ctx context.Context, r Request, j job.Job) (check.Verdict, error) {
	store := e.runStore(r.Run)
	p, err := e.Planned(ctx, r.Run)
	if err != nil {
		return check.Verdict{}, err
	}
	var c cut
	if err := readJSON(ctx, store, cutKey, &c); err != nil {
		return check.Verdict{}, err
	}
	done, err := e.finished(ctx, r.Run, c.Shards)
	if err != nil {
		return check.Verdict{}, err
	}
	accounts := accountFor(p.Plan, c.Skipped, done)
	if err := writeOnce(ctx, store, accountKey, &accounts); err != nil {
		return check.Verdict{}, err
	}
	candidate, base, err := e.candidate(ctx, r, j, p, done, false)
	if err != nil {
		return check.Verdict{}, err
	}
	if err := e.writeCandidate(ctx, r.Run, candidate); err != nil {
		return check.Verdict{}, err
	}
	var found tags
	v, err := e.verdict(ctx, r, j, p, done, check.Inputs{Candidate: candidate, Base: base, Accounts: accounts, Found: found.add})
	if err != nil {
		return check.Verdict{}, err
	}
	return v, e.writeTags(ctx, r.Run, v.Candidate, &found)
}

// verdict makes the checks on what shards left.
func (e *Env) verdict(ctx context.Context, r Request, j job.Job, p Planned, done []finished, inputs check.Inputs) (check.Verdict, error) {
	inputs.Checks = r.Spec.Checks
	var err error
	if inputs.Dataset, err = e.Dataset(ctx, r.Spec); err != nil {
		return check.Verdict{}, err
	}
	for _, c := range p.Canaries {
		inputs.Canaries = append(inputs.Canaries, check.Canaries{Name: c.File, Data: c.Text})
	}
	findings(&inputs, done)
	inputs.Event, inputs.WholeLog = r.Spec.Source.Event, p.Plan.Window == nil
	strays(&inputs, done, r.Spec.Outputs[0].Table)
	if r.Spec.Source.Event.Dedupe {
		if inputs.IDs, err = e.shardIDs(ctx, r, j, p.Plan, done); err != nil {
			return check.Verdict{}, err
		}
	}
	return check.Run(ctx, inputs)
}

// findings adds up what the shards found. Shards of several tables see the same event: where all of it
// is told one by one, it counts once.
func findings(in *check.Inputs, done []finished) {
	letters, conflicts := map[transform.DeadLetter]bool{}, map[transform.Conflict]bool{}
	dead := map[transform.Position]bool{}
	for _, f := range done {
		in.DeadLetters += f.Result.DeadLetters
		in.Conflicts += f.Result.Conflicts
		for _, l := range f.Result.FirstDeadLetters {
			dead[l.Position] = true
			if !letters[l] {
				letters[l] = true
				in.FirstDeadLetters = append(in.FirstDeadLetters, l)
			}
		}
		for _, c := range f.Result.FirstConflicts {
			if !conflicts[c] {
				conflicts[c] = true
				in.FirstConflicts = append(in.FirstConflicts, c)
			}
		}
	}
	whole := func(n int64) bool { return n <= transform.MaxFindings }
	if !slices.ContainsFunc(done, func(f finished) bool { return !whole(f.Result.DeadLetters) || !whole(f.Result.Conflicts) }) {
		in.DeadLetters, in.Conflicts = int64(len(dead)), int64(len(conflicts))
	}
}

// strays adds up the events outside what the job declares. Each scheme's shards see all of them, so those of one table's are counted.
func strays(in *check.Inputs, done []finished, name string) {
	for _, f := range done {
		if _, ok := f.Files[name]; !ok {
			continue
		}
		in.Strays += f.Result.Strays
		in.FirstStrays = append(in.FirstStrays, f.Result.FirstStrays...)
	}
	slices.SortFunc(in.FirstStrays, func(a, b transform.Stray) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
}

// shardIDs are the fingerprints that the shards left, of those that can share an id with another, and how the events behind them are found.
func (e *Env) shardIDs(ctx context.Context, r Request, j job.Job, p *plan.Plan, done []finished) ([]check.ShardIDs, error) {
	store := e.runStore(r.Run)
	var out []check.ShardIDs
	for _, f := range done {
		id := f.Shard
		l := &lap{env: e, request: r, store: store}
		if err := readJSON(ctx, store, shardKey(id), &l.shard); err != nil {
			return nil, err
		}
		if l.shard.Alone {
			continue
		}
		out = append(out, check.ShardIDs{
			Shard: id, Scheme: l.shard.Scheme,
			Open: e.fingerprints(r.Run, f),
			Locate: func(ctx context.Context, fingerprints []uint64) ([]transform.Sighting, error) {
				c, err := transform.ForShard(p, l.shard.Shard, j.Outputs())
				if err != nil {
					return nil, err
				}
				reader, err := l.open(ctx, p, l.shard.Inputs, &c)
				if err != nil {
					return nil, err
				}
				return transform.Locate(ctx, reader, c, fingerprints)
			},
		})
	}
	return out, nil
}

// fingerprints opens what a shard left of ids.
func (e *Env) fingerprints(run string, f finished) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		key := fingerprintsKey(f.Shard)
		o, err := e.runStore(run).Get(ctx, key, blob.GetOptions{})
		if err != nil {
			return nil, err
		}
		if want := f.Result.Fingerprints * 8; o.Size != want {
			o.Body.Close()
			return nil, fmt.Errorf("read %s: it has %d bytes where the shard wrote %d: it was damaged: start a new run", key, o.Size, want)
		}
		return o.Body, nil
	}
}

// finished reads what the shards left. One that is missing is an error: its partitions would be left out.
func (e *Env) finished(ctx context.Context, run string, shards []string) ([]finished, error) {
	done, left, err := e.results(ctx, run, shards)
	if err == nil && left != nil {
		err = &Error{Failed, fmt.Errorf("%d of %d shards are not done: %s; go on with: hindcast resume %s", len(left), len(shards), strings.Join(left, ", "), run)}
	}
	return done, err
}

// results reads what shards left, in their order; left are those that left nothing, or what was damaged since.
func (e *Env) results(ctx context.Context, run string, shards []string) (done []finished, left []string, err error) {
	done = make([]finished, len(shards))
	missing := make([]bool, len(shards))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(putParallel)
	for i, id := range shards {
		g.Go(func() error {
			err := readJSON(gctx, e.runStore(run), doneKey(id), &done[i])
			if lost(err) {
				missing[i], err = true, nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	for i, m := range missing {
		if m {
			left = append(left, shards[i])
		}
	}
	return done, left, nil
}

// writeCandidate writes a run's candidate, once. One that was damaged since does not stand: it cannot be read, or is not the one that was checked.
func (e *Env) writeCandidate(ctx context.Context, run string, c *table.Candidate) error {
	store := e.runStore(run)
	_, err := table.WriteCandidate(ctx, store, candidateKey, c)
	if !errors.Is(err, table.ErrOther) {
		return err
	}
	own, _ := c.Digest()
	v, unchecked := e.Verdict(ctx, run)
	_, unread := table.ReadCandidate(ctx, store, candidateKey, "")
	if checked := unchecked == nil && v.Candidate == own; !checked && (unread == nil || passing(unread)) {
		return err
	}
	if err := store.Delete(ctx, candidateKey); err != nil {
		return err
	}
	_, err = table.WriteCandidate(ctx, store, candidateKey, c)
	return err
}

// candidate assembles the version to be on the base that the plan was made against. A partial one has the partitions that are whole when only these shards are
// done: none of a table cut by key.
func (e *Env) candidate(ctx context.Context, r Request, j job.Job, p Planned, done []finished, partial bool) (*table.Candidate, *table.Snapshot, error) {
	ds, err := e.Dataset(ctx, r.Spec)
	if err != nil {
		return nil, nil, err
	}
	var base *table.Snapshot
	if p.Base != nil {
		if base, err = table.OpenRef(ctx, ds, *p.Base); err != nil {
			return nil, nil, err
		}
	}
	schemas, err := Schemas(j, r.Spec)
	if err != nil {
		return nil, nil, err
	}
	outputs := map[string]table.Output{}
	for _, o := range r.Spec.Outputs {
		out := table.Output{Schema: schemas[o.Table], Partitions: map[string][]table.File{}}
		outputs[o.Table] = out
		if partial {
			continue
		}
		for n := range o.Scheme.Buckets {
			out.Partitions[o.Scheme.Dir(partition.BucketLabel(n))] = nil
		}
		// A run over the whole log replaces every partition that there is.
		if base != nil && p.Plan.Window == nil {
			for name := range base.Manifest.Tables[o.Table].Partitions {
				out.Partitions[name] = nil
			}
		}
	}
	for _, f := range done {
		for name, partitions := range f.Files {
			if partial && !schemas[name].Scheme.ByTime() {
				continue
			}
			for label, files := range partitions {
				outputs[name].Partitions[label] = append(outputs[name].Partitions[label], files...)
			}
		}
	}
	from := table.Provenance{Job: r.Job, Plan: p.Digest, Code: r.Code}
	if r.Window != nil {
		from.Window = r.Window.String()
	}
	for _, tp := range p.Plan.Partitions {
		read, tail := tp.Read.Hull(), tp.Tail.Hull()
		if tp.Tail == nil {
			tail.First = read.Next
		}
		from.Coverage = append(from.Coverage, table.Coverage{
			Topic: p.Plan.Topic, Partition: tp.Partition, First: read.First, Tail: tail.First, Next: read.Next,
		})
	}
	c, err := table.NewCandidate(DatasetName(r.Spec), r.Run, base, from, outputs)
	return c, base, err
}

// Candidate opens the version that a run's candidate would make of the base it was planned against: for checks and
// people, not for readers.
func (e *Env) Candidate(ctx context.Context, run string) (*table.Snapshot, error) {
	r, err := e.Request(ctx, run)
	if err != nil {
		return nil, err
	}
	p, err := e.Planned(ctx, run)
	if err != nil {
		return nil, err
	}
	c, err := table.ReadCandidate(ctx, e.runStore(run), candidateKey, "")
	if err != nil {
		return nil, err
	}
	ds, err := e.Dataset(ctx, r.Spec)
	if err != nil {
		return nil, err
	}
	var base *table.Snapshot
	if p.Base != nil {
		if base, err = table.OpenRef(ctx, ds, *p.Base); err != nil {
			return nil, err
		}
	}
	return table.OpenCandidate(ds, base, c)
}
