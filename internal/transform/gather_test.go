//go:build full

package transform

import (
	"bytes"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"hindcast/internal/job"
	"hindcast/internal/partition"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/spec"
	"hindcast/internal/testenv"
)

// rolling is a fold whose state tells the order of its events.
type rolling struct {
	Key   string         `row:"key,key"`
	Count int64          `row:"count"`
	Sum   int64          `row:"sum"`
	Kinds int64          `row:"kinds"`
	Seen  job.Set[int64] `row:"-"`
	Power int64          `row:"-"` // 31 to the power of Count
}

var rollingFold = job.Fold[in, rolling]{
	Where: fold.Where,
	Key:   func(e *in) rolling { return rolling{Key: e.Key, Power: 1} },
	Apply: func(r *rolling, e *in) {
		r.Count, r.Sum, r.Power = r.Count+1, r.Sum*31+e.N, r.Power*31
		r.Seen.Add(e.N)
	},
	Finish: func(r *rolling) { r.Kinds = r.Seen.Len() },
	Merge: func(r, later *rolling) {
		r.Count, r.Sum, r.Power = r.Count+later.Count, r.Sum*later.Power+later.Sum, r.Power*later.Power
		r.Seen.AddAll(later.Seen)
	},
}

type inColumns struct {
	Key     job.Text          `event:"key"`
	N       job.Column[int64] `event:"n"`
	Version job.Column[int64] `event:"version,null"`
}

type rollingColumns struct {
	Key   job.Key          `row:"key"`
	Count []int64          `row:"count"`
	Sum   []int64          `row:"sum"`
	Kinds []int64          `row:"kinds"`
	Seen  []job.Set[int64] `row:"-"`
	Power []int64          `row:"-"`
}

var rollingColumnFold = job.ColumnFold[inColumns, rollingColumns]{
	Where: func(e *inColumns, row int32) bool { return e.Key.At(row) != "skip" },
	Apply: func(s *rollingColumns, e *inColumns, events []job.Event) {
		for _, at := range events {
			g, n := at.Group, e.N.At(at.Row)
			if s.Count[g] == 0 {
				s.Power[g] = 1
			}
			s.Count[g], s.Sum[g], s.Power[g] = s.Count[g]+1, s.Sum[g]*31+n, s.Power[g]*31
			s.Seen[g].Add(n)
		}
	},
	Finish: func(s *rollingColumns) {
		for g := range s.Seen {
			s.Kinds[g] = s.Seen[g].Len()
		}
	},
	Merge: func(s, later *rollingColumns, events []job.Event) {
		for _, e := range events {
			g, l := e.Group, e.Row
			s.Count[g], s.Sum[g], s.Power[g] = s.Count[g]+later.Count[l], s.Sum[g]*later.Power[l]+later.Sum[l], s.Power[g]*later.Power[l]
			s.Seen[g].AddAll(later.Seen[l])
		}
	},
}

// fragile panics in Apply, and keeps to versions.
type fragile struct {
	Key string `row:"key,key"`
	Sum int64  `row:"sum"`
}

func fragileBy(key func(*in) string, limit int64) job.Transform {
	return job.Fold[in, fragile]{
		Where: fold.Where,
		Key:   func(e *in) fragile { return fragile{Key: key(e)} },
		Apply: func(f *fragile, e *in) {
			if e.N > limit {
				panic("too many")
			}
			f.Sum = f.Sum*31 + e.N
		},
		Version: fold.Version,
	}
}

// rowsOf are rows of a part, one a batch, by table and partition.
type rowsOf map[string][]*record.Batch

func (r rowsOf) sink(table, label string, batches iter.Seq2[*record.Batch, error]) error {
	for b, err := range batches {
		if err != nil {
			return err
		}
		for i := range b.Len {
			one := &record.Batch{}
			appendRow(one, b, i)
			r[table+" "+label] = append(r[table+" "+label], one)
		}
	}
	return nil
}

