package preflight

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"hindcast/internal/plan"
	"hindcast/internal/spec"
)

const (
	hour = int64(spec.Hour)
	day  = int64(spec.Day)
)

func instant(s string) int64 {
	t, err := spec.ParseInstant(s)
	if err != nil {
		panic(err)
	}
	return t
}

var now = instant("2024-05-20T12:00:00Z")

// segment holds offsets of a partition, of records of a day.
func segment(p int32, first, next int64, at string) plan.Segment {
	from := instant(at + "T00:00:00Z")
	return plan.Segment{
		Key: "s", Partition: p, First: first, Next: next, Rows: next - first,
		RowGroups: []plan.RowGroup{{Rows: next - first, First: first, Next: next, RecordTime: &plan.Span{Min: from, Max: from + day - 1}}},
	}
}

// healthy is a job of which all is well: two partitions, exported up to offset 100, and 20 records behind that on the brokers.
func healthy() Input {
	in := Input{
		Now: now,
		Plan: &plan.Plan{
			Window: &spec.Window{From: instant("2024-05-18T00:00:00Z"), To: instant("2024-05-20T00:00:00Z")},
			Spec:   &spec.Spec{Source: spec.Source{Topic: "t", Event: spec.Event{Lateness: spec.Hour}}},
		},
		Inventory: plan.Inventory{Topic: "t", HasTail: true},
		Facts: Facts{
			Asked: true,
			Config: map[string]string{
				"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1", "message.timestamp.type": "CreateTime",
			},
		},
		Rows: 240,
	}
	for p := range int32(2) {
		early, late := segment(p, 0, 50, "2024-05-10"), segment(p, 50, 100, "2024-05-18")
		in.Inventory.Segments = append(in.Inventory.Segments, early, late)
		in.Plan.Partitions = append(in.Plan.Partitions, plan.Partition{
			Partition: p, Read: plan.Ranges{{First: 50, Next: 120}}, Segments: []plan.Use{{Segment: late}}, Tail: plan.Ranges{{First: 100, Next: 120}},
		})
		in.Facts.Partitions = append(in.Facts.Partitions, PartitionFacts{
			Start: 60, Stable: 125, First: &Stamp{60, instant("2024-05-18T06:00:00Z")}, Latest: &Stamp{124, now - hour},
			Searched: plan.Ranges{{First: 100, Next: 101}},
		})
	}
	return in
}

func find(t *testing.T, in Input, r Rule) Finding {
	t.Helper()
	all := Check(in)
	i := slices.IndexFunc(all, func(f Finding) bool { return f.Rule == r })
	if i < 0 {
		t.Fatalf("no finding %s in %+v", r, all)
	}
	return all[i]
}

func TestAHealthyLogIsAllOK(t *testing.T) {
	for _, f := range Check(healthy()) {
		if f.State != OK || f.Text == "" {
			t.Errorf("%+v", f)
		}
	}
}

// withoutTail makes a job one that reads exported segments only.
func withoutTail(in *Input) {
	in.Facts = Facts{}
	in.Inventory.HasTail = false
	for p := range in.Plan.Partitions {
		in.Plan.Partitions[p].Tail = nil
	}
}

// noCapture makes a plan read nothing but segments, though there is a tail.
func noCapture(in *Input) {
	for p := range in.Plan.Partitions {
		in.Plan.Partitions[p].Tail = nil
	}
}

func denied(q Question) func(*Input) {
	return func(in *Input) {
		in.Facts.NotKnown = map[Question]string{q: "the brokers do not allow to ask"}
		if q == AskConfig {
			in.Facts.Config = nil
		}
	}
}

func config(pairs ...string) func(*Input) {
	return func(in *Input) {
		for i := 0; i < len(pairs); i += 2 {
			in.Facts.Config[pairs[i]] = pairs[i+1]
		}
	}
}

