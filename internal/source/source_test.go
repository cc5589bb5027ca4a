package source_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hindcast/internal/blob/memblob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/source"
	"hindcast/internal/source/sourcetest"
	"hindcast/internal/testenv"
	"hindcast/internal/unit"
)

func open(t testing.TB, stores source.Stores, inputs ...plan.Input) source.Reader {
	t.Helper()
	r, err := source.Open(t.Context(), stores, inputs, sourcetest.Schema(), source.Layout{Kafka: source.CapturedColumns})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// layout is one way to spread a partition's rows over segments: dense, overlapping, interleaved row by row, captured or exported.
type layout struct {
	stores source.Stores
	inputs []plan.Input
	rows   []sourcetest.Row
}

// random makes a layout in which every row is kept by exactly one input. Of each row group of an input all kept offsets are owned, or none.
func random(t testing.TB, rng *rand.Rand, pageBytes int, event func(partition int32, offset int64) sourcetest.Row) layout {
	mem := memblob.New()
	l := layout{stores: source.Stores{Segments: mem, Captured: mem}}
	for p := range int32(1 + rng.IntN(3)) {
		n := int64(1 + rng.IntN(2000))
		segments := 1 + rng.IntN(6)
		owner := make([]int, n) // of each offset, or -1 where there is none
		run, who := 0, 0
		longest := []int{1, 5, 400}[rng.IntN(3)]
		for o := range owner {
			if run == 0 {
				run, who = 1+rng.IntN(longest), rng.IntN(segments)
				if rng.IntN(10) == 0 {
					who = -1
				}
			}
			owner[o] = who
			run--
		}
		for s := range segments {
			captured := s == segments-1 && rng.IntN(2) == 0
			var rows []sourcetest.Row
			var keep []plan.Range
			kept := int64(0)
			for o := range n {
				if owner[o] != s && rng.IntN(4) != 0 || owner[o] == -1 {
					continue
				}
				row := event(p, o)
				if captured && o%17 == 0 {
					row.Error = "it is no JSON"
				}
				rows = append(rows, row)
				if owner[o] == s {
					keep = append(keep, plan.Range{First: o, Next: o + 1})
					kept++
					l.rows = append(l.rows, row)
				}
			}
			if len(rows) == 0 {
				continue
			}
			key := strings.Replace(sourcetest.Key(p, int64(s)), "topics", []string{"topics", "captured"}[rng.IntN(2)], 1)
			opts := parquetfile.WriterOptions{RowGroupRows: 20 + rng.IntN(1000), PageBytes: pageBytes}
			in := sourcetest.Input(t, mem, key, rows, captured, opts)
			in.Keep, in.Rows = plan.RangesOf(keep...), kept
			for group := range slices.Chunk(rows, opts.RowGroupRows) {
				if rng.IntN(2) == 0 {
					in.Owned = in.Owned.Union(in.Keep.Clip(plan.Range{First: group[0].Offset, Next: group[len(group)-1].Offset + 1}))
				}
			}
			if in.Keep == nil {
				in.Keep = plan.Ranges{}
			}
			if kept == int64(len(rows)) && rng.IntN(2) == 0 {
				in.Keep = nil
			}
			l.inputs = append(l.inputs, in)
		}
	}
	slices.SortFunc(l.rows, func(a, b sourcetest.Row) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	rng.Shuffle(len(l.inputs), func(i, j int) { l.inputs[i], l.inputs[j] = l.inputs[j], l.inputs[i] })
	return l
}

func TestEveryRowOnceInOrderHoweverSegmentsOverlap(t *testing.T) {
	n := 20
	if testenv.Full() {
		n = 2000
	}
	for seed := range n {
		l := random(t, rand.New(rand.NewPCG(uint64(seed), 1)), 0, sourcetest.Event)
		sourcetest.Equal(t, sourcetest.Drain(t, open(t, l.stores, l.inputs...)), l.rows)
	}
}

func TestOnlyTheNamedRowGroups(t *testing.T) {
	mem := memblob.New()
	in := sourcetest.Input(t, mem, "a.parquet", sourcetest.Events(0, plan.Ranges{{First: 0, Next: 1000}}), false, parquetfile.WriterOptions{RowGroupRows: 100})
	in.RowGroups, in.Rows = []int{2, 7}, 200
	got := sourcetest.Drain(t, open(t, source.Stores{Segments: mem}, in))
	sourcetest.Equal(t, got, sourcetest.Events(0, plan.Ranges{{First: 200, Next: 300}, {First: 700, Next: 800}}))
}

func TestDictionaryCodesArePassedOn(t *testing.T) {
	mem := memblob.New()
	in := sourcetest.Input(t, mem, "a.parquet", sourcetest.Events(0, plan.Ranges{{First: 0, Next: 2000}}), false, parquetfile.WriterOptions{})
	in.Keep, in.Rows = plan.Ranges{{First: 3, Next: 1999}}, 1996
	_, b, err := open(t, source.Stores{Segments: mem}, in).Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if b.Len != 1996 || len(b.Columns[3].Strings.Codes) != b.Len {
		t.Errorf("%d rows with %d codes", b.Len, len(b.Columns[3].Strings.Codes))
	}
}

func TestWithoutInputs(t *testing.T) {
	if rows := sourcetest.Drain(t, open(t, source.Stores{})); len(rows) != 0 {
		t.Errorf("%d rows", len(rows))
	}
}

func TestRefusals(t *testing.T) {
	rows := sourcetest.Events(0, plan.Ranges{{First: 0, Next: 50}})
	wide := parquetfile.WriterOptions{}
	for name, c := range map[string]struct {
		setup func(t *testing.T, mem *memblob.Store) []plan.Input
		is    error
		says  string
	}{
		"another object under the key": {func(t *testing.T, mem *memblob.Store) []plan.Input {
			in := sourcetest.Input(t, mem, "a.parquet", rows, false, wide)
			sourcetest.Input(t, mem, "a.parquet", rows[:40], false, wide)
			return []plan.Input{in}
		}, source.ErrChanged, "a.parquet"},
		"a deleted object": {func(t *testing.T, mem *memblob.Store) []plan.Input {
			in := sourcetest.Input(t, mem, "a.parquet", rows, false, wide)
			if err := mem.Delete(t.Context(), "a.parquet"); err != nil {
				t.Fatal(err)
			}
			return []plan.Input{in}
		}, source.ErrChanged, "a.parquet"},
		"two segments that keep the same offset": {func(t *testing.T, mem *memblob.Store) []plan.Input {
			return []plan.Input{sourcetest.Input(t, mem, "a.parquet", rows, false, wide), sourcetest.Input(t, mem, "b.parquet", rows[30:], false, wide)}
		}, nil, "offset 30 of partition 0 is read twice"},
		"rows that do not ascend": {func(t *testing.T, mem *memblob.Store) []plan.Input {
			bad := slices.Clone(rows)
			bad[20], bad[21] = bad[21], bad[20]
			return []plan.Input{sourcetest.Input(t, mem, "a.parquet", bad, false, wide)}
		}, nil, "offset 20 follows 21"},
		"fewer rows than planned": {func(t *testing.T, mem *memblob.Store) []plan.Input {
			in := sourcetest.Input(t, mem, "a.parquet", rows, false, wide)
			in.Keep, in.Rows = plan.Ranges{{First: 40, Next: 60}}, 20
			return []plan.Input{in}
		}, nil, "10 rows are there where 20 were planned"},
		"a column of another kind": {func(t *testing.T, mem *memblob.Store) []plan.Input {
			schema, b := sourcetest.Batch(rows, false)
			schema[5].Kind, b.Columns[5] = record.Float64, record.Column{Kind: record.Float64, Float64s: make([]float64, len(rows))}
			info := sourcetest.Put(t, mem, "a.parquet", sourcetest.Parquet(t, schema, b, wide))
			in := sourcetest.Input(t, mem, "other.parquet", rows, false, wide)
			in.Segment, in.ETag, in.Size = info.Key, info.ETag, unit.Bytes(info.Size)
			return []plan.Input{in}
		}, nil, `column "amount": it holds float64 where the job reads int64`},
	} {
		t.Run(name, func(t *testing.T) {
			mem := memblob.New()
			r := open(t, source.Stores{Segments: mem}, c.setup(t, mem)...)
			_, err := sourcetest.Read(t, r)
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v, want one with %q", err, c.says)
			}
		})
	}
}

// Of rows outside the times that are wanted offsets, record times, times and errors are right all the same.
func TestEventsOfOtherTimesNeedNotBeDecoded(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 3))
		mem := memblob.New()
		var want []sourcetest.Row
		var inputs []plan.Input
		for p, captured := range []bool{false, true} {
			rows := sourcetest.Events(int32(p), plan.Ranges{{First: 0, Next: 3000}})
			for i := range rows {
				at := rows[i].Time - 2_000_000
				rows[i].At = &at
				if captured && rng.IntN(500) == 0 {
					rows[i].Error = "it is no JSON"
				}
			}
			want = append(want, rows...)
			in := sourcetest.Input(t, mem, fmt.Sprintf("%d.parquet", p), rows, captured, parquetfile.WriterOptions{RowGroupRows: 50 + rng.IntN(600)})
			in.Owned = plan.Ranges{{First: 0, Next: 3000}}
			inputs = append(inputs, in)
		}
		from := rng.Int64N(3000) * 1_000_000
		times := &source.Times{Column: "at", From: from, To: from + rng.Int64N(1000)*1_000_000}
		r, err := source.OpenTimes(t.Context(), source.Stores{Segments: mem, Captured: mem}, inputs, sourcetest.Schema(), source.Layout{Kafka: source.CapturedColumns}, times)
		if err != nil {
			t.Fatal(err)
		}
		left := 0
		got := sourcetest.Drain(t, r)
		for i := range got {
			if at := *want[i].At; (at < times.From || at >= times.To) && got[i].ID == "" {
				left++
				want[i].ID, want[i].Amount, want[i].Country = "", 0, nil
			}
		}
		sourcetest.Equal(t, got, want)
		if left < 1000 {
			t.Errorf("seed %d: the columns of all but %d of %d rows were decoded", seed, left, len(got))
		}
	}
}

