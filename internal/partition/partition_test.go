package partition

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"hindcast/internal/record"
	"hindcast/internal/testenv"
)

// zones have between them: none, half-hour, quarter-hour and 30-minute DST offsets; changes at
// midnight and a minute past it; skipped dates; offsets with seconds; changes of the name alone.
var zones = []string{
	"UTC", "Europe/London", "America/New_York", "Pacific/Auckland", "Asia/Kolkata", "Australia/Lord_Howe",
	"Asia/Kathmandu", "Pacific/Chatham", "America/St_Johns", "America/Sao_Paulo", "America/Havana", "Asia/Beirut",
	"Pacific/Apia", "Pacific/Kwajalein", "Asia/Manila", "America/Juneau", "Africa/Monrovia", "Africa/Casablanca",
	"Europe/Dublin", "Antarctica/Troll", "America/Caracas", "Asia/Pyongyang", "Europe/Lisbon",
}

func at(s string) int64 {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t.UnixMicro()
}

func scheme(u Unit, zone string) Scheme { return Scheme{Unit: u, Column: "t", Zone: zone} }

// naive returns the labels that a clock shows minute by minute, each with the first minute that shows it. A date
// that a clock shows again after a later one stays with the later one.
func naive(s Scheme, from, to int64) (labels []string, starts []int64) {
	loc, _ := time.LoadLocation(s.Zone)
	layout := map[Unit]string{Hour: "2006-01-02T15-0700", Day: "2006-01-02", Month: "2006-01"}[s.Unit]
	for t := from; t < to; t += 60 * secondMicros {
		clock := time.UnixMicro(t).In(loc)
		label := clock.Format(layout)
		if _, offset := clock.Zone(); s.Unit == Hour && offset%60 != 0 {
			label = clock.Format(layout + "00")
		}
		if n := len(labels); n > 0 && (labels[n-1] == label || s.Unit != Hour && label < labels[n-1]) {
			continue
		}
		labels, starts = append(labels, label), append(starts, t)
	}
	return labels, starts
}

func TestSlotsAreWhatClocksShow(t *testing.T) {
	for _, zone := range zones {
		loc, err := LoadZone(zone)
		if err != nil {
			t.Fatal(err)
		}
		// Around every change of the clocks since 1970, and some at which offsets had seconds.
		centers := []time.Time{time.Date(2011, 11, 1, 0, 0, 0, 0, time.UTC)}
		for c := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC); c.Year() < 2027; {
			next := c.Add(6 * time.Hour)
			if c.In(loc).Format("-070000") != next.In(loc).Format("-070000") {
				centers = append(centers, next)
			}
			c = next
		}
		for i, center := range centers {
			if i%42 != 1 && !testenv.Full() {
				continue
			}
			for _, u := range []Unit{Hour, Day, Month} {
				days := 2
				if u == Month {
					days = 33
				}
				if u == Month && i%7 != 0 {
					continue
				}
				s := scheme(u, zone)
				from := center.AddDate(0, 0, -days).Truncate(time.Minute).UnixMicro()
				to := center.AddDate(0, 0, days).Truncate(time.Minute).UnixMicro()
				slots, err := s.Slots(from, to)
				if err != nil {
					t.Fatal(err)
				}
				labels, starts := naive(s, from, to)
				if len(slots) != len(labels) {
					t.Fatalf("%s around %s: slots %v, clocks show %v", s, center.UTC(), slots, labels)
				}
				for i := range slots {
					// The minutes of a zone whose offset had seconds do not fall on UTC's: up to a minute between them.
					if slots[i].Label != labels[i] || i > 0 && (slots[i].From > starts[i] || slots[i].From <= starts[i]-60*secondMicros) {
						t.Fatalf("%s around %s: slot %+v, clocks show %s from %s", s, center.UTC(), slots[i], labels[i],
							time.UnixMicro(starts[i]).UTC())
					}
				}
			}
		}
	}
}