func TestRules(t *testing.T) {
	part := func(p int, f func(*plan.Partition, *PartitionFacts)) func(*Input) {
		return func(in *Input) { f(&in.Plan.Partitions[p], &in.Facts.Partitions[p]) }
	}
	for _, c := range []struct {
		name   string
		rule   Rule
		change func(*Input)
		state  State
		says   string // part of the text
		do     string // part of the fix
		final  bool
	}{
		{name: "compacted", rule: Compacted, change: config("cleanup.policy", "compact"), state: Refuse, says: "topic t is compacted (cleanup.policy=compact)", do: "--accept compacted"},
		{name: "compacted and deleted", rule: Compacted, change: config("cleanup.policy", "compact,delete"), state: Refuse, says: "cleanup.policy=compact,delete"},
		{
			name: "compacted, but exported without a hole", rule: Compacted, state: Warn, says: "the run reads none of it",
			change: func(in *Input) { config("cleanup.policy", "compact")(in); noCapture(in) },
		},
		{
			name: "compacted, with an accepted gap", rule: Compacted, state: Refuse, says: "earlier records of the window may be gone",
			change: func(in *Input) {
				config("cleanup.policy", "compact")(in)
				noCapture(in)
				in.Plan.AcceptedGaps = []plan.Gap{{Offsets: plan.Range{First: 60, Next: 61}}}
			},
		},
		{name: "compacted: not allowed to ask", rule: Compacted, change: denied(AskConfig), state: Unknown, says: "the brokers do not allow to ask", do: "allow DescribeConfigs"},
		{name: "compacted: no tail", rule: Compacted, change: withoutTail, state: Unknown, says: "the job has no tail", do: "declare source.tail"},

		{
			name: "deleted while planned", rule: Deleted, change: part(1, func(_ *plan.Partition, f *PartitionFacts) { f.Start = 110 }), state: Refuse, final: true,
			says: "partition 1: the offsets 100-110, which the log now starts behind, at 110", do: "plan again",
		},
		{
			name: "deleted: gaps accepted", rule: Deleted, state: Warn, says: "5 offsets of the read range are missing, and accepted as gaps",
			change: func(in *Input) {
				in.Plan.Partitions[0].Absent = plan.Ranges{{First: 60, Next: 65}}
				in.Plan.AcceptedGaps = []plan.Gap{{Offsets: plan.Range{First: 60, Next: 65}}}
			},
		},
		{name: "deleted: no answer", rule: Deleted, change: denied(AskOffsets), state: Unknown, says: "is not known"},
		{name: "deleted: no tail", rule: Deleted, change: withoutTail, state: OK},

		{name: "retention: kept for ever", rule: Retention, change: config("retention.ms", "-1"), state: OK, says: "kept for ever"},
		{name: "retention: only compacted", rule: Retention, change: config("cleanup.policy", "compact"), state: OK, says: "no retention"},
		{
			name: "retention has passed", rule: Retention, change: config("retention.ms", "86400000"), state: Refuse,
			says: "retention.ms=86400000 (1d) has passed what is to be read: partition 0, offset 100", do: "--accept retention",
		},
		{ // the last exported record is of the 18th, at midnight; 36.00028 hours later it is now and a second
			name: "retention passes before the run has ended", rule: Retention, change: func(in *Input) { config("retention.ms", "129601000")(in); in.Rows = 50_000_000 }, state: Refuse,
			says: "the run will take about 1m40s", do: "hindcast archive",
		},
		{name: "retention passes soon", rule: Retention, change: config("retention.ms", "172800000"), state: Warn, says: "at 2024-05-20T23:59:59Z"},
		{
			name: "retention of bytes is near", rule: Retention, state: Refuse, says: "retention.bytes=3000",
			change: func(in *Input) {
				config("retention.bytes", "3000")(in)
				in.Facts.Partitions[0].Bytes = 12_000 // of 60 offsets; 20 are to be read
				in.Facts.Partitions[1].Bytes = 60
			},
		},
		{
			name: "retention of bytes is far", rule: Retention, state: OK,
			change: func(in *Input) {
				config("retention.bytes", "1000000")(in)
				in.Facts.Partitions[0].Bytes, in.Facts.Partitions[1].Bytes = 12_000, 12_000
			},
		},
		{name: "retention of bytes, and no size", rule: Retention, change: config("retention.bytes", "3000"), state: Unknown, says: "the size of its log is not known"},
		{
			name: "retention, and no time", rule: Retention, state: Unknown, says: "the record time of what is read first is not known",
			change: func(in *Input) { in.Inventory.Segments, in.Facts.Partitions[0].First = nil, nil },
		},
		{
			name: "retention goes by the first record of the log where nothing is exported", rule: Retention, state: Refuse, says: "partition 0, offset 100",
			change: func(in *Input) {
				in.Inventory.Segments = nil
				in.Facts.Partitions[0].First.Time = now - 8*day
			},
		},
		{ // a partition that is seldom written to: what was exported last is old, and what follows is not
			name: "retention goes by the record itself where the brokers gave it", rule: Retention, state: OK,
			change: func(in *Input) {
				config("retention.ms", "172800000")(in)
				for p := range in.Facts.Partitions {
					in.Facts.Partitions[p].Needed = &Stamp{100, now - hour}
				}
			},
		},
		{name: "retention: not allowed to ask", rule: Retention, change: denied(AskConfig), state: Unknown},
		{name: "retention: nothing to capture", rule: Retention, change: noCapture, state: OK, says: "nothing is read from the brokers"},
		{
			name: "retention of tiered storage on the brokers' disks", rule: Retention, change: config("remote.storage.enable", "true", "local.retention.ms", "3600000", "local.retention.bytes", "-2"),
			state: Warn, says: "local.retention.ms=3600000 (1h) has moved partition 0, offset 100, to tiered storage", do: "source.segments.tiered",
		},
		{name: "retention of tiered storage that keeps all of it near", rule: Retention, change: config("remote.storage.enable", "true", "local.retention.ms", "-2"), state: OK},

		{ // its segment has records up to the 14th, noon
			name: "retention has passed a tiered segment that is read", rule: Retention, change: func(in *Input) { tiered(in); config("retention.ms", "518400000")(in) }, state: Refuse,
			says: "retention.ms=518400000 (6d) has passed what is to be read: partition 1, offset 80",
		},
		{
			name: "retention of tiered segments is far", rule: Retention, change: func(in *Input) { tiered(in); config("retention.ms", "-1", "remote.storage.enable", "true")(in) }, state: OK,
		},
		{
			name: "retention of tiered segments, and no time", rule: Retention, state: Unknown, says: "partition 1: the record time of what is read first is not known",
			change: func(in *Input) { tiered(in); in.Inventory.Stored[0].Segments[0].Latest = nil },
		},
		{ // which brokers no longer have, and the store has
			name: "tiered segments behind the brokers' log", rule: Deleted, change: tiered, state: OK,
		},
		{
			name: "a compacted topic of tiered segments", rule: Compacted, state: Refuse,
			change: func(in *Input) { noCapture(in); tiered(in); config("cleanup.policy", "compact")(in) },
		},

		{
			name: "a transaction is open before the end", rule: Transactions, state: Refuse, final: true, do: "kafka-transactions.sh",
			says: "partition 0: open at offset 110, before the end 120 (producer 7 since offset 110, transactional id tx, timeout 1m)",
			change: part(0, func(_ *plan.Partition, f *PartitionFacts) {
				f.Stable, f.Open = 110, []OpenTransaction{{Producer: 7, Since: 110, ID: "tx", Timeout: 60_000}}
			}),
		},
		{
			name: "a transaction is open behind the end", rule: Transactions, state: OK, says: "1 that are open lie behind them",
			change: part(0, func(_ *plan.Partition, f *PartitionFacts) { f.Open = []OpenTransaction{{Producer: 7, Since: 121}} }),
		},
		{name: "transactions, whose producers may not be asked for", rule: Transactions, change: denied(AskProducers), state: OK},
		{name: "transactions: no answer", rule: Transactions, change: denied(AskOffsets), state: Unknown},

		{
			name: "an exported record was aborted", rule: Uncommitted, state: Refuse, do: "isolation.level=read_committed",
			says: "partition 1 has offset 97, with which an aborted transaction begins", change: part(1, func(_ *plan.Partition, f *PartitionFacts) { f.Aborted = []int64{97} }),
		},
		{
			name: "an aborted record that the exports do not have", rule: Uncommitted, state: OK,
			change: func(in *Input) {
				hole(in)
				in.Facts.Partitions[0].Aborted = []int64{90}
				in.Facts.Partitions[0].Searched = plan.Ranges{{First: 90, Next: 94}, {First: 100, Next: 101}}
			},
		},
		{name: "the exports have holes that nobody can tell of", rule: Uncommitted, change: func(in *Input) { hole(in) }, state: Unknown, says: "partition 0: 90-94"},
		{
			name: "the brokers no longer have what follows the exports", rule: Uncommitted, change: part(0, func(_ *plan.Partition, f *PartitionFacts) { f.Searched = nil }),
			state: Unknown, says: "the brokers no longer have what follows them, at the offsets of partition 0: 100-101",
		},
		{name: "uncommitted: no tail", rule: Uncommitted, change: withoutTail, state: Unknown, says: "the job has no tail"},
		{name: "uncommitted: no offsets", rule: Uncommitted, change: func(in *Input) { in.Plan.AtLeastOnce = true }, state: Unknown, says: "they have no offsets"},
		{
			name: "uncommitted: nothing exported", rule: Uncommitted, state: OK,
			change: func(in *Input) { in.Plan.Partitions[0].Segments, in.Plan.Partitions[1].Segments = nil, nil },
		},
		{
			name: "a copied segment proves itself", rule: Uncommitted, state: OK,
			change: func(in *Input) {
				hole(in)
				for i := range in.Inventory.Segments {
					in.Inventory.Segments[i].Whole = true
				}
			},
		},
		{
			name: "copied segments prove themselves without a broker", rule: Uncommitted, state: OK,
			change: func(in *Input) {
				withoutTail(in)
				for i := range in.Inventory.Segments {
					in.Inventory.Segments[i].Whole = true
				}
			},
		},
		{
			name: "an export has what a copied segment proves not to be there", rule: Uncommitted, state: Refuse, says: "partition 0 has offset 91, which holds no committed record",
			change: func(in *Input) {
				copied := in.Plan.Partitions[0].Segments[0].Segment
				copied.Whole, copied.Rows, copied.Offsets = true, 46, plan.Ranges{{First: 50, Next: 90}, {First: 94, Next: 100}}
				in.Inventory.Segments = append(in.Inventory.Segments, copied)
				in.Plan.Partitions[0].Segments[0].Keep = plan.Ranges{{First: 91, Next: 94}}
			},
		},

		{name: "brokers' clocks", rule: Clock, change: config("message.timestamp.type", "LogAppendTime"), state: OK, says: "the brokers' (LogAppendTime)"},
		{
			name: "a record of the future", rule: Clock, state: Warn, says: "partition 1 has one at offset 110 of 2031-01-01T00:00:00Z", do: "message.timestamp.after.max.ms",
			change: part(1, func(_ *plan.Partition, f *PartitionFacts) { f.Latest = &Stamp{110, instant("2031-01-01T00:00:00Z")} }),
		},
		{
			name: "a record ahead of its time, as declared", rule: Clock, state: OK,
			change: func(in *Input) {
				in.Plan.Spec.Source.Event.Ahead = spec.Day
				in.Facts.Partitions[1].Latest = &Stamp{110, now + 20*hour}
			},
		},
		{name: "clock: not allowed to ask", rule: Clock, change: denied(AskConfig), state: Unknown},

		{
			name: "a partition begins in the window", rule: Partitions, state: Warn, says: "partition 2 begins at 2024-05-19T03:00:00Z", do: "the event's version or time",
			change: func(in *Input) {
				in.Facts.Partitions = append(in.Facts.Partitions, PartitionFacts{Stable: 9, First: &Stamp{0, instant("2024-05-19T03:00:00Z")}})
				in.Inventory.Segments = append(in.Inventory.Segments, segment(2, 0, 2, "2024-05-19"))
				in.Inventory.Segments[4].RowGroups[0].RecordTime = nil
			},
		},
		{
			name: "a partition without an exported segment", rule: Partitions, state: Warn, says: "no segment was exported of partition 2",
			change: func(in *Input) {
				in.Facts.Partitions = append(in.Facts.Partitions, PartitionFacts{Stable: 9, First: &Stamp{0, instant("2024-05-10T03:00:00Z")}})
			},
		},
		{
			name: "a partition without a record", rule: Partitions, state: OK,
			change: func(in *Input) { in.Facts.Partitions = append(in.Facts.Partitions, PartitionFacts{}) },
		},
		{
			name: "one that is not the last was not added", rule: Partitions, state: OK,
			change: func(in *Input) {
				in.Inventory.Segments[0].RowGroups[0].RecordTime = &plan.Span{Min: now - day, Max: now}
			},
		},
		{
			name: "partitions, and no time", rule: Partitions, state: Unknown, says: "there is no time of the first record of partition 1",
			change: func(in *Input) { in.Inventory.Segments[2].RowGroups[0].RecordTime = nil },
		},
		{name: "partitions: no tail", rule: Partitions, change: withoutTail, state: Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := healthy()
			c.change(&in)
			f := find(t, in, c.rule)
			if f.State != c.state || !strings.Contains(f.Text+": "+f.Why, c.says) || (f.State == Unknown) != (f.Why != "") || !strings.Contains(f.Fix, c.do) || f.Final != c.final {
				t.Errorf("got %+v\nwant %s, %q, %q, final: %v", f, c.state, c.says, c.do, c.final)
			}
			if f.State != OK && f.Fix == "" && !f.Accepted && f.State != Unknown {
				t.Errorf("nothing to do about %+v", f)
			}
			// What is not ok may be accepted by its name, unless it is final; that is recorded with the finding.
			all := Check(in)
			err := Accept(all, []Rule{c.rule})
			i := slices.IndexFunc(all, func(f Finding) bool { return f.Rule == c.rule })
			may := f.State != OK && !f.Final
			if (err == nil) != may || all[i].Accepted != may || all[i].Blocks() != (f.State == Refuse && f.Final) {
				t.Errorf("accepted: %+v, %v", all[i], err)
			}
		})
	}
}

