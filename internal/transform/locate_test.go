package transform

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"hindcast/internal/partition"
	"hindcast/internal/spec"
)

// What one shard took first of an id is found again, and is what that shard would have compared a second one with.
func TestLocateFindsWhatAShardTookFirst(t *testing.T) {
	for round := range 30 {
		rng := rand.New(rand.NewPCG(9, uint64(round)))
		log := randomLog(rng, 400)
		c := small(nil)
		var prints bytes.Buffer
		c.Columns, c.Window, c.Fingerprints, c.ID = columns, &spec.Window{From: 100, To: 1200}, &prints, "id"
		c.Slots = []partition.Slot{{Label: "a", From: 200, To: 500}, {Label: "b", From: 500, To: 900}}
		res, err := Run(t.Context(), &reader{rng: rng, events: log}, c)
		if err != nil {
			t.Fatal(err)
		}
		in, fingerprints := &reader{rng: rng, events: log}, unpack(prints.Bytes())
		found, err := Locate(t.Context(), in, c, fingerprints)
		if err != nil || !in.closed {
			t.Fatalf("%v, closed: %v", err, in.closed)
		}
		first, second := map[string]event{}, map[string]event{}
		for _, e := range log {
			if e.unread != "" || e.id == "" || e.at < 200 || e.at >= 900 {
				continue
			}
			if f, ok := first[e.id]; !ok {
				first[e.id] = e
			} else if _, ok := second[e.id]; !ok && differ(f, e) != "" {
				second[e.id] = e
			}
		}
		if len(found) != len(first) || len(found) != len(fingerprints) {
			t.Fatalf("round %d: %d found of %d ids and %d fingerprints", round, len(found), len(first), len(fingerprints))
		}
		conflicts := map[string]Conflict{}
		for _, c := range res.FirstConflicts {
			if _, ok := conflicts[c.ID]; !ok {
				conflicts[c.ID] = c
			}
		}
		for _, s := range found {
			e := first[s.id]
			if s.Position != (Position{e.partition, e.offset}) {
				t.Fatalf("round %d: id %q is found at %s, not at %d/%d", round, s.id, s.Position, e.partition, e.offset)
			}
			if c, ok := s.Conflict(s); ok {
				t.Fatalf("round %d: an event conflicts with itself: %+v", round, c)
			}
			e, ok := second[s.id]
			if !ok {
				continue
			}
			// As another shard would find the other contents.
			other, err := Locate(t.Context(), &reader{rng: rng, events: []event{e}}, c, []uint64{s.Fingerprint})
			if err != nil || len(other) != 1 {
				t.Fatalf("%v, %v", other, err)
			}
			if got, ok := other[0].Conflict(s); !ok || got != conflicts[s.id] {
				t.Fatalf("round %d: %+v, the shard tells %+v", round, got, conflicts[s.id])
			}
		}
	}
}

func TestLocateNeedsAnID(t *testing.T) {
	c := small(nil)
	c.Columns, c.ID = columns, ""
	if _, err := Locate(t.Context(), &reader{}, c, nil); err == nil {
		t.Error("without an id")
	}
}
