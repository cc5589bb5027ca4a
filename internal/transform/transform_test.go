package transform

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"hindcast/internal/job"
	"hindcast/internal/partition"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/spec"
	"hindcast/internal/testenv"
)

// event is a record of the logs that these tests make up. Empty strings and negative numbers stand for nulls where noted.
type event struct {
	partition int32
	offset    int64
	id        string // empty: null
	at        int64  // negative: null
	key       string
	n         int64 // negative: null
	version   int64
	unread    string
}

var columns = record.Schema{
	{Name: "at", Kind: record.Timestamp, Nullable: true},
	{Name: "id", Kind: record.String, Nullable: true},
	{Name: "key", Kind: record.String, Nullable: true},
	{Name: "n", Kind: record.Int64, Nullable: true},
	{Name: "version", Kind: record.Int64, Nullable: true},
}

func batchOf(events []event) *record.Batch {
	b := &record.Batch{Len: len(events), Columns: make([]record.Column, len(columns)+1)}
	for i, f := range columns {
		b.Columns[i] = record.Column{Kind: f.Kind, Nulls: record.NewBitmap(len(events))}
	}
	unread := &b.Columns[len(columns)]
	*unread = record.Column{Kind: record.String, Nulls: record.NewBitmap(len(events))}
	for i, e := range events {
		b.Offsets = append(b.Offsets, e.offset)
		for c, v := range []int64{e.at, 0, 0, e.n, e.version} {
			if b.Columns[c].Kind != record.String {
				b.Columns[c].Int64s = append(b.Columns[c].Int64s, v)
				if v < 0 {
					b.Columns[c].Nulls.Set(i)
				}
			}
		}
		b.Columns[1].Strings.Append([]byte(e.id))
		if e.id == "" {
			b.Columns[1].Nulls.Set(i)
		}
		b.Columns[2].Strings.Append([]byte(e.key))
		unread.Strings.Append([]byte(e.unread))
		if e.unread == "" {
			unread.Nulls.Set(i)
		}
	}
	return b
}

// dictionary re-codes a plain column by a dictionary.
func dictionary(s record.Strings, rows int) record.Strings {
	codes := map[string]uint32{}
	out := record.Strings{Offsets: []uint32{0}}
	for i := range rows {
		v := string(s.At(i))
		code, ok := codes[v]
		if !ok {
			code = uint32(len(codes))
			codes[v] = code
			out.Append([]byte(v))
		}
		out.Codes = append(out.Codes, code)
	}
	return out
}

// reader yields events in batches of random size, keys sometimes by dictionary, and overwrites each batch when asked for the next.
type reader struct {
	rng    *rand.Rand
	events []event
	last   *record.Batch
	closed bool
}

func (r *reader) Next(context.Context) (int32, *record.Batch, error) {
	if r.last != nil {
		for i := range r.last.Columns {
			clear(r.last.Columns[i].Int64s)
			clear(r.last.Columns[i].Strings.Data)
		}
	}
	if len(r.events) == 0 {
		return 0, nil, io.EOF
	}
	p, n := r.events[0].partition, 0
	most := 1 + r.rng.IntN(60)
	for n < len(r.events) && r.events[n].partition == p && n < most {
		n++
	}
	b := batchOf(r.events[:n])
	if r.rng.IntN(2) == 0 {
		b.Columns[2].Strings = dictionary(b.Columns[2].Strings, n)
	}
	r.events, r.last = r.events[n:], b
	return p, b, nil
}

func (r *reader) Close() error {
	if r.closed {
		return errors.New("closed twice")
	}
	r.closed = true
	return nil
}

type in struct {
	Key     string `event:"key"`
	N       int64  `event:"n"`
	Version *int64 `event:"version"`
}

type total struct {
	Key   string         `row:"key,key"`
	Count int64          `row:"count"`
	Sum   int64          `row:"sum"`
	Kinds int64          `row:"kinds"`
	Seen  job.Set[int64] `row:"-"`
}

type copied struct {
	Key string `row:"key,key"`
	N   int64  `row:"n"`
}