// tiered has a part of what is captured of partition 1 in tiered storage.
func tiered(in *Input) {
	p := &in.Plan.Partitions[1]
	p.Tail = plan.Ranges{{First: 80, Next: 120}}
	p.Segments = nil
	p.Stored = []plan.StoredRange{{Offsets: plan.Range{First: 80, Next: 105}}}
	in.Facts.Partitions[1].Start = 105
	latest := instant("2024-05-14T12:00:00Z")
	in.Inventory.Stored = []plan.Stored{{Partition: 1, Segments: []plan.StoredSegment{{Offsets: plan.Range{First: 70, Next: 105}, Latest: &latest}}}}
}

// hole takes the offsets 90-94 out of what was exported of partition 0.
func hole(in *Input) {
	s := &in.Plan.Partitions[0].Segments[0].Segment
	s.Offsets = plan.Ranges{{First: s.First, Next: 90}, {First: 94, Next: s.Next}}
	s.Rows = s.Offsets.Len()
	in.Inventory.Segments[1] = *s
}

func TestWithoutAPlanTheTopicItselfIsAskedAbout(t *testing.T) {
	in := healthy()
	in.Plan = nil
	config("cleanup.policy", "compact")(&in)
	got := Check(in)
	if len(got) != 2 || got[0].Rule != Compacted || got[0].State != Refuse || got[1].Rule != Clock {
		t.Errorf("%+v", got)
	}
}

