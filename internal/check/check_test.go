package check

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/blob/memblob"
	"hindcast/internal/partition"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/spec"
	"hindcast/internal/table"
	"hindcast/internal/transform"
)

var revenue = table.Schema{
	Rows:   record.Schema{{Name: "country", Kind: record.String}, {Name: "net", Kind: record.Int64}, {Name: "last", Kind: record.Timestamp, Nullable: true}},
	Keys:   1,
	Scheme: partition.Scheme{Unit: partition.Day, Column: "occurred_at", Zone: "Europe/London"},
}

var hourly = table.Schema{
	Rows:   record.Schema{{Name: "events", Kind: record.Int64}},
	Scheme: partition.Scheme{Unit: partition.Hour, Column: "occurred_at", Zone: "America/New_York"},
}

var balance = table.Schema{
	Rows:   record.Schema{{Name: "account", Kind: record.Int64}, {Name: "mills", Kind: record.Int64}},
	Keys:   1,
	Scheme: partition.Scheme{Buckets: 2},
}

// bench writes tables and makes candidates of them.
type bench struct {
	t     *testing.T
	store blob.Store
}

// write writes one file. Rows are a text or number, a number, and a time that may be null ("").
func (b bench) write(run, name string, s table.Schema, label string, part int, rows ...[]any) table.File {
	b.t.Helper()
	batch := &record.Batch{Len: len(rows), Columns: make([]record.Column, len(s.Rows))}
	for c, f := range s.Rows {
		col := &batch.Columns[c]
		col.Kind = f.Kind
		for i, row := range rows {
			switch v := row[c].(type) {
			case string:
				col.Strings.Append([]byte(v))
			case int:
				col.Int64s = append(col.Int64s, int64(v))
			case nil:
				if col.Nulls == nil {
					col.Nulls = record.NewBitmap(len(rows))
				}
				col.Nulls.Set(i)
				col.Int64s = append(col.Int64s, 0)
			}
		}
	}
	var seq iter.Seq2[*record.Batch, error] = func(yield func(*record.Batch, error) bool) { yield(batch, nil) }
	path := func(int) string { return table.Path(run, name, s.Partition(label), part) }
	files, err := table.WriteFiles(b.t.Context(), b.store, path, s, label, seq, table.WriteOptions{})
	if err != nil || len(files) != 1 {
		b.t.Fatal(files, err)
	}
	return files[0]
}

