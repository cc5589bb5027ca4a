package step

import (
	"context"
	"errors"

	"hindcast/internal/blob"
	"hindcast/internal/check"
)

type probeIn struct {
	Run string `json:"run"`
}

type probeOut struct {
	Passed bool `json:"passed"`
}

// Probed is what the shards of a probe came to.
type Probed struct {
	Shards []string `json:"shards"`
	// Of is how many shards the run has.
	Of int `json:"of"`
	// Rows is how many rows they accounted for, over all tables.
	Rows int64 `json:"rows"`
	// Verdict is that of the checks on the partitions that are whole. Its candidate is never written: nothing is promoted on its account.
	Verdict check.Verdict `json:"verdict"`
}

const probeKey = "probe.json"

// probed picks the shards of a probe: n of them, spread over all.
func probed(shards []string, n int) []string {
	n = min(n, len(shards))
	out := make([]string, n)
	for i := range n {
		out[i] = shards[i*len(shards)/n]
	}
	return out
}

// probe makes the checks on what the shards of the probe left.
func (e *Env) probe(ctx context.Context, in probeIn) (probeOut, error) {
	r, j, err := e.begun(ctx, in.Run)
	if err != nil {
		return probeOut{}, err
	}
	p, err := e.Planned(ctx, in.Run)
	if err != nil {
		return probeOut{}, err
	}
	store := e.runStore(in.Run)
	var c cut
	if err := readJSON(ctx, store, cutKey, &c); err != nil {
		return probeOut{}, err
	}
	out := Probed{Shards: probed(c.Shards, r.Probe), Of: len(c.Shards)}
	done, err := e.finished(ctx, in.Run, out.Shards)
	if err != nil {
		return probeOut{}, err
	}
	for _, f := range done {
		for _, n := range f.Result.Counts {
			out.Rows += n.Total()
		}
	}
	inputs := check.Inputs{Partial: true}
	if inputs.Candidate, inputs.Base, err = e.candidate(ctx, r, j, p, done, true); err != nil {
		return probeOut{}, err
	}
	if out.Verdict, err = e.verdict(ctx, r, j, p, done, inputs); err != nil {
		return probeOut{}, err
	}
	err = writeOnce(ctx, store, probeKey, &out)
	return probeOut{out.Verdict.Passed()}, err
}

// Probe reads what the shards of a run's probe came to; nil if there is none. What was damaged since is not made again where the run has gone on: that it
// is damaged is all there is to know of it.
func (e *Env) Probe(ctx context.Context, run string) (p *Probed, damaged bool, err error) {
	err = readJSON(ctx, e.runStore(run), probeKey, &p)
	if damaged = errors.Is(err, errDamaged); damaged || errors.Is(err, blob.ErrNotFound) {
		return nil, damaged, nil
	}
	return p, false, err
}
