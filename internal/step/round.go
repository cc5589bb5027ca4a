package step

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"hindcast/internal/blob"
)

type roundIn struct {
	Run string `json:"run"`
	// Last is what the round before came to, in this execution; of the first, what Shard said.
	Last lastRound `json:"last"`
}

type lastRound struct {
	roundOut
	// Go is what the question about the probe was answered with, in the round before: there, any answer is an approval.
	Go json.RawMessage `json:"go"`
}

type roundOut struct {
	// Shards is how many are to be done, and ShardsKey where they are listed; 0: all are done.
	Shards    int    `json:"shards"`
	ShardsKey string `json:"shardsKey"`
	// Tolerate is the share of them that may fail, in percent, so that the others are done all the same.
	Tolerate int `json:"tolerate"`
	// Probe says that the shards are those of the probe; where none of them are left, that a person is to be asked.
	Probe bool `json:"probe"`
	// Approved says that a person has approved the probe.
	Approved bool `json:"approved"`
	// Wide says that all shards had their turn, in this round or before.
	Wide bool `json:"wide"`
	// Gather says that the shards are those that gather what the parts of them left, which are done; in other rounds there is none of them.
	Gather bool `json:"gather"`
}

// tolerated is how many of a run's shards may fail before it stops, in percent: fewer are poisoned, more have a cause that all share.
const tolerated = 5

// roundItem is one item of the Map over shards.
type roundItem struct {
	Shard string `json:"shard"`
}

// round lists the shards that are to be done next. Those of the probe come first, of which none may fail, until it is approved. Then all that are not done, of which some may fail; then those that did, of which none may: Step
// Functions redrives the children of a Map only where the Map failed, so what was tolerated before must fail the run in the end.
func (e *Env) round(ctx context.Context, in roundIn) (roundOut, error) {
	r, _, err := e.begun(ctx, in.Run)
	if err != nil {
		return roundOut{}, err
	}
	store := e.runStore(in.Run)
	var c cut
	if err := readJSON(ctx, store, cutKey, &c); err != nil {
		return roundOut{}, err
	}
	asked, err := e.Control(ctx, in.Run)
	if err != nil {
		return roundOut{}, err
	}
	out := roundOut{Approved: in.Last.Approved || in.Last.Go != nil || asked.Approved(ApproveProbe)}
	out.Probe = r.Probe > 0 && !out.Approved
	out.Wide = !out.Probe
	shards := c.Shards
	if out.Probe {
		shards = probed(shards, r.Probe)
	}
	left, gather, err := e.left(ctx, in.Run, shards, c.Parts)
	if out.Shards, out.Gather = len(left), gather; err != nil || out.Shards == 0 {
		return out, err
	}
	if out.Wide && (!in.Last.Wide || gather && !in.Last.Gather) {
		out.Tolerate = tolerated
	}
	// The largest begin first: what runs last, while other workers have nothing left to do, is small.
	slices.SortStableFunc(left, func(a, b string) int { return cmp.Compare(c.Rows[b], c.Rows[a]) })
	var lines bytes.Buffer
	for _, id := range left {
		if err := json.NewEncoder(&lines).Encode(roundItem{id}); err != nil {
			return out, err
		}
	}
	// Named by what it holds: a call that is made again, however late, changes nothing under a Map that goes on.
	key := fmt.Sprintf("rounds/%.16x.jsonl", sha256.Sum256(lines.Bytes()))
	out.ShardsKey = "runs/" + in.Run + "/" + key
	_, err = blob.PutBytes(ctx, store, key, lines.Bytes(), blob.Condition{})
	return out, err
}

// left lists what workers are to do next of shards that are not done, or whose results were damaged since: those that are not divided, and the parts of the others;
// once all these are done, gather says so, and it is the shards that have parts.
func (e *Env) left(ctx context.Context, run string, shards []string, partsOf map[string][]string) (left []string, gather bool, err error) {
	page, err := e.runStore(run).List(ctx, "done/", "", 1)
	if err != nil {
		return nil, false, err
	}
	notDone := func(ids []string) ([]string, error) {
		if len(page) == 0 || len(ids) == 0 {
			return ids, nil
		}
		_, left, err := e.results(ctx, run, ids)
		return left, err
	}
	if shards, err = notDone(shards); err != nil {
		return nil, false, err
	}
	var parts, divided []string
	for _, id := range shards {
		if of := partsOf[id]; of != nil {
			divided, parts = append(divided, id), append(parts, of...)
		} else {
			left = append(left, id)
		}
	}
	if parts, err = notDone(parts); err != nil {
		return nil, false, err
	}
	if left = append(left, parts...); len(left) == 0 && len(divided) > 0 {
		return divided, true, nil
	}
	return left, false, nil
}
