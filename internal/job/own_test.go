package job

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"hindcast/internal/record"
)

type ownEvent struct {
	Kind string `event:"kind"`
	Note string `event:"note"`
	N    int64  `event:"n"`
}

type ownRow struct {
	N     int64   `row:"n"`
	Kind  string  `row:"kind"`  // the event's
	Shown string  `row:"shown"` // mostly the event's
	Note  string  `row:"note"`
	Raw   []byte  `row:"raw"` // in memory that is used again
	Ptr   *string `row:"ptr"`
}

// Rows have the values that they had when their function returned, whether strings are the event's, by the codes of one dictionary or of several, or the function's.
func TestRowsWithoutAKeyKeepWhatTheyWereGiven(t *testing.T) {
	var raw []byte
	var held string
	m := Map[ownEvent, ownRow]{Each: func(e *ownEvent, emit func(ownRow)) {
		raw, held = fmt.Append(raw[:0], e.N), e.Note+"!"
		for i := range e.N % 3 {
			row := ownRow{N: e.N + i, Kind: e.Kind, Shown: e.Kind, Note: e.Note, Raw: raw, Ptr: &held}
			if e.N%1000 == 1 {
				row.Shown = strings.ToUpper(e.Kind)
			}
			emit(row)
		}
	}}
	rng := rand.New(rand.NewPCG(3, 4))
	r := open(t, m, 2)
	var out Outcome
	want, got := make([][][]any, 2), make([][][]any, 2)
	coded := 0
	take := func(slot int, b *record.Batch) {
		if b.Columns[1].Strings.Codes != nil {
			coded += b.Len
		}
		for i := range b.Len {
			got[slot] = append(got[slot], values(b, i))
		}
	}
	var number uint64
	for n := range 32 {
		b := &record.Batch{Len: 1 + rng.IntN(500), Columns: []record.Column{{Kind: record.String}, {Kind: record.String}, {Kind: record.Int64}}}
		kinds := []string{"sale", "refund", "", fmt.Sprint("other", n/4)}
		c := b.Columns
		for _, k := range kinds {
			c[0].Strings.Append([]byte(k))
		}
		if n%4 == 0 {
			number = record.NewDictionary()
		}
		c[0].Strings.Codes, c[0].Strings.Dictionary = []uint32{}, number
		var slots []int32
		for i := range b.Len {
			kind, note, v, slot := rng.IntN(len(kinds)), fmt.Sprint("note ", n, " ", i%7), int64(n*1000+i), rng.IntN(40)/39
			c[0].Strings.Codes = append(c[0].Strings.Codes, uint32(kind))
			c[1].Strings.Append([]byte(note))
			c[2].Int64s = append(c[2].Int64s, v)
			slots = append(slots, int32(slot))
			shown := kinds[kind]
			if v%1000 == 1 {
				shown = strings.ToUpper(shown)
			}
			last := fmt.Sprint(note, "!")
			for k := range v % 3 {
				want[slot] = append(want[slot], []any{v + k, kinds[kind], shown, note, fmt.Sprint(v), last})
			}
		}
		if err := r.Add(b, allRows(b.Len), slots, &out); err != nil {
			t.Fatal(err)
		}
		scrub(b)
		if n == 5 {
			r = again(t, m, 2, r)
		}
		if n > 6 && n%3 == 0 {
			if err := r.(Flowing).Flow(1, func() bool { return true }, func(slot int, b *record.Batch) error { take(slot, b); return nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	for slot := range want {
		if err := r.Drain(slot, func(b *record.Batch) error { take(slot, b); return nil }); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got[slot], want[slot]) {
			t.Errorf("slot %d: %d rows are not the %d that were given", slot, len(got[slot]), len(want[slot]))
		}
	}
	if len(out.Failures) > 0 || coded == 0 {
		t.Errorf("failures %v; %d rows have a code", out.Failures, coded)
	}
}
