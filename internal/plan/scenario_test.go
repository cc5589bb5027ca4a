package plan

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hindcast/internal/partition"
	"hindcast/internal/spec"
)

var update = flag.Bool("update", false, "write golden files anew")

// dense makes a segment of a partition with the offsets from first to next, one record every minute from the
// instant that offset 0 has, nov1, in row groups of a hundred. Events happen a second before they are recorded.
func dense(p int32, first, next int64) Segment {
	if next == openEnd {
		s := dense(p, first, first+100)
		s.Next = openEnd
		return s
	}
	s := Segment{
		Key: fmt.Sprintf("partition=%d/t+%d+%06d", p, p, first), ETag: "e", Size: 1000, Partition: p, First: first, Next: next, Rows: next - first,
	}
	for at := first; at < next; at += 100 {
		end := min(next, at+100)
		s.RowGroups = append(s.RowGroups, RowGroup{
			Rows: end - at, Bytes: 100, First: at, Next: end, Timed: true,
			RecordTime: &Span{nov1 + at*minute, nov1 + (end-1)*minute},
			EventTime:  &Span{nov1 + at*minute - int64(spec.Second), nov1 + (end-1)*minute - int64(spec.Second)},
		})
	}
	return s
}

func derive(s *Segment)  { s.Quality = Derived }
func unknown(s *Segment) { s.Quality, s.Why = Unknown, "it lost rows" }

// whole makes a segment one that was copied of the log from first to next, though it has no rows there; gone are offsets without a record in it.
func whole(s Segment, first, next int64, gone ...Range) Segment {
	s.Offsets = Ranges{{s.First, s.Next}}.Minus(RangesOf(gone...))
	s.First, s.Next, s.Rows, s.Whole = first, next, s.Offsets.Len(), true
	for i := range s.RowGroups {
		g := &s.RowGroups[i]
		g.Rows = s.Offsets.count(Range{g.First, g.Next})
	}
	return s
}

func london(from, to string) *spec.Window {
	return &spec.Window{From: mustInstant(from + "T00:00:00Z"), To: mustInstant(to + "T00:00:00Z")}
}

// Offsets of midnights: a day has 1440 minutes.
const (
	nov2 = 1440
	nov3 = 2 * nov2
	nov4 = 3 * nov2
)