var fold = job.Fold[in, total]{
	Where: func(e *in) bool { return e.Key != "skip" },
	Key:   func(e *in) total { return total{Key: e.Key} },
	Apply: func(t *total, e *in) {
		t.Count++
		t.Sum = t.Sum*31 + e.N // depends on order
		t.Seen.Add(e.N)
	},
	Finish: func(t *total) { t.Kinds = t.Seen.Len() },
	Version: func(e *in) int64 {
		if e.Version == nil {
			panic("no version")
		}
		return *e.Version
	},
}

var copies = job.Map[in, copied]{
	Each: func(e *in, emit func(copied)) {
		for range e.N % 3 {
			emit(copied{e.Key, e.N})
		}
	},
}

// idOfKind makes an id of a number: of one of the kinds that are kept apart.
func idOfKind(n int) string {
	return fmt.Sprintf([]string{"id%d", "id%014d", "%08x-0000-4000-8000-0123456789ab", "an id that is rather long: %d"}[n%4], n)
}

// randomLog is a log with everything that can be wrong with one.
func randomLog(rng *rand.Rand, rows int) []event {
	var log []event
	for p := range int32(3) {
		offset := rng.Int64N(50)
		var mine []event
		for range rows / 3 {
			e := event{
				partition: p, offset: offset, id: idOfKind(rng.IntN(rows * 20)), at: rng.Int64N(1300) - 20,
				key: fmt.Sprint("k", rng.IntN(9)), n: rng.Int64N(40) - 1, version: rng.Int64N(1000) - 1,
			}
			switch rng.IntN(24) {
			case 0, 1:
				if len(mine) > 0 { // a redelivery
					again := mine[rng.IntN(len(mine))]
					again.offset = offset
					e = again
				}
			case 2:
				if len(mine) > 0 { // an id with other contents
					again := mine[rng.IntN(len(mine))]
					again.offset = offset
					again.n++
					e = again
				}
			case 3:
				e.key = "skip"
			case 4:
				e.unread = "not JSON"
			case 5:
				e.id = ""
			}
			mine = append(mine, e)
			offset += 1 + rng.Int64N(3)
		}
		log = append(log, mine...)
	}
	return log
}

