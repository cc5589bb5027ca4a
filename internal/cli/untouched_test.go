//go:build full

package cli

import (
	"encoding/json"
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
	"hindcast/internal/parquetfile"
	"hindcast/internal/table"
	"hindcast/internal/testenv"
	"hindcast/internal/unit"
)

// sparing is a visit that takes over what it can.
type sparing struct {
	ID     job.Same[string] `row:"id"`
	At     job.Micros       `row:"at"`
	Shop   job.Same[string] `row:"shop"`
	Amount job.Same[int64]  `row:"amount"`
}

type visitTime struct {
	At job.Micros `event:"at"`
}

// A table of which most columns are taken from segments as they lie has the rows of one that spells them out, and the same bytes however the work is divided.
func TestUntouchedColumnsAreTakenAsTheyLie(t *testing.T) {
	t.Parallel()
	const rows = 20_000 // the day ends within a page
	// jobs over one log: it lies in segments of so many rows, and row groups of them, and for the last rows in the tail.
	jobs := func(segment, group int) (spelled, spared job.Job) {
		l := newSmallLog(t)
		var tail []rec
		for p := range int32(2) {
			recs := visits(t, p, 5*time.Second, rows)
			for i := range recs {
				recs[i].Shop, recs[i].Amount = fmt.Sprint("shop ", i%50), int64(i)
			}
			for ; len(recs) > 300; recs = recs[min(segment, len(recs)-300):] {
				l.segmentWith(parquetfile.WriterOptions{RowGroupRows: group, Millis: []string{"kafka_timestamp"}}, recs[:min(segment, len(recs)-300)]...)
			}
			tail = append(tail, recs...)
		}
		l.tail(tail...)
		whole := l.job(smallJob{Tables: map[string]string{"events": "day UTC"}, Event: "dedupe: false"})
		spelled = changedJob(t, whole, nil, job.Outputs{"events": job.Map[Visit, spelledVisit]{
			Each: func(v *Visit, emit func(spelledVisit)) { emit(spelledVisit(*v)) },
		}})
		spared = changedJob(t, whole, nil, job.Outputs{"events": job.Map[visitTime, sparing]{
			Each: func(v *visitTime, emit func(sparing)) { emit(sparing{At: v.At}) },
		}})
		return spelled, spared
	}
	spelled, spared := jobs(19_500, 19_000)
	run := func(j job.Job, memory int64, args ...string) (contents map[string]string, taken, parts int, all [][]string) {
		list, ws := []job.Job{j}, filepath.Join(t.TempDir(), "ws")
		args = append([]string{"run", "visits", "--promote", "--workspace", ws, "--from", "2024-05-01", "--to", "2024-05-03"}, args...)
		hindcastUnder(t, local.Options{Jobs: list, Embedded: true, WorkerMemory: unit.Bytes(memory)}, args...).ok(t)
		var files []table.Served
		if err := json.Unmarshal([]byte(hindcastWith(t, list, "table", "files", "events", "--json", "--workspace", ws).ok(t).out), &files); err != nil {
			t.Fatal(err)
		}
		contents = map[string]string{}
		for _, f := range files {
			contents[f.Partition] += f.SHA256
			data, err := os.ReadFile(f.Path)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range metadata(t, data).RowGroups {
				if g.Columns[1].ColumnIndexOffset == 0 { // of strings that were not looked at there are no bounds
					taken += int(g.NumRows)
				}
			}
		}
		left, err := filepath.Glob(filepath.Join(ws, "runs", "*", "done", "*-*.json"))
		if err != nil {
			t.Fatal(err)
		}
		return contents, taken, len(left), tableRows(t, list, ws, "events")
	}
	_, none, _, want := run(spelled, 0)
	first, taken, parts, got := run(spared, 0, "--workers", "1")
	if none != 0 || taken < 2*16_384 || taken == 2*rows || parts > 0 {
		t.Errorf("columns of %d rows were taken as they lie, and of %d where nothing says so", taken, none)
	}
	if !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("%d rows differ from the %d expected", len(got), len(want))
	}
	for _, split := range [][2]int{{9_000, 4_000}, {18_000, 17_000}} {
		_, other := jobs(split[0], split[1])
		if _, _, _, got := run(other, 0, "--shard-rows", "1"); !slices.EqualFunc(got, want, slices.Equal[[]string]) {
			t.Errorf("in segments of %d rows: %d rows differ from the %d expected", split[0], len(got), len(want))
		}
		if !testenv.Full() {
			break
		}
	}
	ways := []string{"0 --workers 2 --shard-rows 1 --lap-rows 9000"}
	if testenv.Full() {
		ways = append(ways, "0 --lap-rows 1", "0 --workers 3 --no-prune", "100000 --workers 1", "100000 --workers 2 --lap-rows 7000", "100000 --workers 3 --shard-rows 1 --lap-rows 1000")
	}
	for _, way := range ways {
		words := strings.Fields(way)
		memory := map[string]int64{"0": 0, "100000": 100_000}[words[0]]
		contents, _, parts, _ := run(spared, memory, words[1:]...)
		if !maps.Equal(contents, first) {
			t.Errorf("%s: other bytes", way)
		}
		if strings.Contains(way, "--shard-rows") && parts < 4 {
			t.Errorf("%s: a day was divided into %d parts, of which each row group is to be one", way, parts)
		}
	}
}

type spelledVisit struct {
	ID     string    `row:"id"`
	At     time.Time `row:"at"`
	Shop   string    `row:"shop"`
	Amount int64     `row:"amount"`
}
