package plan

import (
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"testing"

	"hindcast/internal/sample"
	"hindcast/internal/spec"
	"hindcast/internal/testenv"
)

// Every London day of the real log comes out right with the lateness that the log has; with less, it comes out right or is refused.
func TestEveryDayOfRetailIsRightOrRefused(t *testing.T) {
	if !testenv.Full() {
		t.Skip("plans every day of the year three times: part of the full counts")
	}
	log := retail(t)
	inv := Inventory{Topic: "t", HasTail: true, AsOf: mustInstant("2011-12-12T00:00:00Z")}
	for p, records := range log {
		exported := int64(sample.Exported(records))
		inv.Tails = append(inv.Tails, Tail{Partition: int32(p), Start: exported, End: int64(len(records))})
		for first := int64(0); first < exported; first += 10_000 {
			s := Segment{Key: fmt.Sprintf("%d+%d", p, first), ETag: "e", Partition: int32(p), First: first, Next: min(exported, first+10_000)}
			s.Rows = s.Next - s.First
			for at := first; at < s.Next; at += 2_500 {
				g := RowGroup{First: at, Next: min(s.Next, at+2_500), Timed: true}
				g.Rows = g.Next - g.First
				for _, r := range records[g.First:g.Next] {
					g.RecordTime, g.EventTime = widen(g.RecordTime, r.Time), widen(g.EventTime, r.OccurredAt)
				}
				s.RowGroups = append(s.RowGroups, g)
			}
			inv.Segments = append(inv.Segments, s)
		}
	}
	days, err := daily.Slots(mustInstant("2010-12-01T00:00:00Z"), mustInstant("2011-12-10T00:00:00Z"))
	if err != nil {
		t.Fatal(err)
	}
	byDay := make([][]sample.Record, len(days)*sample.Partitions)
	for p, records := range log {
		for _, r := range records {
			i := sort.Search(len(days), func(i int) bool { return days[i].To > r.OccurredAt })
			byDay[i*sample.Partitions+p] = append(byDay[i*sample.Partitions+p], r)
		}
	}
	for _, lateness := range []int64{21, 7, 1} {
		s := testSpec(lateness*day, 0, true, daily)
		refused := 0
		for i, d := range days {
			p, err := Build(s, &spec.Window{From: d.From, To: d.To}, inv, Options{})
			var late *LatenessError
			if errors.As(err, &late) && lateness < 21 {
				refused++
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for part := range log {
				for _, r := range byDay[i*sample.Partitions+part] {
					if !p.Partitions[part].Read.Contains(r.Offset) {
						t.Fatalf("lateness %dd, %s: the event of offset %d:%d is not read", lateness, d.Label, part, r.Offset)
					}
				}
			}
		}
		t.Logf("lateness %dd: %d of %d days refused", lateness, refused, len(days))
		if (refused > 0) != (lateness < 21) {
			t.Errorf("lateness %dd: %d days refused", lateness, refused)
		}
	}
}

func retail(t *testing.T) [sample.Partitions][]sample.Record {
	f, err := os.Open(filepath.Join(testenv.Shared(t, "HINDCAST_RETAIL", "retail"), "online-retail.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	events, err := sample.Read(z)
	if err != nil {
		t.Fatal(err)
	}
	return sample.Log(events)
}
