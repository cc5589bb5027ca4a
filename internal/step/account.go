package step

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"hindcast/internal/blob"
	"hindcast/internal/check"
	"hindcast/internal/plan"
	"hindcast/internal/preflight"
	"hindcast/internal/transform"
)

// Total adds up what became of the rows of several accounts, and their offsets.
func Total(accounts ...check.Account) check.Account {
	var sum check.Account
	for _, a := range accounts {
		sum.Offsets += a.Offsets
		sum.Skipped += a.Skipped
		sum.Count = sum.Plus(a.Count)
	}
	return sum
}

// accountFor adds up what the shards and the plan say, by table, topic partition and origin.
func accountFor(p *plan.Plan, skipped plan.Skipped, done []finished) []check.Account {
	type key struct {
		table     string
		partition int32
		origin    transform.Origin
	}
	by := map[key]*check.Account{}
	for _, o := range p.Spec.Outputs {
		for _, tp := range p.Partitions {
			of := map[transform.Origin]int64{transform.FromTail: tp.FromBrokers().Len(), transform.FromSegment: tp.Read.Len() - tp.Tail.Len()}
			if len(tp.Stored) > 0 {
				of[transform.FromTiered] = tp.StoredOffsets().Len()
			}
			for origin, n := range of {
				by[key{o.Table, tp.Partition, origin}] = &check.Account{
					Count: transform.Count{Table: o.Table, Partition: tp.Partition, Origin: origin}, Offsets: n,
				}
			}
		}
		for _, s := range skipped {
			for origin, offsets := range originsOf(p, s) {
				a, n := by[key{o.Table, s.Partition, origin}], offsets.Len()
				if n == 0 {
					continue
				}
				a.Skipped += n
				if a.SkippedFor == nil {
					a.SkippedFor = map[plan.SkipReason]int64{}
				}
				a.SkippedFor[s.Reason] += n
			}
		}
	}
	for _, f := range done {
		for _, c := range f.Result.Counts {
			a := by[key{c.Table, c.Partition, c.Origin}]
			if a == nil { // a row that the plan does not have: told by the check, since nothing balances it
				a = &check.Account{Count: transform.Count{Table: c.Table, Partition: c.Partition, Origin: c.Origin}}
				by[key{c.Table, c.Partition, c.Origin}] = a
			}
			a.Count = a.Plus(c)
		}
	}
	var out []check.Account
	for _, a := range by {
		out = append(out, *a)
	}
	slices.SortFunc(out, func(a, b check.Account) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Origin, b.Origin))
	})
	return out
}

// originsOf says where offsets that no shard reads would have come from.
func originsOf(p *plan.Plan, s plan.Skip) map[transform.Origin]plan.Ranges {
	if !s.Captured {
		return map[transform.Origin]plan.Ranges{transform.FromSegment: s.Offsets}
	}
	var tiered plan.Ranges
	for i := range p.Partitions {
		if p.Partitions[i].Partition == s.Partition {
			tiered = p.Partitions[i].StoredOffsets()
		}
	}
	return map[transform.Origin]plan.Ranges{transform.FromTail: s.Offsets.Minus(tiered), transform.FromTiered: s.Offsets.Intersect(tiered)}
}

// Accounts reads what became of every offset of a run's read range; see [check.Account].
func (e *Env) Accounts(ctx context.Context, run string) ([]check.Account, error) {
	var a []check.Account
	err := readJSON(ctx, e.runStore(run), accountKey, &a)
	return a, err
}

// Progress is how far a run has come.
type Progress struct {
	Plan         string   // digest; empty before there is one
	Warnings     []string // the plan's
	Preflight    []preflight.Finding
	Shards, Done int
}

// Done counts a run's finished shards, parts of others among them.
func (e *Env) Done(ctx context.Context, run string) (Progress, error) {
	var pr Progress
	p, err := e.Planned(ctx, run)
	if errors.Is(err, blob.ErrNotFound) {
		return pr, nil
	}
	if err != nil {
		return pr, err
	}
	pr.Plan, pr.Warnings, pr.Preflight = p.Digest, p.Plan.Warnings, p.Preflight
	var c cut
	if err := readJSON(ctx, e.runStore(run), cutKey, &c); err != nil {
		if errors.Is(err, blob.ErrNotFound) {
			err = nil
		}
		return pr, err
	}
	pr.Shards = len(c.Shards)
	for _, parts := range c.Parts {
		pr.Shards += len(parts)
	}
	for _, err := range blob.All(ctx, e.runStore(run), "done/") {
		if err != nil {
			return pr, err
		}
		pr.Done++
	}
	return pr, nil
}