func TestAccept(t *testing.T) {
	check := func(change ...func(*Input)) []Finding {
		in := healthy()
		for _, f := range change {
			f(&in)
		}
		return Check(in)
	}
	compact := config("cleanup.policy", "compact")
	findings := check(compact)
	err := Refused(findings)
	e, ok := errors.AsType[*RefusedError](err)
	if !ok || len(e.Findings) != 1 || !slices.Equal(e.Acceptable(), []Rule{Compacted}) || !strings.Contains(err.Error(), "do: use segments") {
		t.Fatalf("refused with %v", err)
	}
	if err := Accept(findings, []Rule{Compacted}); err != nil {
		t.Fatal(err)
	}
	if err := Refused(findings); err != nil || !findings[0].Accepted {
		t.Errorf("accepted, and refused with %v", err)
	}
	// What is not known may be accepted, too: then it is recorded who took the risk.
	if err := Accept(check(denied(AskConfig)), []Rule{Compacted, Clock}); err != nil {
		t.Error(err)
	}
	if err := Accept(check(), []Rule{Compacted}); err == nil || !strings.Contains(err.Error(), "there is nothing to accept") {
		t.Errorf("nothing to accept: %v", err)
	}
	gone := check(func(in *Input) { in.Facts.Partitions[0].Start = 101 })
	if err := Accept(gone, []Rule{Deleted}); err == nil || !strings.Contains(err.Error(), "deleted cannot be accepted") || Refused(gone) == nil {
		t.Errorf("deleted records were accepted: %v", err)
	}
	if err := Accept(check()[:1], []Rule{Retention}); err == nil {
		t.Error("what was not asked was accepted")
	}
}

func TestParseRules(t *testing.T) {
	got, err := ParseRules([]string{"compacted, retention", "compacted", "clock"})
	if err != nil || !slices.Equal(got, []Rule{Compacted, Retention, Clock}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ParseRules([]string{"compaction"}); err == nil || !strings.Contains(err.Error(), `"compaction" is no finding of the preflight: they are compacted, deleted`) {
		t.Errorf("%v", err)
	}
}

func TestNeededIsWhatBrokersAreAskedForFirst(t *testing.T) {
	in := healthy()
	tiered(&in)
	if got := Needed(in.Plan); len(got) != 2 || got[0] != 100 || got[1] != 105 {
		t.Errorf("%v", got)
	}
}

func TestSearchNamesHolesAndWhatFollows(t *testing.T) {
	in := healthy()
	hole(&in)
	in.Inventory.Segments = append(in.Inventory.Segments, segment(1, 100, 107, "2024-05-19")) // exported, but not read
	got := Search(in.Plan, in.Inventory)
	if got[0].String() != "90-94,100-101" || got[1].String() != "107-108" {
		t.Errorf("%v", got)
	}
}