func TestScenarios(t *testing.T) {
	log := func(segs ...Segment) Inventory {
		return Inventory{Topic: "t", Segments: segs, AsOf: mustInstant("2011-12-01T00:00:00Z")}
	}
	tailed := func(inv Inventory, start, end int64) Inventory {
		inv.HasTail, inv.Tails = true, []Tail{{Partition: 0, Start: start, End: end}}
		return inv
	}
	change := func(s Segment, f func(*Segment)) Segment { f(&s); return s }
	for _, c := range []struct {
		name     string
		inv      Inventory
		window   *spec.Window
		lateness int64
		opts     Options
		want     string // the partitions' reading, or what the error says
	}{
		{
			name: "one day of three", inv: log(dense(0, 0, nov4)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "0: read 1400-3000, partition=0/t+0+000000 keep 1400-3000",
		},
		{
			name: "no lateness", inv: log(dense(0, 0, nov4)), window: london("2011-11-02", "2011-11-03"),
			want: "0: read 1400-2900, partition=0/t+0+000000 keep 1400-2900",
		},
		{
			name: "segments that overlap are clipped", inv: log(dense(0, 0, 2000), dense(0, 1500, 2500), dense(0, 2300, nov4)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "0: read 1400-3000, partition=0/t+0+000000 keep 1400-2000, partition=0/t+0+001500 keep 2000-2500, partition=0/t+0+002300 keep 2500-3000",
		},
		{
			name: "a copy is left out", inv: log(dense(0, 0, nov4), change(dense(0, 0, nov4), func(s *Segment) { s.Key = "copy" })), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "0: read 1400-3000, copy keep 1400-3000",
		},
		{
			name: "a shorter object was written over a longer one", inv: log(dense(0, 0, 2000), dense(0, 2010, nov4)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "partition 0: no record with the offsets 2000-2010, between the segments partition=0/t+0+000000 and partition=0/t+0+002010\n" +
				"bring back the missing segments; or, if these offsets hold nothing that matters (transaction markers, compacted records), accept them by name: 0:2000-2010",
		},
		{
			name:   "a whole segment proves that what it does not have is no gap",
			inv:    log(dense(0, 0, 1000), whole(dense(0, 1000, 2000), 1000, 2010, Range{1500, 1504}), whole(dense(0, 2015, nov4), 2010, nov4)),
			window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "0: read 1400-3015, partition=0/t+0+001000 keep 1400-1500,1504-2000, partition=0/t+0+002015 keep 2015-3015, empty 1500-1504,2000-2015",
		},
		{
			name: "what two whole segments do not reach is a gap", inv: log(whole(dense(0, 0, 2000), 0, 2010), whole(dense(0, 2015, nov4), 2012, nov4)),
			window: london("2011-11-02", "2011-11-03"), lateness: hour, want: "no record with the offsets 2010-2012",
		},
		{
			name: "a record that another segment has is read though a whole one has it not", inv: log(whole(dense(0, 0, nov4), 0, nov4, Range{1500, 1510}), dense(0, 1505, 1506)),
			window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "0: read 1400-3000, partition=0/t+0+000000 keep 1400-1500,1510-3000, partition=0/t+0+001505 all, empty 1500-1505,1506-1510",
		},
		{
			name: "the log goes on where a whole segment ends", inv: tailed(log(whole(dense(0, 0, 2000), 0, 2010)), 2010, 2100), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "0: read 1400-2100, partition=0/t+0+000000 keep 1400-2000, tail 2010-2100, empty 2000-2010",
		},
		{
			name: "the brokers' log is deleted past the end of a whole segment", inv: tailed(log(whole(dense(0, 0, 2000), 0, 2010)), 2012, 2100), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "the brokers begin at 2012",
		},
		{
			name: "a whole segment without a record", inv: tailed(log(Segment{Key: "none", Partition: 0, First: 0, Next: 7, Whole: true}), 7, 20), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "0: read 7-20, tail 7-20",
		},
		{
			name: "of the whole log", inv: tailed(log(Segment{Key: "none", Partition: 0, First: 0, Next: 7, Whole: true}, whole(dense(0, 7, 20), 7, 30)), 28, 40),
			want: "0: read 0-40, partition=0/t+0+000007 all, tail 30-40, empty 0-7,20-30",
		},
		{
			name: "a segment of a topic that was recreated since", want: "segment partition=0/t+0+000000 was copied of a topic t with the id old, but the brokers have one with the id new",
			inv: func() Inventory {
				inv := tailed(log(change(dense(0, 0, 2000), func(s *Segment) { s.TopicID = "old" })), 2000, 2100)
				inv.TopicID = "new"
				return inv
			}(),
			window: london("2011-11-02", "2011-11-03"),
		},
		{
			name: "a gap accepted by name", inv: log(dense(0, 0, 2000), dense(0, 2010, nov4)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			opts: Options{AcceptGaps: []Gap{{Offsets: Range{2000, 2004}}, {Offsets: Range{2004, 2010}}}},
			want: "0: read 1400-3010, partition=0/t+0+000000 keep 1400-2000, partition=0/t+0+002010 keep 2010-3010, absent 2000-2010",
		},
		{
			name: "a gap accepted with more than it", inv: log(dense(0, 0, 2000), dense(0, 2010, nov4)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			opts: Options{AcceptGaps: []Gap{{Offsets: Range{1990, 2010}}}}, want: "accepted as gaps, but no gaps that the plan finds: 0:1990-2010; it finds: 0:2000-2010",
		},
		{
			name: "a gap and another accepted", inv: log(dense(0, 0, 2000), dense(0, 2010, nov4)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			opts: Options{AcceptGaps: []Gap{{Offsets: Range{2000, 2010}}, {Partition: 1, Offsets: Range{2000, 2010}}}}, want: "no gaps that the plan finds: 1:2000-2010; it finds: 0:2000-2010",
		},
		{
			name: "a gap accepted where there is none", inv: log(dense(0, 0, nov4)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			opts: Options{AcceptGaps: []Gap{{Offsets: Range{2000, 2010}}}}, want: "no gaps that the plan finds: 0:2000-2010; it finds none",
		},
		{
			name: "gaps accepted by an open end", inv: log(dense(0, 0, 2000), dense(0, 2010, 2100), dense(0, 2110, nov4)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			opts: Options{AcceptGaps: []Gap{{Offsets: Range{1990, openEnd}}}}, want: "absent 2000-2010,2100-2110",
		},
		{
			name: "an open end past all gaps", inv: log(dense(0, 0, 2000), dense(0, 2010, nov4)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			opts: Options{AcceptGaps: []Gap{{Offsets: Range{2005, openEnd}}}}, want: "no gaps that the plan finds: 0:2005-; it finds: 0:2000-2010",
		},
		{
			name: "two gaps", inv: log(dense(0, 0, 2000), dense(0, 2010, 2100), dense(0, 2110, nov4)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "accept them by name: 0:2000-2010, 0:2100-2110",
		},
		{
			name: "a gap accepted in part", inv: log(dense(0, 0, 2000), dense(0, 2010, nov4)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			opts: Options{AcceptGaps: []Gap{{Offsets: Range{2000, 2009}}}}, want: "no record with the offsets 2000-2010",
		},
		{
			name: "a gap before the read range", inv: log(dense(0, 0, 500), dense(0, 600, nov4)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "0: read 1400-3000, partition=0/t+0+000600 keep 1400-3000",
		},
		{
			name: "a gap past the read range", inv: log(dense(0, 0, 3500), dense(0, 3600, nov4)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "0: read 1400-3000, partition=0/t+0+000000 keep 1400-3000",
		},
		{
			name: "the window made empty by a missing segment", inv: log(dense(0, 0, 1000), dense(0, 3500, nov4)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "no record with the offsets 1000-3500",
		},
		{
			name: "a gap that begins in the read range", inv: log(dense(0, 0, 2500), dense(0, 3500, nov4)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "no record with the offsets 2500-3500",
		},
		{
			name: "the brokers fill a gap", inv: tailed(log(dense(0, 0, 2000), dense(0, 2010, nov4)), 100, nov4), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "0: read 1400-3010, partition=0/t+0+000000 keep 1400-2000, partition=0/t+0+002010 keep 2010-3010, tail 2000-2010",
		},
		{name: "a quiet time is no gap", inv: log(dense(0, 0, 1000), change(dense(0, 1000, 1100), func(s *Segment) {
			s.RowGroups[0].RecordTime, s.RowGroups[0].EventTime = &Span{nov1 + 9*day, nov1 + 9*day}, &Span{nov1 + 9*day, nov1 + 9*day}
		})), window: london("2011-11-03", "2011-11-04"), lateness: hour, want: "0: read "},
		{
			name: "history deleted", inv: log(dense(0, 1500, nov4)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "partition 0: history begins at offset 1500, record time 2011-11-02T01:00:00Z (segment partition=0/t+0+001500): the offsets 0-1500 before it are deleted or were never exported",
		},
		{
			name: "history deleted long before", inv: log(dense(0, 1000, nov4)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "0: read 1400-3000, partition=0/t+0+001000 keep 1400-3000",
		},
		{name: "the whole log of deleted history", inv: log(dense(0, 1000, nov4)), want: "history begins at offset 1000"},
		{name: "the whole log", inv: log(dense(0, 0, nov4)), want: "0: read 0-4320, partition=0/t+0+000000 all"},
		{
			name: "the tail is needed", inv: tailed(log(dense(0, 0, 2950)), 2000, 3100), window: london("2011-11-02", "2011-11-03"), lateness: 2 * hour,
			want: "0: read 1400-3100, partition=0/t+0+000000 keep 1400-2950, tail 2950-3100",
		},
		{
			name: "the tail is needed, as the last row group is not wholly past", inv: tailed(log(dense(0, 0, 3000)), 2000, 3100), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "0: read 1400-3100, partition=0/t+0+000000 keep 1400-3000, tail 3000-3100",
		},
		{
			name: "the tail is not needed", inv: tailed(log(dense(0, 0, 3200)), 2000, 3300), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "0: read 1400-3000, partition=0/t+0+000000 keep 1400-3000",
		},
		{
			name: "a window within the tail", inv: tailed(log(dense(0, 0, 1000)), 500, nov4), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "0: read 1000-4320, tail 1000-4320",
		},
		{name: "a window past an empty tail", inv: tailed(log(dense(0, 0, 1000)), 500, 1000), window: london("2011-11-02", "2011-11-03"), lateness: hour, want: "0: read "},
		{
			name: "the brokers begin past the segments", inv: tailed(log(dense(0, 0, 2000)), 2100, nov4), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "partition 0: the segments end at offset 2000 (partition=0/t+0+000000), and the brokers begin at 2100",
		},
		{name: "only brokers", inv: tailed(log(), 0, nov4), window: london("2011-11-02", "2011-11-03"), want: "0: read 0-4320, tail 0-4320"},
		{
			name: "only brokers, which have deleted", inv: tailed(log(), 7, nov4), window: london("2011-11-02", "2011-11-03"),
			want: "partition 0: no segment of it was found, and the brokers begin at offset 7",
		},
		{
			name: "the topic was recreated", inv: tailed(log(dense(0, 0, 2000)), 0, 300), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "partition 0: the brokers' log ends at offset 300, but segments go to 2000: the topic was recreated or truncated",
		},
		{
			name: "the topic was recreated with fewer partitions", inv: tailed(log(dense(0, 0, 2000), dense(1, 0, 2000)), 0, 2000), window: london("2011-11-02", "2011-11-03"),
			want: "the brokers have no partition 1",
		},
		{
			name: "a partition's folder is missing", inv: log(dense(0, 0, nov4), dense(2, 0, nov4)), window: london("2011-11-02", "2011-11-03"),
			want: "partition 1: no segment of it was found, though there are segments of higher partitions\n" +
				"bring back the missing segments; or, if these offsets hold nothing that matters (transaction markers, compacted records), accept them by name: 1:0-",
		},
		{
			name: "a partition that never had a record", inv: log(dense(0, 0, 100), dense(2, 0, 100)), window: london("2011-11-02", "2011-11-03"),
			opts: Options{AcceptGaps: []Gap{{Partition: 1, Offsets: Range{0, openEnd}}}}, want: "0: read \n2: read ",
		},
		{
			name: "an empty file", inv: log(dense(0, 0, nov4), Segment{Key: "empty", Partition: 0, First: 50, Next: 50}), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "0: read 1400-3000, partition=0/t+0+000000 keep 1400-3000",
		},
		{name: "nothing at all", inv: log(), window: london("2011-11-02", "2011-11-03"), want: "no segments of topic t were found in in: are topic and location right?"},
		{name: "one segment listed twice", inv: log(dense(0, 0, 9), dense(0, 0, 9)), want: "segment partition=0/t+0+000000 is listed twice"},
		{
			name: "lateness declared too small", inv: log(dense(0, 0, 2000), change(dense(0, 2000, nov4), func(s *Segment) { s.RowGroups[20].EventTime.Min = nov1 + 1500*minute })),
			window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "segments outside the read range hold events of the window:\n" +
				"  segment partition=0/t+0+002000, row group 20 (partition 0, offsets 4000-4100): record times from 2011-11-03T18:40:00Z to 2011-11-03T20:19:00Z, " +
				"event times from 2011-11-02T01:00:00Z to 2011-11-03T20:18:59Z\n" +
				"lateness: 1h is too small; source.event.lateness: 2d would do",
		},
		{
			name: "lateness shown elsewhere counts for the tail", inv: tailed(log(dense(0, 0, 3500), change(dense(0, 3500, 3600), func(s *Segment) { s.RowGroups[0].EventTime.Min -= 34 * hour })), 3500, 5000),
			window: london("2011-11-01", "2011-11-02"), lateness: hour, want: "0: read 0-1500,3600-5000, partition=0/t+0+000000 keep 0-1500, tail 3600-5000",
		},
		{
			name: "ahead declared too small", inv: log(change(dense(0, 0, nov4), func(s *Segment) { s.RowGroups[3].EventTime.Max = nov1 + 1500*minute })),
			window: london("2011-11-02", "2011-11-03"), lateness: hour, want: "ahead: 0s is too small; source.event.ahead: 20h1m would do",
		},
		{
			name: "a zero timestamp past the read range", inv: log(dense(0, 0, 2000), change(dense(0, 2000, nov4), func(s *Segment) { s.RowGroups[20].EventTime.Min = 0 })),
			window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "0: read 1400-3000,4000-4100, partition=0/t+0+000000 keep 1400-2000, partition=0/t+0+002000 keep 2000-3000,4000-4100",
		},
		{
			name: "a far future event before the read range", inv: log(change(dense(0, 0, nov4), func(s *Segment) { s.RowGroups[3].EventTime.Max = nov1 + 40_000*day })),
			window: london("2011-11-02", "2011-11-03"), lateness: hour, want: "0: read 300-400,1400-3000",
		},
		{name: "record times unknown", inv: log(change(dense(0, 0, nov4), func(s *Segment) {
			for i := range s.RowGroups {
				s.RowGroups[i].RecordTime = nil
			}
		})), window: london("2011-11-02", "2011-11-03"), lateness: hour, want: "0: read 0-4320, partition=0/t+0+000000 all"},
		{name: "no pruning", inv: log(dense(0, 0, nov4)), window: london("2011-11-02", "2011-11-03"), opts: Options{NoPrune: true}, want: "0: read 0-4320, partition=0/t+0+000000 all"},
		{name: "a window that cuts a day", inv: log(dense(0, 0, nov4)), window: &spec.Window{From: nov1, To: nov1 + hour}, want: "cuts a partition by day of t in Europe/London"},
		{name: "a window after the as-of time", inv: log(dense(0, 0, nov4)), window: london("2011-11-30", "2011-12-02"), want: "ends after 2011-12-01T00:00:00Z"},
		{
			name: "an exact segment before a derived one, which reaches further", inv: log(change(dense(0, 0, nov4), derive), dense(0, 1500, 2000)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "0: read 1400-3000, partition=0/t+0+000000 keep 1400-1500,2000-3000, partition=0/t+0+001500 all",
		},
		{
			name: "offsets that cannot be told are filled by the brokers", inv: tailed(log(dense(0, 0, 2000), change(dense(0, 2000, 2100), unknown), dense(0, 2100, nov4)), 100, nov4), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "0: read 1400-3000, partition=0/t+0+000000 keep 1400-2000, partition=0/t+0+002100 keep 2100-3000, tail 2000-2100",
		},
		{
			name: "offsets that cannot be told, and nobody else has", inv: log(dense(0, 0, 2000), change(dense(0, 2000, 2100), unknown), dense(0, 2100, nov4)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "partition 0: no record with the offsets 2000-2100, between the segments partition=0/t+0+000000 and partition=0/t+0+002100; segment partition=0/t+0+002000 cannot be used: it lost rows",
		},
		{
			name: "offsets that cannot be told, and an exact copy", inv: log(dense(0, 0, nov4), change(dense(0, 2000, 2100), unknown)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "0: read 1400-3000, partition=0/t+0+000000 keep 1400-3000",
		},
		{
			name: "a last segment that cannot be told, past the read range", inv: log(dense(0, 0, 3500), change(dense(0, 3500, nov4), unknown)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "0: read 1400-3000, partition=0/t+0+000000 keep 1400-3000",
		},
		{
			name: "a last segment that cannot be told, in the read range", inv: log(dense(0, 0, 2500), change(dense(0, 2500, 2600), unknown)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "no record with the offsets 2500-2600, past the last segment that can be used, partition=0/t+0+000000; segment partition=0/t+0+002500 cannot be used: it lost rows",
		},
		{
			name: "a last segment without an end, accepted", inv: log(dense(0, 0, 2500), change(dense(0, 2500, openEnd), unknown)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			opts: Options{AcceptGaps: []Gap{{Offsets: Range{2500, openEnd}}}}, want: "0: read 1400-2500, partition=0/t+0+000000 keep 1400-2500",
		},
		{
			name: "nothing but what cannot be told", inv: log(change(dense(0, 0, 2500), unknown)), window: london("2011-11-02", "2011-11-03"), lateness: hour,
			want: "partition 0: no record with the offsets from 0 on can be told; segment partition=0/t+0+000000 cannot be used: it lost rows",
		},
		{name: "derived offsets with holes", inv: log(change(dense(0, 0, 100), func(s *Segment) { derive(s); s.Offsets = Ranges{{0, 99}} })), want: "its offsets are derived, and those of single rows are stated"},
		{name: "rows that do not add up", inv: log(change(dense(0, 0, 100), func(s *Segment) { s.Rows = 99 })), want: "99 rows for the 100 offsets 0-100, and which of them is not known"},
		{name: "an offset repeated in a segment", inv: log(change(dense(0, 0, 100), func(s *Segment) { s.Rows, s.Offsets = 101, Ranges{{0, 100}} })), want: "101 rows have 100 distinct offsets"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testSpec(c.lateness, 0, c.inv.HasTail, daily)
			p, err := Build(s, c.window, c.inv, c.opts)
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = render(p)
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// render writes a plan's partitions, a line each.
func render(p *Plan) string {
	var lines []string
	for _, part := range p.Partitions {
		line := fmt.Sprintf("%d: read %s", part.Partition, part.Read)
		for _, use := range part.Segments {
			keep := "all"
			if use.Keep != nil {
				keep = "keep " + use.Keep.String()
			}
			line += fmt.Sprintf(", %s %s", use.Key, keep)
		}
		if part.Tail != nil {
			line += ", tail " + part.Tail.String()
		}
		if part.Absent != nil {
			line += ", absent " + part.Absent.String()
		}
		if len(part.Empty) > 0 {
			line += ", empty " + part.Empty.String()
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestWholeLogNeedsEventTimesForTablesByTime(t *testing.T) {
	seg := dense(0, 0, 200)
	seg.RowGroups[1].EventTime = nil
	inv := Inventory{Topic: "t", Segments: []Segment{seg}}
	buckets := partition.Scheme{Buckets: 4}
	if _, err := Build(testSpec(0, 0, false, buckets, daily), nil, inv, Options{}); err == nil || !strings.Contains(err.Error(), "segment partition=0/t+0+000000, row group 1: its footer does not tell") {
		t.Error(err)
	}
	if _, err := Build(testSpec(0, 0, false, buckets), nil, inv, Options{}); err != nil {
		t.Error(err)
	}
	if _, err := Build(testSpec(0, 0, false, buckets), london("2011-11-01", "2011-11-02"), inv, Options{}); err == nil || !strings.Contains(err.Error(), "give no window") {
		t.Error(err)
	}
}

func TestStrayTimesDoNotMakeMillionsOfHours(t *testing.T) {
	seg := dense(0, 0, 200)
	seg.RowGroups[1].EventTime.Max = mustInstant("9000-01-01T00:00:00Z")
	s := testSpec(0, 0, false, partition.Scheme{Buckets: 4}, partition.Scheme{Unit: partition.Hour, Column: "t", Zone: "UTC"})
	inv := Inventory{Topic: "t", Segments: []Segment{seg}}
	if _, err := Build(s, nil, inv, Options{}); err == nil || !strings.Contains(err.Error(), "the last in partition=0/t+0+000000, offsets 100-200") {
		t.Error(err)
	}
	// An instant of no calendar that labels have.
	seg.RowGroups[0].EventTime.Min = mustInstant("0001-01-01T00:00:00Z")
	s.Outputs[1].Scheme.Unit = partition.Month
	if _, err := Build(s, nil, inv, Options{}); err == nil || !strings.Contains(err.Error(), "the first event is in segment partition=0/t+0+000000, offsets 0-100") {
		t.Error(err)
	}
}

// What is written to a run's folder stays readable, and changes only on purpose.
func TestGoldenPlan(t *testing.T) {
	late := dense(0, 1400, 1600)
	late.RowGroups[0].EventTime, late.RowGroups[1].Timed = nil, false
	inv := Inventory{
		Topic: "t", TopicID: "AAAA", HasTail: true, Tails: []Tail{{Partition: 1, Start: 900, End: 1700}, {Partition: 0, Start: 1500, End: 1800}}, AsOf: mustInstant("2011-11-20T00:00:00Z"), Ignored: 2,
		Segments: []Segment{late, dense(1, 0, 1000), dense(0, 0, 1450)},
	}
	s := testSpec(2*hour, hour, true, daily)
	p, err := Build(s, london("2011-11-02", "2011-11-04"), inv, Options{ShardRows: 500, Code: "sha256:c0de"})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "plan.json", p)
	sum, err := p.Summary()
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "summary.json", sum)
	a, b := dense(0, 1600, 1800), dense(1, 1000, 1700)
	a.Captured, b.Captured = true, true
	shards, skipped, err := Shards(p, []Segment{b, a})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "shards.json", map[string]any{"shards": shards, "skipped": skipped})

	for name, captured := range map[string][]Segment{
		"is not complete":               {a},
		"is no part of the plan's tail": {a, b, dense(1, 1700, 1800)},
		"was not captured by the run":   {a, dense(1, 1000, 1700)},
	} {
		if _, _, err := Shards(p, captured); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// encoded is a plan as a run stores it.
func encoded(p *Plan) string {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // plain data
	}
	return string(b)
}

func compare(t *testing.T, name string, v any) {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, '\n')
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(b, want) {
		t.Errorf("%s differs (go test -update writes it anew):\n%s", path, b)
	}
}

// What a run depends on is a part of the plan, of whose JSON the run takes its digest.
func TestPlansTellWhatARunDependsOn(t *testing.T) {
	build := func(f func(*spec.Spec, *Inventory, *Options)) string {
		s, inv, opts := testSpec(hour, 0, false, daily), Inventory{Topic: "t", Segments: []Segment{dense(0, 0, nov4)}}, Options{Code: "c"}
		f(s, &inv, &opts)
		p, err := Build(s, london("2011-11-02", "2011-11-03"), inv, opts)
		if err != nil {
			t.Fatal(err)
		}
		return encoded(p)
	}
	base := build(func(*spec.Spec, *Inventory, *Options) {})
	for name, f := range map[string]func(*spec.Spec, *Inventory, *Options){
		"a check":  func(s *spec.Spec, _ *Inventory, _ *Options) { s.Checks.DeadLetters = 1 },
		"the code": func(_ *spec.Spec, _ *Inventory, o *Options) { o.Code = "d" },
		"an ETag":  func(_ *spec.Spec, i *Inventory, _ *Options) { i.Segments[0].ETag = "other" },
		"the end": func(_ *spec.Spec, i *Inventory, _ *Options) {
			i.HasTail, i.Tails = true, []Tail{{Partition: 0, Start: 0, End: nov4}}
		},
	} {
		if build(f) == base {
			t.Errorf("%s changes, and the plan does not", name)
		}
	}
	if base != build(func(*spec.Spec, *Inventory, *Options) {}) {
		t.Error("the plan is not stable")
	}
}

func TestParseGap(t *testing.T) {
	for s, want := range map[string]Gap{"2:12-40": {Partition: 2, Offsets: Range{12, 40}}, "0:0-": {Offsets: Range{0, openEnd}}} {
		if g, err := ParseGap(s); err != nil || g != want || g.String() != s {
			t.Errorf("%s: %+v, %v", s, g, err)
		}
	}
	for _, s := range []string{"", "2", "2:", "2:1", "2:5-5", "-1:0-5", "2:-5", "a:0-5", "2:0-5-6", "2:+1-5", "9999999999:0-5"} {
		if g, err := ParseGap(s); err == nil {
			t.Errorf("%q is %+v", s, g)
		}
	}
}

// TestStrayTimesOfWholeLogs: a run over the whole log is not cut into partitions up to a stray time, and says where that is.
func TestStrayTimesOfWholeLogs(t *testing.T) {
	for _, c := range []struct {
		unit partition.Unit
		last string
		want string
	}{
		{partition.Month, "2211-08-01T00:00:00Z", ""},
		{partition.Month, "2211-12-01T00:00:00Z", "more than 2400 partitions by month"},
		{partition.Month, "9999-12-29T00:00:00Z", "more than 2400 partitions by month"},
		{partition.Day, "2039-03-01T00:00:00Z", ""},
		{partition.Day, "2039-04-01T00:00:00Z", "more than 10000 partitions by day"},
		{partition.Hour, "2017-08-01T00:00:00Z", "more than 50000 partitions by hour"},
	} {
		s := testSpec(0, 0, false, partition.Scheme{Unit: c.unit, Column: "at", Zone: "UTC"}, partition.Scheme{Buckets: 2})
		stray := dense(0, 1000, 1100)
		stray.RowGroups[0].EventTime.Max = mustInstant(c.last)
		_, err := Build(s, nil, Inventory{Topic: "t", Segments: []Segment{dense(0, 0, 1000), stray}}, Options{})
		if c.want == "" && err != nil {
			t.Errorf("%s by %s: %v", c.last, c.unit, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "the last in partition=0/t+0+001000, offsets 1000-1100")) {
			t.Errorf("%s by %s: %v", c.last, c.unit, err)
		}
	}
}

// TestSummaryCountsPartitionsThatAreKnown: the tail of a whole log adds partitions, but how many nobody knows before it is read.
func TestSummaryCountsPartitionsThatAreKnown(t *testing.T) {
	inv := Inventory{Topic: "t", Segments: []Segment{dense(0, 0, nov4)}, HasTail: true, Tails: []Tail{{Partition: 0, Start: 100, End: nov4 + 50}}, AsOf: mustInstant("2026-11-29T00:00:00Z")}
	s := testSpec(0, 0, true, partition.Scheme{Unit: partition.Day, Column: "t", Zone: "UTC"}, partition.Scheme{Buckets: 16})
	p, err := Build(s, nil, inv, Options{})
	if err != nil {
		t.Fatal(err)
	}
	sum, err := p.Summary()
	if err != nil || sum.Slots != 4+16 || !sum.SlotsMayGrow { // from a second before November to its third
		t.Errorf("%d partitions, may grow: %v; %v", sum.Slots, sum.SlotsMayGrow, err)
	}
	inv.Tails[0].End = nov4
	if p, err = Build(s, nil, inv, Options{}); err != nil {
		t.Fatal(err)
	}
	if sum, err = p.Summary(); err != nil || sum.Slots != 4+16 || sum.SlotsMayGrow {
		t.Errorf("%d partitions, may grow: %v; %v", sum.Slots, sum.SlotsMayGrow, err)
	}
}