// combine merges what parts left, and spells it out as collect does.
func combine(t *testing.T, rng *rand.Rand, c Config, parts []rowsOf) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	for _, o := range c.Outputs {
		for _, slot := range c.Slots {
			var all []*record.Batch
			for _, p := range parts {
				all = append(all, p[o.Table+" "+slot.Label]...)
			}
			if all == nil {
				continue
			}
			slices.SortStableFunc(all, func(a, b *record.Batch) int {
				return bytes.Compare(a.Columns[0].Strings.At(0), b.Columns[0].Strings.At(0))
			})
			merged := func(yield func(*record.Batch, error) bool) {
				for len(all) > 0 {
					b, n := &record.Batch{}, min(len(all), 1+rng.IntN(40))
					for _, one := range all[:n] {
						appendRow(b, one, 0)
					}
					if all = all[n:]; !yield(b, nil) {
						return
					}
				}
			}
			if c.Keys.Of == 0 {
				merged = o.Transform.(job.Merger).Combine(merged)
			}
			if err := collect(rows)(o.Table, slot.Label, merged); err != nil {
				t.Fatal(err)
			}
		}
	}
	return rows
}

// partInLaps runs a part, stopping at random, now and then with next to no memory.
func partInLaps(t *testing.T, rng *rand.Rand, log []event, c Config) (rowsOf, Result) {
	t.Helper()
	if rng.IntN(3) == 0 {
		c.Memory, c.Scratch = 1+rng.Int64N(1<<14), t.TempDir()
	}
	var saved []byte
	rows := rowsOf{}
	for lap := 0; ; lap++ {
		c.Sink, c.Stop = rows.sink, func(int64) bool { return lap < 4 && rng.IntN(8) == 0 }
		var checkpoint bytes.Buffer
		c.Checkpoint = &checkpoint
		if saved != nil {
			c.Resume = bytes.NewReader(saved)
		}
		res, err := Run(t.Context(), &reader{rng: rng, events: log}, c)
		if err != nil {
			t.Fatal(err)
		}
		if res.Done {
			return rows, res
		}
		if saved = checkpoint.Bytes(); res.Ended {
			log = nil
		}
	}
}

func oneSlot(outputs ...Output) Config {
	c := Config{
		Outputs: outputs, Window: &spec.Window{From: 200, To: 1100}, Columns: columns, Time: "at", ID: "id",
		Scheme: partition.Scheme{Unit: partition.Day, Column: "at", Zone: "UTC"}, Slots: []partition.Slot{{Label: "s", From: 200, To: 1100}},
		Tail:  map[int32]plan.Ranges{0: {{First: 100, Next: 1 << 40}}},
		Owned: map[int32]plan.Ranges{},
	}
	for p := range int32(3) {
		c.Owned[p] = plan.Ranges{{First: 0, Next: 1 << 40}}
	}
	return c
}

func sameAsWhole(t *testing.T, gotRows, wantRows map[string][]string, got, want Result) {
	t.Helper()
	if !reflect.DeepEqual(gotRows, wantRows) {
		t.Fatalf("got %v\nwant %v", gotRows, wantRows)
	}
	got.PeakMemory, want.PeakMemory, got.Fingerprints, want.Fingerprints = 0, 0, 0, 0
	for _, r := range []*Result{&got, &want} { // nil or empty
		r.FirstDeadLetters, r.FirstConflicts, r.FirstStrays = slices.Clip(r.FirstDeadLetters), slices.Clip(r.FirstConflicts), slices.Clip(r.FirstStrays)
	}
	if fmt.Sprintf("%+v", got.Counts) != fmt.Sprintf("%+v", want.Counts) || *got.Cursor != *want.Cursor {
		t.Fatalf("got %+v\nwant %+v", got.Counts, want.Counts)
	}
	got.Counts, want.Counts, got.Cursor, want.Cursor = nil, nil, nil, nil
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Fatalf("got %+v\nwant %+v", got, want)
	}
}