// naive computes what a shard must give, the slow way.
func naive(log []event, c Config, ownedBy func(event) bool, slotOf func(event) string) (map[string][]string, Result) {
	rows := map[string][]string{}
	counts := map[[2]any]*Count{}
	var res Result
	seen := map[string]event{}
	type state struct {
		total
		version int64
	}
	folds := map[string]map[string]*state{}
	for _, e := range log {
		at := Position{e.partition, e.offset}
		origin := FromSegment
		if c.Tail[e.partition].Contains(e.offset) {
			origin = FromTail
		}
		count := func(i int) *Count {
			k := [2]any{at.Partition, string(origin) + c.Outputs[i].Table}
			if counts[k] == nil {
				counts[k] = &Count{Partition: at.Partition, Origin: origin, Table: c.Outputs[i].Table}
			}
			return counts[k]
		}
		both := func(f func(*Count)) { f(count(0)); f(count(1)) }
		dead := func(reason string) {
			both(func(c *Count) { c.Dead++ })
			res.DeadLetters++
			res.FirstDeadLetters = append(res.FirstDeadLetters, DeadLetter{at, "", reason})
		}
		both(func(*Count) {})
		switch {
		case e.unread != "":
			if ownedBy(e) {
				dead("record cannot be read: not JSON")
			}
			continue
		case e.at < 0:
			if ownedBy(e) {
				dead("column at is null: there is no event time")
			}
			continue
		case c.Window != nil && (e.at < c.Window.From || e.at >= c.Window.To):
			if ownedBy(e) {
				both(func(c *Count) { c.Outside++ })
			}
			continue
		}
		label := slotOf(e)
		if label == "" {
			continue
		}
		if c.ID != "" {
			if e.id == "" {
				dead("column id is null or empty: the event has no id")
				continue
			}
			if before, ok := seen[e.id]; ok {
				same := e
				same.partition, same.offset = before.partition, before.offset
				if same == before {
					both(func(c *Count) { c.Duplicate++ })
					continue
				}
				both(func(c *Count) { c.Conflict++ })
				res.Conflicts++
				res.FirstConflicts = append(res.FirstConflicts, Conflict{e.id, Position{before.partition, before.offset}, at, differ(before, e)})
				continue
			}
			seen[e.id] = e
		}
		failed := false
		if e.n < 0 {
			for i, reason := range []string{"column n is null", "column n is null"} {
				count(i).Dead++
				res.FirstDeadLetters = append(res.FirstDeadLetters, DeadLetter{at, c.Outputs[i].Table, reason})
			}
			res.DeadLetters++
			continue
		}
		switch states := folds[label]; {
		case e.key == "skip":
			count(0).Filtered++
		case e.version < 0:
			failed = true
			count(0).Dead++
			res.FirstDeadLetters = append(res.FirstDeadLetters, DeadLetter{at, c.Outputs[0].Table, "Version panicked"})
		default:
			if states == nil {
				states = map[string]*state{}
				folds[label] = states
			}
			s := states[e.key]
			if s == nil {
				s = &state{version: -1}
				s.Key = e.key
				states[e.key] = s
			}
			if e.version <= s.version {
				count(0).Stale++
				break
			}
			s.version = e.version
			s.Count++
			s.Sum = s.Sum*31 + e.n
			s.Seen.Add(e.n)
			count(0).Applied++
		}
		if e.n%3 == 0 {
			count(1).Filtered++
		} else {
			count(1).Applied++
		}
		for range e.n % 3 {
			rows["copies "+label] = append(rows["copies "+label], fmt.Sprintf("%s %d", e.key, e.n))
		}
		if failed {
			res.DeadLetters++
		}
	}
	for _, list := range rows {
		slices.SortStableFunc(list, func(a, b string) int {
			return strings.Compare(strings.Fields(a)[0], strings.Fields(b)[0])
		})
	}
	for label, states := range folds {
		for _, s := range states {
			rows["totals "+label] = append(rows["totals "+label], fmt.Sprintf("%s %d %d %d", s.Key, s.Count, s.Sum, s.Seen.Len()))
		}
		slices.Sort(rows["totals "+label])
	}
	for _, table := range []string{"totals", "copies"} {
		for p := range int32(3) {
			for _, origin := range []Origin{FromTail, FromSegment} {
				if c := counts[[2]any{p, string(origin) + table}]; c != nil {
					res.Counts = append(res.Counts, *c)
				}
			}
		}
	}
	res.FirstDeadLetters = res.FirstDeadLetters[:min(MaxFindings, len(res.FirstDeadLetters))]
	res.FirstConflicts = res.FirstConflicts[:min(MaxFindings, len(res.FirstConflicts))]
	return rows, res
}

