package step

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"hindcast/internal/blob"
)

type roundIn struct {
	Run string `json:"run"`
	// Last is what the round before came to, in this execution; of the first, what Shard said.
	Last roundOut `json:"last"`
}

type roundOut struct {
	// Shards is how many are to be done, and ShardsKey where they are listed; 0: all are done.
	Shards    int    `json:"shards"`
	ShardsKey string `json:"shardsKey"`
	// Tolerate is the share of them that may fail, in percent, so that the others are done all the same.
	Tolerate int `json:"tolerate"`
	// Wide says that all shards had their turn, in this round or before.
	Wide bool `json:"wide"`
}

// tolerated is how many of a run's shards may fail before it stops, in percent: fewer are poisoned, more have a cause that all share.
const tolerated = 5

// roundItem is one item of the Map over shards.
type roundItem struct {
	Shard string `json:"shard"`
}

// round lists the shards that are to be done next. First all that are not done, of which some may fail; then those that did, of which none may: Step
// Functions redrives the children of a Map only where the Map failed, so what was tolerated before must fail the run in the end.
func (e *Env) round(ctx context.Context, in roundIn) (roundOut, error) {
	if _, _, err := e.begun(ctx, in.Run); err != nil {
		return roundOut{}, err
	}
	store := e.runStore(in.Run)
	var c cut
	if err := readJSON(ctx, store, cutKey, &c); err != nil {
		return roundOut{}, err
	}
	left, err := e.left(ctx, in.Run, c.Shards)
	out := roundOut{Shards: len(left), Wide: true}
	if err != nil || len(left) == 0 {
		return out, err
	}
	if !in.Last.Wide {
		out.Tolerate = tolerated
	}
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

// left lists those of the shards that are not done, or whose results were damaged since.
func (e *Env) left(ctx context.Context, run string, shards []string) ([]string, error) {
	page, err := e.runStore(run).List(ctx, "done/", "", 1)
	if err != nil || len(page) == 0 {
		return shards, err
	}
	_, left, err := e.results(ctx, run, shards)
	return left, err
}