// Wherever the log is cut, what comes of the slices is merged to the rows and the account of the whole; an id in two slices is found.
func TestSlicesAreMergedToTheWhole(t *testing.T) {
	rounds := 6
	if testenv.Full() {
		rounds = 200
	}
	for round := range rounds {
		rng := rand.New(rand.NewPCG(21, uint64(round)))
		log := randomLog(rng, 30+rng.IntN(400))
		totals := job.Transform(rollingFold)
		if round%2 == 0 {
			totals = rollingColumnFold
		}
		c := oneSlot(Output{Table: "totals", Transform: totals}, Output{Table: "copies", Transform: copies})
		if round%4 == 3 {
			c.ID = ""
		}
		cuts := []int{0, len(log)}
		for range 1 + rng.IntN(5) {
			cuts = append(cuts, rng.IntN(len(log)+1))
		}
		slices.Sort(cuts)
		for try := range 2 {
			var parts []rowsOf
			var results []Result
			ids := map[uint64]bool{}
			shared := false
			for i, from := range cuts[:len(cuts)-1] {
				part := c
				part.Partial, part.Owned = true, map[int32]plan.Ranges{}
				mine := log[from:cuts[i+1]]
				for _, e := range mine {
					part.Owned[e.partition] = part.Owned[e.partition].Union(plan.Ranges{{First: e.offset, Next: e.offset + 1}})
				}
				var prints bytes.Buffer
				part.Fingerprints = &prints
				rows, res := partInLaps(t, rng, mine, part)
				parts, results = append(parts, rows), append(results, res)
				for _, f := range unpack(prints.Bytes()) {
					shared = shared || ids[f]
					ids[f] = true
				}
			}
			whole, want := inLaps(t, rng, log, c, 8)
			got, ok := Gather([]string{"totals", "copies"}, results, false)
			if !ok {
				t.Fatal("slices do not tell what became of rows")
			}
			if shared {
				if try > 0 {
					t.Fatal("an id is in two slices still")
				}
				repeats := func(r Result) (n int64) {
					for _, c := range r.Counts {
						n += c.Duplicate + c.Conflict
					}
					return n
				}
				if repeats(got) >= repeats(want) {
					t.Fatalf("round %d: slices share an id, and have %d repeats of %d", round, repeats(got), repeats(want))
				}
				// Once more, with ids that come once.
				seen := map[string]int{}
				for _, e := range log {
					seen[e.id]++
				}
				log = slices.DeleteFunc(log, func(e event) bool { return e.id != "" && seen[e.id] > 1 })
				cuts = []int{0, len(log) / 3, len(log) / 2, len(log)}
				continue
			}
			sameAsWhole(t, combine(t, rng, c, parts), whole, got, want)
			break
		}
	}
}

// However many workers share the keys, each of which sees all rows: together they have the rows and the account of one.
func TestSharesOfKeysAreTheWhole(t *testing.T) {
	rounds := 8
	if testenv.Full() {
		rounds = 100
	}
	told := 0
	for round := range rounds {
		rng := rand.New(rand.NewPCG(22, uint64(round)))
		log := randomLog(rng, 30+rng.IntN(400))
		c := oneSlot(
			Output{Table: "totals", Transform: fold}, Output{Table: "copies", Transform: copies}, Output{Table: "columns", Transform: rollingColumnFold},
			Output{Table: "fragile", Transform: fragileBy(func(e *in) string { return e.Key }, 36)},
			Output{Table: "more", Transform: fragileBy(func(e *in) string { return fmt.Sprint(e.N % 7) }, 37)},
		)
		if round%2 == 1 {
			c.Outputs = c.Outputs[:1]
		}
		var tables []string
		for _, o := range c.Outputs {
			tables = append(tables, o.Table)
		}
		whole, want := inLaps(t, rng, log, c, 8)
		var parts []rowsOf
		var results []Result
		n := 2 + rng.IntN(3)
		shared := c
		for i := range n {
			shared.Keys = job.Share{Number: i, Of: n}
			if i > 0 {
				shared.Owned = nil
			}
			rows, res := partInLaps(t, rng, log, shared)
			parts, results = append(parts, rows), append(results, res)
			if i > 0 && len(parts[i]["copies s"]) > 0 {
				t.Fatalf("the map's rows are in share %d", i)
			}
		}
		got, ok := Gather(tables, results, true)
		if !ok {
			if want.DeadLetters < MaxFindings/2 || len(tables) == 1 {
				t.Fatalf("round %d: shares do not tell what became of rows", round)
			}
			continue
		}
		told++
		sameAsWhole(t, combine(t, rng, shared, parts), whole, got, want)
		if all := len(whole["totals s"]); all > 6 && len(parts[0]["totals s"]) == all {
			t.Fatalf("round %d: one share has all keys", round)
		}
	}
	if told == 0 {
		t.Fatal("no round was compared")
	}
}
