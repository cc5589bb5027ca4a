package step

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"hindcast/internal/blob"
	"hindcast/internal/partition"
	"hindcast/internal/plan"
)

type shardIn struct {
	Run string `json:"run"`
}

type shardOut struct {
	Shards int `json:"shards"`
}

// cut is everything that no shard reads; it completes the account of the read range.
type cut struct {
	Shards []string `json:"shards"`
	// Parts are those of the shards that are divided.
	Parts map[string][]string `json:"parts,omitempty"`
	// Rows is how many each shard and each part reads.
	Rows    map[string]int64 `json:"rows"`
	Skipped plan.Skipped     `json:"skipped"`
}

// putParallel is how many small objects are written at once.
const putParallel = 16

// shard cuts what the plan covers, the captured tail included, into the workers' shares.
func (e *Env) shard(ctx context.Context, in shardIn) (shardOut, error) {
	if _, _, err := e.begun(ctx, in.Run); err != nil {
		return shardOut{}, err
	}
	store := e.runStore(in.Run)
	var out shardOut
	p, err := e.Planned(ctx, in.Run)
	if err != nil {
		return out, err
	}
	segments, err := e.capturedSegments(ctx, in.Run, p.Plan)
	if err != nil {
		return out, err
	}
	shards, skipped, err := plan.Shards(p.Plan, segments)
	if err != nil {
		return out, &Error{PlanRefused, err}
	}
	schemes := map[partition.Scheme]int{}
	for _, s := range shards {
		schemes[s.Scheme]++
	}
	c := cut{Skipped: skipped, Parts: map[string][]string{}, Rows: map[string]int64{}}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(putParallel)
	for _, s := range shards {
		c.Shards, c.Rows[s.ID] = append(c.Shards, s.ID), s.Rows
		alone := schemes[s.Scheme] == 1
		for _, part := range s.Parts {
			c.Parts[s.ID], c.Rows[part.ID] = append(c.Parts[s.ID], part.ID), part.Rows
			share := share{Shard: part, Alone: alone, Of: s.ID}
			g.Go(func() error { return writeOnce(gctx, store, shardKey(part.ID), &share) })
		}
		share := share{Shard: s, Alone: alone, Parts: c.Parts[s.ID], ByKey: len(s.Parts) > 0 && !s.Parts[0].Slice}
		g.Go(func() error { return writeOnce(gctx, store, shardKey(s.ID), &share) })
		out.Shards += max(len(s.Parts), 1)
	}
	if err := g.Wait(); err != nil {
		return out, err
	}
	if err := writeOnce(ctx, store, cutKey, &c); err != nil {
		return out, err
	}
	return out, nil
}

// share is what a shard's worker is told.
type share struct {
	plan.Shard
	// Alone says that no other shard has its scheme: what is seen there of an id is all there is.
	Alone bool `json:"alone,omitempty"`
	// Parts are those that workers take of the shard, where it is divided, by its keys or in slices; Of is the shard that this one is a part of.
	Parts []string `json:"parts,omitempty"`
	ByKey bool     `json:"by_key,omitempty"`
	Of    string   `json:"of,omitempty"`
}

// tellsIDs says whether the shard leaves fingerprints of ids: where another shard may have one of them.
func (s *share) tellsIDs() bool {
	return s.Slice || !s.Alone && s.Keys.Number == 0
}

func shardKey(id string) string { return "shards/" + id + ".json" }

// Cut reports whether a run's shards are cut.
func (e *Env) Cut(ctx context.Context, run string) (bool, error) {
	_, err := e.runStore(run).Head(ctx, cutKey)
	if errors.Is(err, blob.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// ShardRows is how many rows each of a run's shards and parts reads, once they are cut: a shard that has parts reads none.
func (e *Env) ShardRows(ctx context.Context, run string) (map[string]int64, error) {
	var c cut
	err := readJSON(ctx, e.runStore(run), cutKey, &c)
	for id := range c.Parts {
		delete(c.Rows, id)
	}
	return c.Rows, err
}

// capturedSegments reads what the captures left. One that is missing is an error: the tail would be left out.
func (e *Env) capturedSegments(ctx context.Context, run string, p *plan.Plan) ([]plan.Segment, error) {
	var out []plan.Segment
	for _, tp := range p.Partitions {
		if len(tp.Tail) == 0 {
			continue
		}
		var c captured
		err := readJSON(ctx, e.runStore(run), capturedKey(tp.Partition), &c)
		if errors.Is(err, blob.ErrNotFound) {
			return nil, fmt.Errorf("the tail of partition %d, offsets %s, was not captured: %w", tp.Partition, tp.Tail, err)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, c.Segments...)
	}
	return out, nil
}