func (b bench) candidate(run string, base *table.Snapshot, outputs map[string]table.Output) *table.Candidate {
	b.t.Helper()
	c, err := table.NewCandidate("retail", run, base, table.Provenance{}, outputs)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// days is an output of revenue with the rows of each day.
func (b bench) days(run string, days map[string][][]any) table.Output {
	out := table.Output{Schema: revenue, Partitions: map[string][]table.File{}}
	for label, rows := range days {
		out.Partitions["day="+label] = nil
		if len(rows) > 0 {
			out.Partitions["day="+label] = []table.File{b.write(run, "revenue", revenue, label, 0, rows...)}
		}
	}
	return out
}

// base serves a candidate, for others to be made on.
func (b bench) base(c *table.Candidate) *table.Snapshot {
	b.t.Helper()
	m, err := c.Apply(nil, table.Commit{Op: table.OpPromote, Nonce: "n", At: time.Date(2011, 12, 10, 9, 0, 0, 0, time.UTC)})
	if err != nil {
		b.t.Fatal(err)
	}
	body, ref, err := m.Encode()
	if err == nil {
		_, err = blob.PutBytes(b.t.Context(), b.store, ref.Manifest, body, blob.Condition{})
	}
	if err != nil {
		b.t.Fatal(err)
	}
	s, err := table.OpenRef(b.t.Context(), b.store, ref)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// shardIDs are those of a shard that has one event, with an id and an amount, behind each fingerprint that another shard has, too.
func shardIDs(shard string, scheme partition.Scheme, at transform.Position, id string, amount int64, fingerprints ...uint64) ShardIDs {
	return ShardIDs{
		Shard: shard, Scheme: scheme,
		Open: func(context.Context) (io.ReadCloser, error) {
			var b []byte
			for _, f := range fingerprints {
				b = binary.LittleEndian.AppendUint64(b, f)
			}
			return io.NopCloser(bytes.NewReader(b)), nil
		},
		Locate: func(ctx context.Context, wanted []uint64) (found []transform.Sighting, err error) {
			for _, f := range wanted {
				s, err := transform.Locate(ctx, &oneRow{at: at, id: id, amount: amount}, transform.Config{
					Columns: oneRowColumns, Time: "at", ID: "id", Scheme: partition.Scheme{Buckets: 1},
				}, []uint64{transform.Fingerprint([]byte(id))})
				if err != nil {
					return nil, err
				}
				s[0].Fingerprint = f
				found = append(found, s...)
			}
			return found, nil
		},
	}
}

var oneRowColumns = record.Schema{{Name: "at", Kind: record.Timestamp}, {Name: "id", Kind: record.String}, {Name: "amount", Kind: record.Int64}}

// oneRow reads one event.
type oneRow struct {
	at     transform.Position
	id     string
	amount int64
	read   bool
}

func (r *oneRow) Close() error { return nil }

func (r *oneRow) Next(context.Context) (int32, *record.Batch, error) {
	if r.read {
		return 0, nil, io.EOF
	}
	r.read = true
	b := &record.Batch{Len: 1, Offsets: []int64{r.at.Offset}, Columns: []record.Column{
		{Kind: record.Timestamp, Int64s: []int64{0}}, {Kind: record.String}, {Kind: record.Int64, Int64s: []int64{r.amount}}, {Kind: record.String, Nulls: record.Bitmap{1}},
	}}
	b.Columns[1].Strings.Append([]byte(r.id))
	b.Columns[3].Strings.Append(nil)
	return r.at.Partition, b, nil
}

// good is what every check passes: a run on a base.
func good(t *testing.T) (bench, Inputs) {
	b := bench{t, memblob.New()}
	first := b.candidate("run-1", nil, map[string]table.Output{"revenue": b.days("run-1", map[string][][]any{
		"2011-11-01": {{"EIRE", 5, nil}, {"France", 7, 1_000_000}}, "2011-11-02": {{"EIRE", 1, nil}}, "2011-11-03": nil,
	})})
	base := b.base(first)
	accounts := b.write("run-2", "balance", balance, "0000", 0, []any{1, 10}, []any{3, 30})
	more := b.write("run-2", "balance", balance, "0000", 1, []any{2, 20})
	second := b.candidate("run-2", base, map[string]table.Output{
		"revenue": b.days("run-2", map[string][][]any{
			"2011-11-01": {{"EIRE", 6, nil}, {"France", 7, 1_000_000}}, "2011-11-02": {{"EIRE", 1, nil}}, "2011-11-03": nil,
		}),
		"balance": {Schema: balance, Partitions: map[string][]table.File{"bucket=0000": {accounts, more}, "bucket=0001": nil}},
	})
	in := Inputs{
		Candidate: second, Dataset: b.store, Base: base,
		Checks: spec.Checks{Rows: &spec.RowsCheck{Against: spec.Base, Within: 500}, Emptied: spec.RefuseEmptied},
		Canaries: []Canaries{
			{"canaries.csv", "day,country,net,last\n2011-11-01,EIRE,6,\n2011-11-01,France,,1970-01-01T01:00:01+01:00\n2011-12-24,EIRE,1,\n"},
			{"all.csv", "table,account,mills,day,country,net\nbalance,2,20,,,\nrevenue,,,2011-11-02,EIRE,1\n"},
		},
		Event: spec.Event{Lateness: 21 * spec.Day, Ahead: spec.Hour},
		Accounts: []Account{
			{Count: transform.Count{Table: "balance", Origin: transform.FromSegment, Applied: 900, Filtered: 90, Stale: 10}, Offsets: 1000},
			{Count: transform.Count{Table: "revenue", Origin: transform.FromSegment, Applied: 100, Duplicate: 5, Outside: 95}, Offsets: 1000, Skipped: 800, SkippedFor: map[plan.SkipReason]int64{plan.Pruned: 800}},
			{Count: transform.Count{Table: "revenue", Partition: 1, Origin: transform.FromTail}},
		},
		IDs: []ShardIDs{
			shardIDs("a", revenue.Scheme, transform.Position{Offset: 5}, "x-1", 1, 1, 2, 2, 9), shardIDs("b", revenue.Scheme, transform.Position{}, "x-2", 2, 3, 10),
			shardIDs("c", hourly.Scheme, transform.Position{}, "x-3", 3, 2, 9, 11), shardIDs("d", revenue.Scheme, transform.Position{}, "x-4", 4),
		},
	}
	return b, in
}

func run(t *testing.T, in Inputs) (Verdict, map[string]Result) {
	t.Helper()
	v, err := Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]Result{}
	for _, r := range v.Results {
		by[r.Check] = r
		if r.Summary == "" || (r.Status == Fail) && (r.Do == "") {
			t.Errorf("%s: %q, do %q", r.Check, r.Summary, r.Do)
		}
	}
	return v, by
}

func TestGoodCandidatePasses(t *testing.T) {
	_, in := good(t)
	v, by := run(t, in)
	if !v.Passed() {
		t.Errorf("verdict: %+v", v)
	}
	if digest, _ := in.Candidate.Digest(); v.Candidate != digest || v.Run != "run-2" {
		t.Errorf("the verdict is on %s of %s", v.Candidate, v.Run)
	}
	for name, want := range map[string]string{
		"input":        "balance: 1,000 offsets: 900 applied, 90 filtered, 10 stale; revenue: 1,000 offsets: 100 applied, 5 duplicate, 95 outside, 800 skipped.",
		"dead-letters": "Every event was readable.",
		"lateness":     "Every event that was read is up to 21d late or 1h ahead of its record time, as declared.",
		"ids":          "No event id came with two contents.",
		"files":        "4 files with 6 rows were read back and are what was written.",
		"keys":         "Every key stands once.",
		"rows":         "balance: 3 rows in 2 partitions that are not in the base yet; revenue: 3 rows, 3 in the base.",
		"canaries":     "4 canaries are right. 1 are outside the window.",
		"emptied":      "No partition that had rows is empty now.",
	} {
		if by[name].Summary != want || by[name].Status != OK {
			t.Errorf("%s: %s, %q; want ok, %q", name, by[name].Status, by[name].Summary, want)
		}
	}
	if len(by) != 9 || by["ids"].Figures["compared"] != 9 {
		t.Errorf("%d checks; ids: %+v", len(by), by["ids"])
	}
	// The verdict depends on the inputs alone.
	again, _ := run(t, in)
	if fmt.Sprintf("%+v", v) != fmt.Sprintf("%+v", again) {
		t.Errorf("%+v, then %+v", v, again)
	}
}

func TestFirstRunHasNoBase(t *testing.T) {
	b, in := good(t)
	in.Base = nil
	in.Candidate = b.candidate("run-3", nil, map[string]table.Output{"revenue": b.days("run-3", map[string][][]any{"2011-11-01": {{"EIRE", 5, nil}}})})
	in.Canaries = nil
	v, by := run(t, in)
	if !v.Passed() {
		t.Errorf("verdict: %+v", v)
	}
	for _, name := range []string{"rows", "emptied", "canaries", "keys"} {
		if by[name].Status != NotApplicable {
			t.Errorf("%s: %+v", name, by[name])
		}
	}
}

// TestFailures has, for each check, what makes it fail or warn, and what it must say.
func TestFailures(t *testing.T) {
	at := transform.Position{Partition: 2, Offset: 77}
	canary := func(text string) func(bench, *Inputs) {
		return func(_ bench, in *Inputs) { in.Canaries = []Canaries{{"canaries.csv", text}} }
	}
	for name, c := range map[string]struct {
		change func(bench, *Inputs)
		check  string
		status Status
		want   string
	}{
		"an offset is missing":       {func(_ bench, in *Inputs) { in.Accounts[1].Applied-- }, "input", Fail, "table revenue, partition 0, segment: the read range has 1,000 offsets, 999 were accounted for"},
		"an offset is counted twice": {func(_ bench, in *Inputs) { in.Accounts[2].Skipped++ }, "input", Fail, "partition 1, tail: the read range has 0 offsets, 1 were accounted for"},
		"no account":                 {func(_ bench, in *Inputs) { in.Accounts = nil }, "input", Fail, "no account"},
		"dead letters": {func(_ bench, in *Inputs) {
			in.DeadLetters, in.FirstDeadLetters = 2, []transform.DeadLetter{{Position: at, Table: "revenue", Reason: "country is null"}}
		}, "dead-letters", Fail, "partition 2, offset 77, for table revenue: country is null"},
		"accepted dead letters": {func(_ bench, in *Inputs) { in.DeadLetters, in.Checks.DeadLetters = 2, 2 }, "dead-letters", Warn, "2 events were unreadable; the job accepts 2"},
		"a stray event": {func(_ bench, in *Inputs) {
			in.Strays, in.FirstStrays = 1, []transform.Stray{{Position: at, Event: 4_102_444_800_000_000, Record: 1_000_000}}
		}, "lateness", Warn, "partition 2, offset 77: event time 2100-01-01T00:00:00Z, record time 1970-01-01T00:00:01Z"},
		"no lateness declared": {func(_ bench, in *Inputs) {
			in.Strays, in.Event, in.WholeLog = 9, spec.Event{}, true
		}, "lateness", NotApplicable, "declares no lateness"},
		"one id, two contents": {func(_ bench, in *Inputs) {
			in.Conflicts, in.FirstConflicts = 1, []transform.Conflict{{ID: "536365-1", First: at, Second: transform.Position{Partition: 2, Offset: 99}, Column: "quantity"}}
		}, "ids", Fail, `id "536365-1" is at partition 2, offset 77 and, with other contents, at partition 2, offset 99; they differ in quantity`},
		"one id, two shards": {func(_ bench, in *Inputs) {
			in.IDs = append(in.IDs, shardIDs("e", revenue.Scheme, transform.Position{Partition: 1, Offset: 3}, "x-1", 2, 4, 9))
		}, "ids", Fail, `id "x-1" is at partition 0, offset 5 and, with other contents, at partition 1, offset 3; they differ in amount`},
		"a copy in two shards": {func(_ bench, in *Inputs) {
			in.IDs = append(in.IDs, shardIDs("e", revenue.Scheme, transform.Position{Partition: 1, Offset: 3}, "x-1", 1, 4, 9))
		}, "ids", OK, "No event id came with two contents."},
		"two ids, one fingerprint": {func(_ bench, in *Inputs) {
			in.IDs = append(in.IDs, shardIDs("e", revenue.Scheme, transform.Position{Partition: 1, Offset: 3}, "x-9", 2, 4, 9))
		}, "ids", OK, "No event id came with two contents."},
		"a file changed": {func(b bench, in *Inputs) {
			f := in.Candidate.Tables["revenue"].Partitions["day=2011-11-01"].Files[0]
			body, _, err := blob.ReadAll(b.t.Context(), b.store, f.Path)
			if err != nil {
				b.t.Fatal(err)
			}
			body[100] ^= 1
			if _, err := blob.PutBytes(b.t.Context(), b.store, f.Path, body, blob.Condition{}); err != nil {
				b.t.Fatal(err)
			}
		}, "files", Fail, "day=2011-11-01: file data/run-2/revenue/day=2011-11-01/part-0000.parquet: its SHA-256 is"},
		"a key in two topic partitions": {func(b bench, in *Inputs) {
			twice := b.write("run-2", "balance", balance, "0000", 7, []any{3, 1})
			files := append(in.Candidate.Tables["balance"].Partitions["bucket=0000"].Files, twice)
			in.Candidate = b.candidate("run-2", in.Base, map[string]table.Output{"balance": {Schema: balance, Partitions: map[string][]table.File{"bucket=0000": files}}})
			in.Canaries = nil
		}, "keys", Fail, "balance bucket=0000 has the key account=3 more than once"},
		"too few rows": {func(b bench, in *Inputs) {
			in.Candidate = b.candidate("run-4", in.Base, map[string]table.Output{"revenue": b.days("run-4", map[string][][]any{"2011-11-01": {{"EIRE", 6, nil}}})})
			in.Canaries = nil
		}, "rows", Fail, "revenue: 1 rows, 2 in the base: partition by partition they differ by 1, which is more than 5% off"},
		"a table that grows": {func(b bench, in *Inputs) {
			in.Candidate = b.candidate("run-4", in.Base, map[string]table.Output{"revenue": b.days("run-4", map[string][][]any{
				"2011-11-02": {{"EIRE", 1, nil}}, "2011-11-04": {{"EIRE", 6, nil}, {"France", 6, nil}}, "2011-11-05": nil,
			})})
			in.Canaries = nil
		}, "rows", OK, "revenue: 1 rows, 1 in the base, and 2 rows in 2 partitions that are not in the base yet."},
		"a day lost what another gained": {func(b bench, in *Inputs) {
			in.Candidate = b.candidate("run-4", in.Base, map[string]table.Output{"revenue": b.days("run-4", map[string][][]any{
				"2011-11-01": {{"EIRE", 5, nil}}, "2011-11-02": {{"EIRE", 1, nil}, {"France", 1, nil}}, "2011-11-04": {{"EIRE", 1, nil}},
			})})
			in.Canaries = nil
		}, "rows", Fail, "revenue: 3 rows, 3 in the base: partition by partition they differ by 2, which is more than 5% off.\n" +
			"revenue day=2011-11-01: 1 rows, 2 in the base\nrevenue day=2011-11-02: 2 rows, 1 in the base"},
		"a small day is off": {func(b bench, in *Inputs) {
			in.Candidate = b.candidate("run-4", in.Base, map[string]table.Output{"revenue": b.days("run-4", map[string][][]any{
				"2011-11-01": {{"EIRE", 5, nil}, {"France", 7, nil}}, "2011-11-02": {{"EIRE", 1, nil}, {"France", 1, nil}},
			})})
			in.Canaries, in.Checks.Rows = nil, &spec.RowsCheck{Against: spec.Base, Within: 4000}
		}, "rows", Warn, "revenue: 4 rows, 3 in the base.\nrevenue day=2011-11-02: 2 rows, 1 in the base"},
		"rows of a day that was empty": {func(b bench, in *Inputs) {
			in.Candidate = b.candidate("run-4", in.Base, map[string]table.Output{"revenue": b.days("run-4", map[string][][]any{"2011-11-03": {{"EIRE", 1, nil}}})})
			in.Canaries = nil
		}, "rows", Warn, "revenue day=2011-11-03: 1 rows, 0 in the base"},
		"an emptied day": {func(b bench, in *Inputs) {
			in.Candidate = b.candidate("run-4", in.Base, map[string]table.Output{"revenue": b.days("run-4", map[string][][]any{"2011-11-02": nil})})
			in.Canaries = nil
		}, "emptied", Fail, "revenue day=2011-11-02 has 1 rows in the base, and none in the candidate"},
		"an emptied day that may be": {func(b bench, in *Inputs) {
			in.Candidate = b.candidate("run-4", in.Base, map[string]table.Output{"revenue": b.days("run-4", map[string][][]any{"2011-11-02": nil})})
			in.Canaries, in.Checks = nil, spec.Checks{Emptied: spec.AllowEmptied}
		}, "emptied", Warn, "1 partitions that had rows are empty now, which the job allows"},
		"wrong canary":                 {canary("day,country,net\n\n2011-11-01,EIRE,5\n"), "canaries", Fail, "canaries.csv:3: revenue, day=2011-11-01 country=EIRE: net is 6, expected 5"},
		"canary of a null":             {canary("day,country,last\n2011-11-01,EIRE,2011-11-01T00:00:00Z\n"), "canaries", Fail, "last is null, expected 2011-11-01T00:00:00Z"},
		"canary not there":             {canary("day,country,net\n2011-11-01,Eire,6\n"), "canaries", Fail, "canaries.csv:2: revenue has no row with day=2011-11-01 country=Eire"},
		"canary of a day without rows": {canary("day,country,net\n2011-11-03,EIRE,6\n"), "canaries", Fail, "has no row with day=2011-11-03"},
		"canaries elsewhere":           {canary("day,country,net\n2012-11-01,EIRE,6\n"), "canaries", Warn, "No canary could be looked at. 1 are outside the window"},
		"no canaries in it":            {canary("day,country,net\n"), "canaries", Warn, "No canary could be looked at"},
		"canary file empty":            {canary(""), "canaries", Fail, "canaries.csv: it has no header"},
		"ragged":                       {canary("day,country,net\n2011-11-01,EIRE\n"), "canaries", Fail, "wrong number of fields"},
		"unknown column":               {canary("day,country,nett\n2011-11-01,EIRE,6\n"), "canaries", Fail, "fits 0 of the tables balance, revenue"},
		"unknown table":                {canary("table,account\nbalances,1\n"), "canaries", Fail, `canaries.csv:2: the run has no table "balances"`},
		"another's column":             {canary("table,account,net\nbalance,1,6\n"), "canaries", Fail, `canaries.csv:2: table balance has no column "net"`},
		"no key":                       {canary("day,net\n2011-11-01,6\n"), "canaries", Fail, "the key column country has no value"},
		"not a number":                 {canary("day,country,net\n2011-11-01,EIRE,6.0\n"), "canaries", Fail, `canaries.csv:2: column net: "6.0" is no integer`},
		"not a day":                    {canary("day,country,net\n2011-11-31,EIRE,6\n"), "canaries", Fail, `"2011-11-31" is no date`},
		"not a time":                   {canary("day,country,last\n2011-11-01,EIRE,2011-11-01 00:00\n"), "canaries", Fail, "is no RFC 3339 time"},
	} {
		t.Run(name, func(t *testing.T) {
			b, in := good(t)
			c.change(b, &in)
			v, by := run(t, in)
			r := by[c.check]
			if text := r.Summary + "\n" + strings.Join(r.Findings, "\n"); r.Status != c.status || !strings.Contains(text, c.want) {
				t.Errorf("%s: %s: %s\nwant %s with %q", c.check, r.Status, text, c.status, c.want)
			}
			if v.Passed() != (c.status != Fail) {
				t.Errorf("passed: %v; %+v", v.Passed(), v)
			}
		})
	}
}

// TestHourCanaries finds rows of both hours that a clock shows twice.
func TestHourCanaries(t *testing.T) {
	b := bench{t, memblob.New()}
	out := table.Output{Schema: hourly, Partitions: map[string][]table.File{}}
	for i, label := range []string{"2024-11-03T01-0400", "2024-11-03T01-0500"} {
		out.Partitions["hour="+label] = []table.File{b.write("run-1", "hourly", hourly, label, 0, []any{i + 1})}
	}
	_, in := good(t)
	in.Base, in.Dataset, in.Candidate = nil, b.store, b.candidate("run-1", nil, map[string]table.Output{"hourly": out})
	in.Canaries = []Canaries{{"c.csv", "hour,events\n2024-11-03T05:00:00Z,1\n2024-11-03T06:00:00Z,2\n2024-11-03T07:00:00Z,3\n"}}
	if _, by := run(t, in); by["canaries"].Status != OK || by["canaries"].Figures["right"] != 2 || by["canaries"].Figures["outside"] != 1 {
		t.Errorf("%+v", by["canaries"])
	}
	in.Canaries[0].Data = "hour,events\n2024-11-03T05:30:00Z,1\n"
	if _, by := run(t, in); by["canaries"].Status != Fail || !strings.Contains(by["canaries"].Findings[0], "not the start of an hour") {
		t.Errorf("%+v", by["canaries"])
	}
}

// TestFindingsAreBounded: however much is wrong, a verdict stays small, and says how much it is.
func TestFindingsAreBounded(t *testing.T) {
	_, in := good(t)
	text := "day,country,net\n"
	for i := range 1000 {
		text += fmt.Sprintf("2011-11-01,c%d,1\n", i)
	}
	in.Canaries = []Canaries{{"canaries.csv", text}}
	_, by := run(t, in)
	if r := by["canaries"]; r.Total != 1000 || len(r.Findings) != MaxFindings || !strings.Contains(r.Summary, "1,000 of 1,000") {
		t.Errorf("%d findings of %d: %s", len(r.Findings), r.Total, r.Summary)
	}
}

// TestTroubleIsNoVerdict: a store that does not answer, or another base, says nothing of the candidate.
func TestTroubleIsNoVerdict(t *testing.T) {
	b, in := good(t)
	down := in
	down.Dataset = outage{b.store}
	if _, err := Run(t.Context(), down); !errors.Is(err, blob.ErrTransient) {
		t.Errorf("an outage: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, in); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	other := in
	other.Base = nil
	if _, err := Run(t.Context(), other); err == nil || !strings.Contains(err.Error(), "base is not the one") {
		t.Errorf("no base: %v", err)
	}
	unsorted := in
	unsorted.IDs = []ShardIDs{shardIDs("a", revenue.Scheme, transform.Position{}, "x", 1, 2<<52, 1<<52)}
	if _, err := Run(t.Context(), unsorted); err == nil || !strings.Contains(err.Error(), "not sorted") {
		t.Errorf("ids that are not sorted: %v", err)
	}
}

type outage struct{ blob.Store }

func (outage) Get(context.Context, string, blob.GetOptions) (*blob.Object, error) {
	return nil, fmt.Errorf("get: %w", blob.ErrTransient)
}

func TestCount(t *testing.T) {
	want := map[int64]string{0: "0", 7: "7", -999: "-999", 1000: "1,000", -123456: "-123,456", 1234567: "1,234,567", 100000: "100,000"}
	for _, n := range slices.Sorted(maps.Keys(want)) {
		if got := count(n); got != want[n] {
			t.Errorf("count(%d) = %q, want %q", n, got, want[n])
		}
	}
}