// However segments lie and whatever their pages: of rows whose events are of other times, those that the input owns are there all the same, but for columns that only
// events of the times need; others may be missing, or their record times be.
func TestPagesOfOtherTimesAreLeftOut(t *testing.T) {
	n := 5
	if testenv.Full() {
		n = 200
	}
	missing, pruned, untimed := 0, 0, 0
	for seed := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), 4))
		undated := []int{1000, 50}[rng.IntN(2)]
		l := random(t, rng, 1+rng.IntN(3000), func(partition int32, offset int64) sourcetest.Row {
			row := sourcetest.Event(partition, offset)
			at := row.Time - 2_000_000 - rng.Int64N(20_000_000)
			if row.At = &at; rng.IntN(undated) == 0 {
				row.At = nil
			}
			return row
		})
		from := rng.Int64N(2000) * 1_000_000
		times := &source.Times{Column: "at", From: from, To: from + rng.Int64N(500)*1_000_000, NoPrune: rng.IntN(5) == 0}
		at := func(row sourcetest.Row) bool { return row.At == nil || *row.At >= times.From && *row.At < times.To }
		r, err := source.OpenTimes(t.Context(), l.stores, l.inputs, sourcetest.Schema(), source.Layout{Kafka: source.CapturedColumns}, times)
		if err != nil {
			t.Fatal(err)
		}
		got := sourcetest.Drain(t, r)
		for i, want := range l.rows {
			owned := slices.ContainsFunc(l.inputs, func(in plan.Input) bool { return in.Partition == want.Partition && in.Owned.Contains(want.Offset) })
			if i == len(got) || got[i].Partition != want.Partition || got[i].Offset != want.Offset {
				if owned || at(want) || times.NoPrune {
					t.Fatalf("seed %d: %v is missing (owned: %v, of %d to %d, not pruned: %v)", seed, want, owned, times.From, times.To, times.NoPrune)
				}
				got = slices.Insert(got, i, want)
				missing++
				continue
			}
			if !at(want) && got[i].ID == "" {
				want.ID, want.Amount, want.Country = "", 0, nil
				pruned++
			}
			if !owned && !times.NoPrune && got[i].Time == 0 && want.Time != 0 {
				want.Time = 0
				untimed++
			}
			if got[i].String() != want.String() {
				t.Fatalf("seed %d: row %d is\n%v, want\n%v", seed, i, got[i], want)
			}
		}
		if len(got) != len(l.rows) {
			t.Fatalf("seed %d: %d rows too many", seed, len(got)-len(l.rows))
		}
	}
	if missing < 10*n || pruned < 10*n || untimed < 10*n {
		t.Errorf("%d rows were left out, columns of %d, and record times of %d", missing, pruned, untimed)
	}
}
