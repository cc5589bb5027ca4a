package plan

import (
	"math/rand/v2"
	"testing"

	"hindcast/internal/partition"
	"hindcast/internal/spec"
)

// What slots hold is estimated, but nothing is made up: all rows of pieces within the slots are in it, but for what rounding loses.
func TestSlotsHoldTheRowsOfTheirPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		n := 1 + rng.IntN(30)
		var slots []partition.Slot
		for at := rng.Int64N(1000); len(slots) < n; {
			to := at + 1 + rng.Int64N(500)
			slots = append(slots, partition.Slot{From: at, To: to})
			at = to
		}
		begin, end := slots[0].From, slots[n-1].To
		d, all, pieces := newDensity(slots), 0.0, 1+rng.IntN(20)
		for range pieces {
			from := begin + rng.Int64N(end-begin)
			c := piece{rows: rng.Int64N(1 << (1 + rng.IntN(40))), event: &Span{from, from + rng.Int64N(end-from)}}
			switch rng.IntN(5) {
			case 0:
				c.event.Max += 1000
			case 1:
				c.event = nil
			case 2:
				c.event = &Span{-1 << 63, 1<<63 - 1}
			}
			c.first, c.last = slotsOf(c.event, slots)
			d.add(&c)
			if c.event == nil || !placeable(c.event) {
				all += float64(c.rows)
				continue
			}
			inside := float64(1+c.event.Max-c.event.Min) - float64(max(c.event.Max+1-end, 0))
			all += float64(c.rows) * inside / float64(1+c.event.Max-c.event.Min)
		}
		sum := int64(0)
		for i, rows := range d.rows() {
			if rows < 0 {
				t.Fatalf("slot %d holds %d rows", i, rows)
			}
			sum += rows
		}
		if lost := all - float64(sum); lost < -1 || lost > float64(pieces*(n+3)) {
			t.Fatalf("%d slots hold %d rows of %f", n, sum, all)
		}
	}
}

// A row group of two and a half hours is not read by a shard for each of them.
func TestARowGroupIsReadByFewShards(t *testing.T) {
	var slots []partition.Slot
	for h := range int64(24) {
		slots = append(slots, partition.Slot{From: h * int64(spec.Hour), To: (h + 1) * int64(spec.Hour)})
	}
	seg := &Segment{Key: "a"}
	var pieces []piece
	for i := range int64(10) {
		at := i * int64(spec.Hour) * 12 / 5
		seg.RowGroups = append(seg.RowGroups, RowGroup{First: i * 1000, Next: (i + 1) * 1000, Rows: 1000})
		pieces = append(pieces, piece{seg: seg, group: int(i), rows: 1000, whole: true, event: &Span{at, at + int64(spec.Hour)*12/5 - 1}})
	}
	shards := cut(pieces, slots, 2500, false)
	var read int64
	for _, s := range shards {
		read += s.Rows
	}
	if len(shards) != 4 || read > 13_000 {
		t.Errorf("%d shards read %d of 10,000 rows", len(shards), read)
	}
}
