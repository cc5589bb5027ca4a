//go:build full

package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hindcast/internal/job"
	"hindcast/internal/local"
	"hindcast/internal/table"
	"hindcast/internal/testenv"
)

// A partition with many rows is divided among workers, in slices or by keys, and comes out as if it had not been: its files, its account and what is wrong with it.
// What cannot be put together is computed whole.
func TestDividedPartitionsAreTheSame(t *testing.T) {
	t.Parallel()
	const aDay = "--from 2024-05-01 --to 2024-05-02"
	merging := job.Outputs{"events": placing(), "sums": adding()}
	if fold, ok := merging["sums"].(job.Fold[Visit, Takings]); ok {
		fold.Merge = func(s, later *Takings) { s.Visits, s.Amount = s.Visits+later.Visits, s.Amount+later.Amount }
		merging["sums"] = fold
	}
	for name, c := range map[string]struct {
		outputs job.Outputs
		change  func(logs [2][]rec)
		damage  string // of a run, before it is resumed: what of it is cut short
		says    string // the plan
		parts   int
		whole   string // why, of the shard
		exit    int
	}{
		"slices":                  {outputs: merging, says: "in 10 stretches of the log", parts: 10},
		"keys":                    {says: "in 4 shares of its keys", parts: 4},
		"an event in two slices":  {outputs: merging, change: func(logs [2][]rec) { logs[1][30] = repeated(logs[0][2], logs[1][30]) }, parts: 10, whole: "id is in two slices"},
		"an event in two, by key": {change: func(logs [2][]rec) { logs[1][30] = repeated(logs[0][2], logs[1][30]) }, parts: 4},
		"an id with two contents": {outputs: merging, change: func(logs [2][]rec) { logs[1][30].ID = logs[0][2].ID }, parts: 10, whole: "id is in two slices", exit: 4},
		"a part's file cut short": {outputs: merging, damage: "parts/00000-3/sums/day=2024-05-01.parquet", parts: 10, whole: "the manifest says"},
		"a part's ids cut short":  {outputs: merging, damage: "fingerprints/00000-4", parts: 10, whole: "it has"},
		"a part's account lost":   {damage: "done/00000-2.json", parts: 4},
	} {
		if name != "keys" && name != "an event in two slices" && !testenv.Full() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			l := newSmallLog(t)
			var logs [2][]rec
			for p := range logs {
				logs[p] = visits(t, int32(p), 30*time.Minute, 40)
				for i := range logs[p] {
					logs[p][i].Shop, logs[p][i].Amount = fmt.Sprint("shop ", i%7), int64(i+p)
				}
			}
			if c.change != nil {
				c.change(logs)
			}
			for p := range logs {
				l.segment(logs[p][:28]...)
				l.segment(logs[p][28:]...)
			}
			j := l.job(smallJob{Tables: map[string]string{"events": "day UTC", "sums": "day UTC"}})
			if c.outputs != nil {
				j = changedJob(t, j, nil, c.outputs)
			}
			list := []job.Job{j}
			run := func(ws string, args ...string) local.Status {
				all := append([]string{"run", "visits", "--workspace", ws}, strings.Fields(aDay)...)
				hindcastWith(t, list, append(all, args...)...).exits(t, c.exit)
				var runs []local.Status
				decode(t, hindcastWith(t, list, "runs", "--json", "--workspace", ws).ok(t), &runs)
				return hindcastWith(t, list, "status", runs[0].Run, "--json", "--workspace", ws).ok(t).status(t)
			}
			whole, divided := filepath.Join(t.TempDir(), "ws"), filepath.Join(t.TempDir(), "ws")
			want := run(whole)
			got := run(divided, "--shard-rows", "1", "--lap-rows", "5", "--workers", "3")
			dir := filepath.Join(divided, "runs", got.Run)
			if parts, _ := filepath.Glob(filepath.Join(dir, "done", "00000-*.json")); len(parts) != c.parts || got.Shards != c.parts+1 || got.Done != got.Shards {
				t.Errorf("%d parts are done, and %d of %d shards", len(parts), got.Done, got.Shards)
			}
			if c.damage != "" {
				file := filepath.Join(dir, filepath.FromSlash(c.damage))
				was := mustRead(t, file)
				if err := os.Truncate(file, int64(len(was)/2)); err != nil {
					t.Fatal(err)
				}
				for _, made := range []string{"verdict.json", "done/00000.json"} {
					if err := os.Remove(filepath.Join(dir, filepath.FromSlash(made))); err != nil {
						t.Fatal(err)
					}
				}
				got = hindcastWith(t, list, "resume", got.Run, "--json", "--workspace", divided).ok(t).status(t)
			}
			done := string(mustRead(t, filepath.Join(dir, "done", "00000.json")))
			if c.whole == "" && strings.Contains(done, `"whole"`) || !strings.Contains(done, c.whole) {
				t.Errorf("the shard left %s, expected it computed whole because of %q", done, c.whole)
			}
			if g, w := fates(got.Account), fates(want.Account); !maps.Equal(g, w) {
				t.Errorf("the account is\n%v, expected\n%v", g, w)
			}
			if c.exit != 0 {
				for _, s := range []string{`"p0-02"`, "partition 0, offset 2", "partition 1, offset 30"} {
					hindcastWith(t, list, "status", got.Run, "--workspace", divided).has(t, s)
				}
				return
			}
			for ws, run := range map[string]string{whole: want.Run, divided: got.Run} {
				hindcastWith(t, list, "promote", run, "--workspace", ws).ok(t)
			}
			for _, name := range []string{"events", "sums"} {
				hindcastWith(t, list, "table", "cat", name, "--workspace", divided).ok(t)
				var files [2][]string // by what they hold
				for i, ws := range []string{divided, whole} {
					var served []table.Served
					decode(t, hindcastWith(t, list, "table", "files", name, "--json", "--workspace", ws).ok(t), &served)
					for _, f := range served {
						files[i] = append(files[i], f.Partition+" "+f.SHA256)
					}
				}
				if !slices.Equal(files[0], files[1]) || len(files[1]) != 1 {
					t.Errorf("table %s has the files %v, expected %v", name, files[0], files[1])
				}
			}
			if c.says != "" {
				args := append([]string{"plan", "visits", "--shard-rows", "1", "--workspace", divided}, strings.Fields(aDay)...)
				hindcastWith(t, list, args...).ok(t).has(t, c.says, "2024-05-01 of events and sums, 80 rows")
			}
		})
	}
}

// repeated is an event once more, at the place of another.
func repeated(e, place rec) rec {
	e.Partition, e.Offset, e.Time = place.Partition, place.Offset, place.Time
	return e
}