func TestSlotsTile(t *testing.T) {
	rounds := 1
	if testenv.Full() {
		rounds = 5
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, zone := range zones {
		for _, u := range []Unit{Hour, Day, Month} {
			s := scheme(u, zone)
			length := map[Unit]int64{Hour: 3 * 24, Day: 90 * 24, Month: 1000 * 24}[u] * 3600 * secondMicros
			for range rounds {
				from := at("1890-01-01T00:00:00Z") + rng.Int64N(at("2100-01-01T00:00:00Z")-at("1890-01-01T00:00:00Z"))
				to := from + 1 + rng.Int64N(length)
				checkTiling(t, s, from, to, rng)
			}
		}
	}
}

func checkTiling(t *testing.T, s Scheme, from, to int64, rng *rand.Rand) {
	t.Helper()
	slots, err := s.Slots(from, to)
	if err != nil {
		t.Fatal(err)
	}
	first, last := slots[0], slots[len(slots)-1]
	if !first.Contains(from) || !last.Contains(to-1) {
		t.Fatalf("%s: slots %+v … %+v do not hold [%d, %d)", s, first, last, from, to)
	}
	seen := map[string]bool{}
	for i, slot := range slots {
		if slot.From >= slot.To || seen[slot.Label] {
			t.Fatalf("%s: slot %+v is empty or repeats a label", s, slot)
		}
		seen[slot.Label] = true
		if i > 0 && (slots[i-1].To != slot.From || s.Compare(slots[i-1].Label, slot.Label) >= 0) {
			t.Fatalf("%s: %+v does not follow %+v", s, slot, slots[i-1])
		}
		for _, at := range []int64{slot.From, slot.To - 1, slot.From + rng.Int64N(slot.To-slot.From)} {
			if got, err := s.Slot(at); err != nil || got != slot {
				t.Fatalf("%s: %d lies in %+v, %v; want %+v", s, at, got, err, slot)
			}
		}
		if got, err := s.Parse(slot.Label); err != nil || got != slot {
			t.Fatalf("%s: parse %s: %+v, %v; want %+v", s, slot.Label, got, err, slot)
		}
	}
	if f, e, err := s.Expand(from, to); err != nil || f != first.From || e != last.To {
		t.Fatalf("%s: expand [%d, %d) = [%d, %d), %v; want %+v … %+v", s, from, to, f, e, err, first, last)
	}
	if ok, err := s.Aligned(first.From, last.To); err != nil || !ok {
		t.Fatalf("%s: slots' own boundaries are not aligned: %v", s, err)
	}
	if ok, _ := s.Aligned(first.From, last.To-1); ok {
		t.Fatalf("%s: a cut slot is aligned", s)
	}
}

func TestSlotsAtClockChanges(t *testing.T) {
	for _, c := range []struct {
		scheme   Scheme
		from, to string
		want     []string
	}{
		{scheme(Day, "America/New_York"), "2026-03-07T05:00:00Z", "2026-03-10T04:00:00Z", []string{
			"2026-03-07 24h0m0s", "2026-03-08 23h0m0s", "2026-03-09 24h0m0s",
		}},
		{scheme(Hour, "America/New_York"), "2024-11-03T04:00:00Z", "2024-11-03T08:00:00Z", []string{
			"2024-11-03T00-0400 1h0m0s", "2024-11-03T01-0400 1h0m0s", "2024-11-03T01-0500 1h0m0s", "2024-11-03T02-0500 1h0m0s",
		}},
		{scheme(Hour, "Pacific/Auckland"), "2024-04-06T13:00:00Z", "2024-04-06T15:00:00Z", []string{
			"2024-04-07T02+1300 1h0m0s", "2024-04-07T02+1200 1h0m0s",
		}},
		{scheme(Day, "Pacific/Auckland"), "2024-04-06T11:00:00Z", "2024-04-07T12:00:00Z", []string{"2024-04-07 25h0m0s"}},
		{scheme(Hour, "Australia/Lord_Howe"), "2024-04-06T14:00:00Z", "2024-04-06T16:30:00Z", []string{
			"2024-04-07T01+1100 1h0m0s", "2024-04-07T01+1030 30m0s", "2024-04-07T02+1030 1h0m0s",
		}},
		{scheme(Hour, "Australia/Lord_Howe"), "2024-10-05T14:30:00Z", "2024-10-05T17:00:00Z", []string{
			"2024-10-06T01+1030 1h0m0s", "2024-10-06T02+1100 30m0s", "2024-10-06T03+1100 1h0m0s",
		}},
		{scheme(Hour, "Asia/Kolkata"), "2024-04-06T18:30:00Z", "2024-04-06T19:30:00Z", []string{"2024-04-07T00+0530 1h0m0s"}},
		{scheme(Day, "Pacific/Apia"), "2011-12-29T10:00:00Z", "2011-12-31T10:00:00Z", []string{
			"2011-12-29 24h0m0s", "2011-12-31 24h0m0s",
		}}, // there was no 30th
		{scheme(Day, "America/Sao_Paulo"), "2018-11-03T03:00:00Z", "2018-11-05T02:00:00Z", []string{
			"2018-11-03 24h0m0s", "2018-11-04 23h0m0s",
		}}, // the 4th began at 01:00
		{scheme(Month, "Europe/London"), "2011-10-01T00:00:00+01:00", "2011-12-01T00:00:00Z", []string{
			"2011-10 745h0m0s", "2011-11 720h0m0s",
		}},
	} {
		slots, err := c.scheme.Slots(at(c.from), at(c.to))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range slots {
			got = append(got, fmt.Sprintf("%s %s", s.Label, time.Duration(s.To-s.From)*time.Microsecond))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.scheme, got, c.want)
		}
		if slots[0].From != at(c.from) || slots[len(slots)-1].To != at(c.to) {
			t.Errorf("%s: %+v is not from %s to %s", c.scheme, slots, c.from, c.to)
		}
	}
}