// differ names the columns in which two events differ.
func differ(a, b event) string {
	var names []string
	for name, same := range map[string]bool{"at": a.at == b.at, "key": a.key == b.key, "n": a.n == b.n, "version": a.version == b.version} {
		if !same {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// collect is a sink that keeps rows as text.
func collect(rows map[string][]string) Sink {
	return func(table, label string, batches iter.Seq2[*record.Batch, error]) error {
		name := table + " " + label
		if rows[name] != nil {
			return fmt.Errorf("%s came twice", name)
		}
		for b, err := range batches {
			if err != nil {
				return err
			}
			for i := range b.Len {
				text := string(b.Columns[0].Strings.At(i))
				for _, c := range b.Columns[1:] {
					text += fmt.Sprintf(" %d", c.Int64s[i])
				}
				rows[name] = append(rows[name], text)
			}
		}
		if len(rows[name]) == 0 {
			return fmt.Errorf("%s came without rows", name)
		}
		return nil
	}
}

// earlyRows takes rows early, and keeps some of them for good when a lap ends.
type earlyRows struct {
	rng        *rand.Rand
	held, kept map[string][]*record.Batch
}

// passedEarly counts rows that were.
var passedEarly int

func (r earlyRows) early() *Early {
	return &Early{
		Rows: r.rng.IntN(30), Bytes: r.rng.Int64N(2000),
		Take: func(table, label string, b *record.Batch) error {
			passedEarly += b.Len
			r.held[table+" "+label] = append(r.held[table+" "+label], b.Clone())
			return nil
		},
		Recall: func(table, label string) iter.Seq2[*record.Batch, error] {
			name := table + " " + label
			n := r.rng.IntN(len(r.held[name]) + 1)
			r.kept[name] = append(r.kept[name], r.held[name][:n]...)
			back := r.held[name][n:]
			delete(r.held, name)
			return batchesOf(back)
		},
	}
}

func batchesOf(list []*record.Batch) iter.Seq2[*record.Batch, error] {
	return func(yield func(*record.Batch, error) bool) {
		for _, b := range list {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// sink has what was taken early come first.
func (r earlyRows) sink(to Sink) Sink {
	return func(table, label string, batches iter.Seq2[*record.Batch, error]) error {
		name := table + " " + label
		first := append(r.kept[name], r.held[name]...)
		delete(r.kept, name)
		delete(r.held, name)
		return to(table, label, func(yield func(*record.Batch, error) bool) {
			for b, err := range batchesOf(first) {
				if !yield(b, err) {
					return
				}
			}
			batches(yield)
		})
	}
}

// ends counts laps by the stage that they ended in.
var ends [draining + 1]int

// inLaps runs a shard, stopping at random, each time as likely as often says, or never.
func inLaps(t *testing.T, rng *rand.Rand, log []event, c Config, often int) (map[string][]string, Result) {
	t.Helper()
	var saved []byte
	rows := map[string][]string{}
	laps := 12
	if testenv.Full() {
		laps = 20
	}
	early := earlyRows{rng, map[string][]*record.Batch{}, map[string][]*record.Batch{}}
	for lap := 0; ; lap++ {
		c.Sink, c.Early = early.sink(collect(rows)), early.early()
		var checkpoint bytes.Buffer
		c.Checkpoint = &checkpoint
		pieces := 0
		c.Stop = func(int64) bool { pieces++; return lap < laps && often > 0 && rng.IntN(often) == 0 }
		from := log
		c.Resume = nil
		if saved != nil {
			c.Resume = bytes.NewReader(saved)
		}
		res, err := Run(t.Context(), &reader{rng: rng, events: from}, c)
		if err != nil {
			t.Fatal(err)
		}
		if res.Done {
			for name := range early.kept { // of which no later row came
				table, label, _ := strings.Cut(name, " ")
				if err := early.sink(collect(rows))(table, label, batchesOf(nil)); err != nil {
					t.Fatal(err)
				}
			}
			if len(early.held) > 0 {
				t.Fatal("rows were taken early, and neither sunk nor recalled")
			}
			return rows, res
		}
		if pieces == 0 {
			t.Fatal("a lap ended that has done nothing")
		}
		saved = checkpoint.Bytes()
		ends[stageOf(t, c, saved)]++
		if res.Ended {
			log = nil
			continue
		}
		// The next lap may begin its reading anywhere at or before the cursor.
		cursor := slices.IndexFunc(log, func(e event) bool { return Position{e.partition, e.offset} == *res.Cursor })
		log = log[rng.IntN(cursor+1):]
	}
}

// stageOf tells where a checkpoint is.
func stageOf(t *testing.T, c Config, saved []byte) stage {
	t.Helper()
	e, err := newEngine(c)
	if err != nil {
		t.Fatal(err)
	}
	err = e.restore(bytes.NewReader(saved))
	if err := errors.Join(err, e.close()); err != nil {
		t.Fatal(err)
	}
	return e.Stage
}

func sameResult(t *testing.T, got, want Result) {
	t.Helper()
	if !reflect.DeepEqual(got.Counts, want.Counts) {
		t.Errorf("counts: got %+v\nwant %+v", got.Counts, want.Counts)
	}
	if got.DeadLetters != want.DeadLetters || len(got.FirstDeadLetters) != len(want.FirstDeadLetters) {
		t.Fatalf("got %d dead letters, told %d, want %d, %d", got.DeadLetters, len(got.FirstDeadLetters), want.DeadLetters, len(want.FirstDeadLetters))
	}
	for i, d := range got.FirstDeadLetters {
		w := want.FirstDeadLetters[i]
		if d.Position != w.Position || d.Table != w.Table || !strings.HasPrefix(d.Reason, w.Reason) {
			t.Fatalf("dead letter %d: got %+v, want %+v", i, d, w)
		}
	}
	if got.Conflicts != want.Conflicts || len(got.FirstConflicts) != len(want.FirstConflicts) {
		t.Fatalf("got %d conflicts, want %d", got.Conflicts, want.Conflicts)
	}
	for i, c := range got.FirstConflicts {
		w := want.FirstConflicts[i]
		if c.ID != w.ID || c.First != w.First || c.Second != w.Second || !strings.Contains(w.Column, c.Column) {
			t.Fatalf("conflict %d: got %+v, want %+v", i, c, w)
		}
	}
}

// Whatever the batches, the laps and the division into shards: rows and counts are those of a naive model, and every offset is
// counted once.
func TestShardsAgainstNaive(t *testing.T) {
	rounds := 12
	if testenv.Full() {
		rounds = 48
	}
	for round := range rounds {
		rng := rand.New(rand.NewPCG(7, uint64(round)))
		log := randomLog(rng, 30+rng.IntN(900))
		window := &spec.Window{From: 200, To: 1100}
		if round%5 == 4 {
			window = &spec.Window{From: 0, To: 2000}
		}
		base := Config{
			Outputs: []Output{{Table: "totals", Transform: fold}, {Table: "copies", Transform: copies}},
			Window:  window, Columns: columns, Time: "at", ID: "id",
			Tail: map[int32]plan.Ranges{0: {{First: 100, Next: 1 << 40}}, 2: {{First: 0, Next: 60}, {First: 90, Next: 120}}},
		}
		if round%4 == 3 {
			base.ID = ""
		}
		var slots []partition.Slot
		for from := window.From; from < window.To; {
			to := min(from+1+rng.Int64N(300), window.To)
			slots = append(slots, partition.Slot{Label: fmt.Sprintf("s%04d", from), From: from, To: to})
			from = to
		}
		var shards [][]partition.Slot
		for len(slots) > 0 {
			n := 1 + rng.IntN(len(slots))
			shards, slots = append(shards, slots[:n]), slots[n:]
		}
		counted := map[string]int64{}
		for i, mine := range shards {
			c := base
			c.Scheme, c.Slots = partition.Scheme{Unit: partition.Day, Column: "at", Zone: "UTC"}, mine
			c.Owned = map[int32]plan.Ranges{}
			owned := func(e event) bool { return e.offset/7%int64(len(shards)) == int64(i) }
			var read []event
			for _, e := range log {
				if owned(e) {
					c.Owned[e.partition] = c.Owned[e.partition].Union(plan.Ranges{{First: e.offset, Next: e.offset + 1}})
				}
				in := mine[0].From <= e.at && e.at < mine[len(mine)-1].To && e.unread == ""
				if in || owned(e) || rng.IntN(2) == 0 {
					read = append(read, e)
				}
			}
			wantRows, want := naive(read, c, owned, func(e event) string {
				for _, s := range mine {
					if s.From <= e.at && e.at < s.To {
						return s.Label
					}
				}
				return ""
			})
			var prints bytes.Buffer
			c.Fingerprints = &prints
			rows, res := inLaps(t, rng, read, c, 8)
			if !reflect.DeepEqual(rows, wantRows) {
				t.Fatalf("round %d, shard %d: got %v\nwant %v", round, i, rows, wantRows)
			}
			sameResult(t, res, want)
			fingerprints := unpack(prints.Bytes())
			if (len(fingerprints) > 0) != (c.ID != "" && len(rows) > 0) && len(wantRows) > 0 || !slices.IsSortedFunc(fingerprints, byGroup) {
				t.Fatalf("round %d: %d fingerprints", round, len(fingerprints))
			}
			for _, count := range res.Counts {
				counted[count.Table] += count.Total()
			}
			if round%8 > 0 && !testenv.Full() {
				continue
			}
			// A worker with next to no memory, or with some of what it needs, finds the same.
			var again bytes.Buffer
			c.Fingerprints, c.Memory, c.Scratch = &again, 1+rng.Int64N(1<<(10+rng.IntN(9))), t.TempDir()
			rows, res = inLaps(t, rng, read, c, []int{1, 3, 8, 40}[rng.IntN(4)])
			if !reflect.DeepEqual(rows, wantRows) {
				t.Fatalf("round %d, shard %d, %d bytes of memory: got %v\nwant %v", round, i, c.Memory, rows, wantRows)
			}
			sameResult(t, res, want)
			if got := unpack(again.Bytes()); !slices.IsSortedFunc(got, byGroup) || !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(fingerprints))) {
				t.Fatalf("round %d, %d bytes of memory: other fingerprints", round, c.Memory)
			}
			if left, err := os.ReadDir(c.Scratch); err != nil || len(left) > 0 {
				t.Fatalf("files are left on scratch: %v, %v", left, err)
			}
		}
		for table, n := range counted {
			if n != int64(len(log)) {
				t.Fatalf("round %d: table %s accounts for %d of %d rows", round, table, n, len(log))
			}
		}
	}
	for at, n := range ends {
		if n == 0 {
			t.Errorf("no lap ended in stage %d", at)
		}
	}
	t.Logf("laps that ended while reading, deciding, replaying and draining: %v", ends)
}

func unpack(b []byte) (out []uint64) {
	for ; len(b) > 0; b = b[8:] {
		out = append(out, binary.LittleEndian.Uint64(b))
	}
	return out
}

func byGroup(a, b uint64) int { return FingerprintGroup(a) - FingerprintGroup(b) }

// Rows that have no key are passed on while the shard goes on; what comes of it is what comes of those that wait, whatever finds room and wherever laps end.
func TestRowsPassedOnEarlyAreTheSame(t *testing.T) {
	type plainRow struct {
		Key string `row:"key"`
		N   int64  `row:"n"`
	}
	free := job.Map[in, plainRow]{Each: func(e *in, emit func(plainRow)) {
		for range e.N % 3 {
			emit(plainRow{e.Key, e.N})
		}
	}}
	before := passedEarly
	rounds := 2
	if testenv.Full() {
		rounds = 20
	}
	for round := range rounds {
		rng := rand.New(rand.NewPCG(31, uint64(round)))
		log := randomLog(rng, 600)
		c := small(nil)
		c.Outputs = []Output{{Table: "totals", Transform: fold}, {Table: "copies", Transform: free}}
		if c.Slots = []partition.Slot{{Label: "a", From: 0, To: 400}, {Label: "b", From: 400, To: 1000}}; round%2 == 1 {
			c.ID = ""
		}
		want := map[string][]string{}
		c.Sink = collect(want)
		res, err := Run(t.Context(), &reader{rng: rng, events: log}, c)
		if err != nil {
			t.Fatal(err)
		}
		for _, memory := range []int64{0, 30_000, 3000} {
			for _, often := range []int{0, 5} {
				c.Memory, c.Scratch = memory, t.TempDir()
				rows, got := inLaps(t, rng, log, c, often)
				if !reflect.DeepEqual(rows, want) {
					t.Fatalf("round %d, %d bytes, laps %d: got %v\nwant %v", round, memory, often, rows, want)
				}
				sameResult(t, got, res)
			}
		}
	}
	if passedEarly-before < 1000 {
		t.Errorf("%d rows were passed on early", passedEarly-before)
	}
}

func TestBucketsAgainstNaive(t *testing.T) {
	for round := range 20 {
		rng := rand.New(rand.NewPCG(8, uint64(round)))
		log := randomLog(rng, 600)
		scheme := partition.Scheme{Buckets: 5}
		c := Config{
			Outputs: []Output{{Table: "totals", Transform: fold, BucketColumn: "key"}, {Table: "copies", Transform: copies, BucketColumn: "key"}},
			Scheme:  scheme, Columns: columns, Time: "at", ID: "id", Owned: map[int32]plan.Ranges{0: {{First: 0, Next: 1 << 40}}},
		}
		for p := range int32(3) {
			c.Owned[p] = plan.Ranges{{First: 0, Next: 1 << 40}}
		}
		wantRows, want := naive(log, c, func(event) bool { return true }, func(e event) string {
			return partition.BucketLabel(scheme.Bucket([]byte(e.key)))
		})
		rows, res := inLaps(t, rng, log, c, 8)
		if !reflect.DeepEqual(rows, wantRows) {
			t.Fatalf("round %d: got %v\nwant %v", round, rows, wantRows)
		}
		sameResult(t, res, want)
	}
}

func small(sink Sink) Config {
	if sink == nil {
		sink = collect(map[string][]string{})
	}
	return Config{
		Outputs: []Output{{Table: "totals", Transform: fold}}, Scheme: partition.Scheme{Unit: partition.Day, Column: "at", Zone: "UTC"},
		Slots:   []partition.Slot{{Label: "all", From: 0, To: 1000}},
		Columns: columns, Time: "at", ID: "id", Sink: sink,
	}
}

func TestOutOfOrderRowsAreRefused(t *testing.T) {
	for name, log := range map[string][]event{
		"offset 5 is read a second time": {{offset: 4, id: "a"}, {offset: 5, id: "b"}, {partition: 1, id: "c"}, {offset: 5, id: "b"}},
		"offset 4 is read after 5":       {{offset: 5, id: "a"}, {offset: 4, id: "b"}},
		"offset 4 is read after 4":       {{offset: 4, id: "a"}, {offset: 4, id: "b"}},
	} {
		var err error
		for seed := range uint64(20) { // batches cut in all ways
			r := &reader{rng: rand.New(rand.NewPCG(seed, 0)), events: log}
			if _, err = Run(t.Context(), r, small(nil)); err == nil {
				t.Fatalf("%s: accepted", name)
			}
			if !r.closed {
				t.Fatal("the reader was left open")
			}
		}
		if !strings.Contains(err.Error(), "offset") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestErrorsEndTheShard(t *testing.T) {
	want := errors.New("disk full")
	log := []event{{offset: 4, id: "a", key: "k"}}
	r := &reader{rng: rand.New(rand.NewPCG(1, 0)), events: log}
	_, err := Run(t.Context(), r, small(func(string, string, iter.Seq2[*record.Batch, error]) error { return want }))
	if !errors.Is(err, want) || !strings.Contains(err.Error(), "table totals, partition all") {
		t.Errorf("got %v", err)
	}
	for name, sink := range map[string]Sink{
		"the sink did not take all rows": func(string, string, iter.Seq2[*record.Batch, error]) error { return nil },
	} {
		r = &reader{rng: rand.New(rand.NewPCG(1, 0)), events: log}
		if _, err := Run(t.Context(), r, small(sink)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %s", err, name)
		}
	}
	torn := small(nil)
	apply := func(t *total, e *in) {
		if t.Seen.Add(e.N); t.Seen.Has(13) {
			panic("thirteen")
		}
	}
	torn.Outputs[0].Transform = job.Fold[in, total]{Key: func(e *in) total { return total{Key: e.Key} }, Apply: apply}
	r = &reader{rng: rand.New(rand.NewPCG(1, 0)), events: []event{{partition: 3, offset: 7, id: "a", key: "k"}, {partition: 3, offset: 9, id: "b", key: "k", n: 13}}}
	if _, err := Run(t.Context(), r, torn); err == nil || !strings.HasPrefix(err.Error(), "table totals: partition 3, offset 9: Apply panicked at transform/transform_test.go:") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r = &reader{rng: rand.New(rand.NewPCG(1, 0)), events: log}
	if _, err := Run(ctx, r, small(nil)); !errors.Is(err, context.Canceled) || !r.closed {
		t.Errorf("got %v", err)
	}
}

// An event that dies for two tables, for one of them only when what its worker had no room for is computed, is one dead letter.
func TestDeadLettersDoNotDependOnMemory(t *testing.T) {
	type state struct {
		Key string `row:"key,key"`
		N   int64  `row:"n"`
	}
	bad := func(of int64) job.Fold[in, state] {
		return job.Fold[in, state]{Key: func(e *in) state { return state{Key: e.Key} }, Apply: func(s *state, e *in) {
			if s.N += e.N; e.N%of == 0 {
				panic("divisible")
			}
		}}
	}
	var log []event
	for n := range int64(400) {
		log = append(log, event{partition: int32(n / 250), offset: n, id: fmt.Sprint(n), key: fmt.Sprint(n % 97), n: n + 1})
	}
	run := func(memory int64) (map[string][]string, Result) {
		rows := map[string][]string{}
		c := small(collect(rows))
		c.Outputs, c.Memory, c.Scratch = []Output{{Table: "a", Transform: bad(2)}, {Table: "b", Transform: bad(3)}}, memory, t.TempDir()
		res, err := Run(t.Context(), &reader{rng: rand.New(rand.NewPCG(4, 4)), events: log}, c)
		if err != nil {
			t.Fatal(err)
		}
		return rows, res
	}
	wantRows, want := run(0)
	if want.DeadLetters != 267 || len(want.FirstDeadLetters) != MaxFindings {
		t.Fatalf("%d dead letters, %d told", want.DeadLetters, len(want.FirstDeadLetters))
	}
	for _, memory := range []int64{12_000, 20_000} {
		rows, got := run(memory)
		if got.PeakMemory = want.PeakMemory; !reflect.DeepEqual(got, want) || !reflect.DeepEqual(rows, wantRows) {
			t.Errorf("with %d bytes: got %+v\nwant %+v", memory, got, want)
		}
	}
}

func TestDamagedOrForeignCheckpointsAreRefused(t *testing.T) {
	t.Run("in memory", func(t *testing.T) { checkpointIsGuarded(t, 0, 1) })
	t.Run("on scratch", func(t *testing.T) { checkpointIsGuarded(t, 1, 101) })
}

// checkpointIsGuarded flips each byte, or one of so many, of the checkpoint that a worker with some memory leaves.
func checkpointIsGuarded(t *testing.T, memory int64, each int) {
	rng := rand.New(rand.NewPCG(9, 9))
	log := randomLog(rng, 300)
	c := small(nil)
	c.Memory, c.Scratch = memory, t.TempDir()
	stopped := false
	var saved bytes.Buffer
	c.Stop, c.Checkpoint = func(int64) bool { again := stopped; stopped = true; return memory == 0 || again }, &saved
	if res, err := Run(t.Context(), &reader{rng: rng, events: log}, c); err != nil || res.Done {
		t.Fatal(res, err)
	}
	c.Stop = nil
	try := func(b []byte, c Config) error {
		c.Resume = bytes.NewReader(b)
		_, err := Run(t.Context(), &reader{rng: rng, events: log}, c)
		return err
	}
	if err := try(saved.Bytes(), c); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < saved.Len(); i += each {
		damaged := bytes.Clone(saved.Bytes())
		damaged[i] ^= 1
		if err := try(damaged, c); err == nil {
			t.Fatalf("a checkpoint with byte %d flipped was taken", i)
		}
	}
	other := c
	other.Slots = []partition.Slot{{Label: "all", From: 0, To: 1001}}
	if err := try(saved.Bytes(), other); err == nil || !strings.Contains(err.Error(), "belongs to another shard") {
		t.Errorf("got %v", err)
	}
}

func TestResultIsJSON(t *testing.T) {
	r := &reader{rng: rand.New(rand.NewPCG(1, 0)), events: []event{{offset: 4, id: "a", key: "k", n: 1}, {offset: 5, id: "a", key: "k", n: 2}, {offset: 6, key: "k"}}}
	c := small(nil)
	c.Owned = map[int32]plan.Ranges{0: {{First: 0, Next: 10}}}
	res, err := Run(t.Context(), r, c)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"done":true,"cursor":{"partition":0,"offset":6},"counts":[{"partition":0,"origin":"segment","table":"totals","applied":1,"conflict":1,"dead":1}],` +
		`"dead_letters":1,"first_dead_letters":[{"partition":0,"offset":6,"reason":"column id is null or empty: the event has no id"}],` +
		`"conflicts":1,"first_conflicts":[{"id":"a","first":{"partition":0,"offset":4},"second":{"partition":0,"offset":5},"column":"n"}]}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}
