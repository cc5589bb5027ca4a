package step

import (
	"testing"

	"hindcast/internal/check"
	"hindcast/internal/table"
	"hindcast/internal/transform"
)

// TestStraysCountOnce: shards of two schemes see the same events, and several shards of one scheme see different ones.
func TestStraysCountOnce(t *testing.T) {
	shard := func(name string, offset int64) finished {
		return finished{
			Files:  map[string]map[string][]table.File{name: {}},
			Result: transform.Result{Strays: 1, FirstStrays: []transform.Stray{{Position: transform.Position{Offset: offset}}}},
		}
	}
	var in check.Inputs
	strays(&in, []finished{shard("days", 9), shard("days", 4), shard("buckets", 4), shard("buckets", 9)}, "days")
	if in.Strays != 2 || len(in.FirstStrays) != 2 || in.FirstStrays[0].Offset != 4 || in.FirstStrays[1].Offset != 9 {
		t.Errorf("%+v", in)
	}
}