func TestPartitionColumn(t *testing.T) {
	for _, c := range []struct {
		scheme Scheme
		label  string
		field  record.Field
		value  int64
	}{
		{scheme(Day, "Europe/London"), "2011-11-01", record.Field{Name: "day", Kind: record.Date}, 15279},
		{scheme(Month, "Europe/London"), "2011-11", record.Field{Name: "month", Kind: record.String}, 0},
		{scheme(Hour, "America/New_York"), "2024-11-03T01-0500", record.Field{Name: "hour", Kind: record.Timestamp}, at("2024-11-03T06:00:00Z")},
		{scheme(Hour, "Australia/Lord_Howe"), "2024-04-07T01+1030", record.Field{Name: "hour", Kind: record.Timestamp}, at("2024-04-06T15:00:00Z")},
	} {
		field, ok := c.scheme.Field()
		value, err := c.scheme.Value(c.label)
		if !ok || field != c.field || err != nil || value != c.value {
			t.Errorf("%s %s: %v %v, %d %v", c.scheme, c.label, field, ok, value, err)
		}
	}
	if f, ok := (Scheme{Buckets: 16}).Field(); ok {
		t.Errorf("buckets have a column %v", f)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		scheme Scheme
		label  string
	}{
		{scheme(Day, "UTC"), "2011-11-31"},
		{scheme(Day, "UTC"), "2011-11-1"},
		{scheme(Day, "UTC"), "2011-11"},
		{scheme(Day, "Pacific/Apia"), "2011-12-30"},
		{scheme(Month, "UTC"), "2011-13"},
		{scheme(Hour, "America/New_York"), "2024-03-10T02-0500"}, // skipped
		{scheme(Hour, "America/New_York"), "2024-07-10T02-0500"}, // the zone's offset is another
		{scheme(Hour, "America/New_York"), "2024-07-10T02"},
		{Scheme{Buckets: 4}, "0001"},
	} {
		if got, err := c.scheme.Parse(c.label); err == nil {
			t.Errorf("%s: %q is %+v", c.scheme, c.label, got)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, s := range []Scheme{
		{},
		{Unit: "week", Column: "t", Zone: "UTC"},
		{Unit: Day, Zone: "UTC"},
		{Unit: Day, Column: "t"},
		{Unit: Day, Column: "t", Zone: "Local"},
		{Unit: Day, Column: "t", Zone: "Europe/Londn"},
		{Buckets: -1},
		{Buckets: MaxBuckets + 1},
		{Buckets: 4, Unit: Day},
	} {
		if s.Validate() == nil {
			t.Errorf("%+v is valid", s)
		}
	}
	for _, s := range []Scheme{scheme(Day, "UTC"), {Buckets: 1}, {Buckets: MaxBuckets}} {
		if err := s.Validate(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if _, err := scheme(Day, "UTC").Slot(at("9999-12-31T00:00:00Z")); err == nil {
		t.Error("a slot past the year 9999")
	}
}

// What bucket a key is in is a property of tables on disk: it must never change.
func TestBucketsStayWhatTheyAre(t *testing.T) {
	s := Scheme{Buckets: 16}
	var got []int
	for _, key := range []string{"", "12346", "17850", "13047", "Ω"} {
		b := s.Bucket([]byte(key))
		got = append(got, b)
		if n, err := s.ParseBucket(BucketLabel(b)); n != b || err != nil {
			t.Errorf("bucket %d reads back as %d, %v", b, n, err)
		}
	}
	if want := []int{2, 7, 6, 12, 8}; !slices.Equal(got, want) {
		t.Errorf("buckets %v, want %v", got, want)
	}
	for _, bad := range []string{"16", "0016", "-001", "7", ""} {
		if _, err := s.ParseBucket(bad); err == nil {
			t.Errorf("bucket %q parses", bad)
		}
	}
	if s.Dir(BucketLabel(7)) != "bucket=0007" || scheme(Day, "UTC").Dir("2011-11-01") != "day=2011-11-01" {
		t.Error("names of folders changed")
	}
}
