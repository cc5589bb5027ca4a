package job

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"
	"unsafe"

	"hindcast/internal/record"
)

// every has a field of each type that a column can be.
type every struct {
	S  string     `event:"s"`
	B  []byte     `event:"b"`
	T  bool       `event:"t"`
	I  int64      `event:"i"`
	J  int32      `event:"j"`
	F  float64    `event:"f"`
	A  time.Time  `event:"a"`
	D  time.Time  `event:"d,date"`
	SP *string    `event:"sp"`
	BP *[]byte    `event:"bp"`
	TP *bool      `event:"tp"`
	IP *int       `event:"ip"`
	JP *int32     `event:"jp"`
	FP *float64   `event:"fp"`
	AP *time.Time `event:"ap"`
	DP *time.Time `event:"dp,date"`
}

// everyRow is a row of the same, keyed by three of them.
type everyRow struct {
	S  string     `row:"s,key"`
	I  int64      `row:"i,key"`
	B  []byte     `row:"b,key"`
	T  bool       `row:"t"`
	J  int32      `row:"j"`
	F  float64    `row:"f"`
	A  time.Time  `row:"a"`
	D  time.Time  `row:"d,date"`
	SP *string    `row:"sp"`
	BP *[]byte    `row:"bp"`
	TP *bool      `row:"tp"`
	IP *int       `row:"ip"`
	JP *int32     `row:"jp"`
	FP *float64   `row:"fp"`
	AP *time.Time `row:"ap"`
	DP *time.Time `row:"dp,date"`
}

func rowOf(e *every) everyRow {
	return everyRow{
		S: e.S, I: e.I, B: e.B, T: e.T, J: e.J, F: e.F, A: e.A, D: e.D,
		SP: e.SP, BP: e.BP, TP: e.TP, IP: e.IP, JP: e.JP, FP: e.FP, AP: e.AP, DP: e.DP,
	}
}

// randomBatch returns rows of every's columns, strings by dictionary or not, nulls where the column may have them.
func randomBatch(rng *rand.Rand, schema record.Schema, rows int) *record.Batch {
	b := &record.Batch{Len: rows}
	for _, f := range schema {
		c := record.Column{Kind: f.Kind}
		if f.Nullable && rng.IntN(4) > 0 {
			c.Nulls = record.NewBitmap(rows)
			for i := range rows {
				if rng.IntN(3) == 0 {
					c.Nulls.Set(i)
				}
			}
		}
		switch f.Kind {
		case record.String:
			c.Strings = randomStrings(rng, rows, c.Nulls)
		case record.Float64:
			for range rows {
				c.Float64s = append(c.Float64s, rng.NormFloat64())
			}
		case record.Bool:
			for range rows {
				c.Int64s = append(c.Int64s, int64(rng.IntN(2)))
			}
		case record.Timestamp:
			for range rows {
				c.Int64s = append(c.Int64s, rng.Int64N(4e15)-2e15)
			}
		default:
			for range rows {
				c.Int64s = append(c.Int64s, rng.Int64N(20)-10)
			}
		}
		b.Columns = append(b.Columns, c)
	}
	return b
}

func randomStrings(rng *rand.Rand, rows int, nulls record.Bitmap) record.Strings {
	word := func() []byte {
		w := make([]byte, rng.IntN(5))
		for i := range w {
			w[i] = "\x00\x01ab\xff"[rng.IntN(5)]
		}
		return w
	}
	var s record.Strings
	n := rows
	if rng.IntN(2) == 0 {
		n = 1 + rng.IntN(2*rows)
		for i := range rows {
			if s.Codes = append(s.Codes, uint32(rng.IntN(n))); nulls.Get(i) {
				s.Codes[i] = 1 << 31 // undefined
			}
		}
	}
	s.Offsets = []uint32{0}
	for range n {
		s.Append(word())
	}
	return s
}

// values reads a row of a batch, nil for nulls: what a naive reader would see.
func values(b *record.Batch, row int) []any {
	var out []any
	for i := range b.Columns {
		c := &b.Columns[i]
		switch {
		case c.Nulls.Get(row):
			out = append(out, nil)
		case c.Kind == record.String:
			out = append(out, string(c.Strings.At(row)))
		case c.Kind == record.Float64:
			out = append(out, c.Float64s[row])
		default:
			out = append(out, c.Int64s[row])
		}
	}
	return out
}

func drain(t *testing.T, r Runner, slot int) [][]any {
	t.Helper()
	var out [][]any
	err := r.Drain(slot, func(b *record.Batch) error {
		for i := range b.Len {
			out = append(out, values(b, i))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// scrub overwrites what a batch held, as a producer may before the next.
func scrub(b *record.Batch) {
	for i := range b.Columns {
		c := &b.Columns[i]
		for j := range c.Int64s {
			c.Int64s[j] = -77
		}
		for j := range c.Strings.Data {
			c.Strings.Data[j] = '!'
		}
	}
}

func allRows(n int) []int32 {
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(i)
	}
	return rows
}

// inRowOrder moves the values of an event to where everyRow has them.
func inRowOrder(v []any) []any {
	return append([]any{v[0], v[3], v[1], v[2]}, v[4:]...)
}

func compareRows(a, b []any, keys int) int {
	for k := range keys {
		var c int
		switch x := a[k].(type) {
		case string:
			c = strings.Compare(x, b[k].(string))
		case int64:
			c = int(x - b[k].(int64))
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

// A map that copies every column gives what went in, sorted by key and otherwise in order, whatever the batches,
// the encoding of strings, and laps between.
func TestMapCopiesEveryColumn(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	m := Map[every, everyRow]{Each: func(e *every, emit func(everyRow)) { emit(rowOf(e)) }}
	shape, err := m.Shape()
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, m, 2)
	want := make([][][]any, 2)
	var out Outcome
	for range 30 {
		b := randomBatch(rng, shape.Events, 1+rng.IntN(700))
		var rows, slots []int32
		for i := range b.Len {
			if rng.IntN(3) > 0 {
				slot := rng.IntN(2)
				rows, slots = append(rows, int32(i)), append(slots, int32(slot))
				want[slot] = append(want[slot], inRowOrder(values(b, i)))
			}
		}
		if err := r.Add(b, rows, slots, &out); err != nil {
			t.Fatal(err)
		}
		scrub(b)
		if rng.IntN(5) == 0 {
			r = again(t, m, 2, r)
		}
	}
	if len(out.Failures) > 0 {
		t.Fatal(out.Failures[0].Err)
	}
	for slot := range want {
		sort.SliceStable(want[slot], func(i, j int) bool { return compareRows(want[slot][i], want[slot][j], 3) < 0 })
		if got := drain(t, r, slot); !reflect.DeepEqual(got, want[slot]) {
			t.Fatalf("slot %d: %d rows differ from the %d expected", slot, len(got), len(want[slot]))
		}
	}
}

func open(t *testing.T, tr Transform, slots int) Runner {
	t.Helper()
	r, err := tr.Open(Options{Slots: slots})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// again takes a runner through a snapshot, twice: the bytes must be the same.
func again(t *testing.T, tr Transform, slots int, r Runner) Runner {
	t.Helper()
	var first, second bytes.Buffer
	if err := r.Snapshot(&first); err != nil {
		t.Fatal(err)
	}
	restored := open(t, tr, slots)
	if err := restored.Restore(bytes.NewReader(first.Bytes())); err != nil {
		t.Fatal(err)
	}
	if err := restored.Snapshot(&second); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Fatal("a restored runner has another snapshot")
	}
	for _, cut := range []int{0, 1, first.Len() / 2, first.Len() - 1} {
		if cut >= 0 && cut < first.Len() && open(t, tr, slots).Restore(bytes.NewReader(first.Bytes()[:cut])) == nil {
			t.Fatalf("a snapshot cut at %d of %d was taken", cut, first.Len())
		}
	}
	return restored
}

// lastSeen is a state that keeps what events lend: strings, bytes, pointers, in columns and in private state.
type lastSeen struct {
	S     string           `row:"s,key"`
	I     int64            `row:"i,key"`
	N     int64            `row:"n"`
	Last  string           `row:"last"`
	Ptr   *string          `row:"ptr"`
	Raw   []byte           `row:"raw"`
	Num   *int             `row:"num"`
	At    *time.Time       `row:"at"`
	Size  int64            `row:"size"`
	Words Set[string]      `row:"-"`
	Per   map[int32]string `row:"-"`
	Held  string           `row:"-"`
}

func lastSeenFold() Fold[every, lastSeen] {
	return Fold[every, lastSeen]{
		Where: func(e *every) bool { return e.J != 0 },
		Key:   func(e *every) lastSeen { return lastSeen{S: e.S, I: e.I} },
		Apply: func(s *lastSeen, e *every) {
			s.N++
			s.Last, s.Ptr, s.Raw, s.Num, s.At, s.Held = s.Held, e.SP, e.B, e.IP, e.AP, string(e.B)+e.S
			s.Held = e.S
			s.Words.Add(string(e.B))
			if s.Per == nil {
				s.Per = map[int32]string{}
			}
			s.Per[e.J] = e.S
		},
		Finish: func(s *lastSeen) {
			s.Size = s.Words.Len()
			for _, v := range s.Per {
				s.Size += int64(len(v)) * 1000
			}
		},
	}
}

// A fold over all types of state gives what a naive fold over boxed values gives.
func TestFoldAgainstNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	f := lastSeenFold()
	shape, err := f.Shape()
	if err != nil {
		t.Fatal(err)
	}
	const s, b, i, j, sp, ip, ap = 0, 1, 3, 4, 8, 11, 14 // columns
	type state struct {
		row   []any
		held  string
		words map[string]bool
		per   map[int64]string
	}
	naive := make([]map[string]*state, 3)
	for k := range naive {
		naive[k] = map[string]*state{}
	}
	r := open(t, f, 3)
	var out Outcome
	var applied, filtered int64
	for range 40 {
		batch := randomBatch(rng, shape.Events, 1+rng.IntN(900))
		var slots []int32
		for row := range batch.Len {
			slot := rng.IntN(3)
			slots = append(slots, int32(slot))
			v := values(batch, row)
			if v[j].(int64) == 0 {
				filtered++
				continue
			}
			applied++
			key := fmt.Sprintf("%q %d", v[s], v[i])
			st := naive[slot][key]
			if st == nil {
				st = &state{row: []any{v[s], v[i], int64(0), "", nil, nil, nil, nil, nil}, words: map[string]bool{}, per: map[int64]string{}}
				naive[slot][key] = st
			}
			st.row[2] = st.row[2].(int64) + 1
			st.row[3], st.row[4], st.row[5], st.row[6], st.row[7] = st.held, v[sp], v[b], v[ip], v[ap]
			st.held = v[s].(string)
			st.words[v[b].(string)] = true
			st.per[v[j].(int64)] = v[s].(string)
		}
		if err := r.Add(batch, allRows(batch.Len), slots, &out); err != nil {
			t.Fatal(err)
		}
		scrub(batch)
		if rng.IntN(6) == 0 {
			r = again(t, f, 3, r)
		}
	}
	if out.Applied != applied || out.Filtered != filtered || len(out.Failures) > 0 {
		t.Fatalf("got %+v, want %d applied, %d filtered", out, applied, filtered)
	}
	for slot := range naive {
		var want [][]any
		for _, st := range naive[slot] {
			size := int64(len(st.words))
			for _, v := range st.per {
				size += int64(len(v)) * 1000
			}
			st.row[8] = size
			want = append(want, st.row)
		}
		slices.SortFunc(want, func(a, b []any) int { return compareRows(a, b, 2) })
		if got := drain(t, r, slot); !reflect.DeepEqual(got, want) {
			t.Fatalf("slot %d: got %d rows, want %d:\n%v\n%v", slot, len(got), len(want), got[0], want[0])
		}
	}
}

// What a state took from an event is its own after the block: no field points into the events' memory.
func TestStatesDoNotHoldEvents(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	f := lastSeenFold()
	shape, _ := f.Shape()
	r := open(t, f, 1).(*foldRunner[every, lastSeen])
	for range 5 {
		b := randomBatch(rng, shape.Events, blockRows)
		var out Outcome
		if err := r.Add(b, allRows(b.Len), nil, &out); err != nil {
			t.Fatal(err)
		}
		for id := range r.states.entries {
			s := r.states.at(uint32(id))
			held := r.in.holds(unsafe.Pointer(unsafe.StringData(s.S))) || r.in.holds(unsafe.Pointer(unsafe.StringData(s.Last))) ||
				r.in.holds(unsafe.Pointer(unsafe.StringData(s.Held))) || r.in.holds(unsafe.Pointer(unsafe.SliceData(s.Raw))) ||
				r.in.holds(unsafe.Pointer(s.Ptr)) || r.in.holds(unsafe.Pointer(s.At)) || r.in.holds(unsafe.Pointer(s.Num)) ||
				s.Ptr != nil && r.in.holds(unsafe.Pointer(unsafe.StringData(*s.Ptr)))
			if held {
				t.Fatalf("state %d points into an event: %+v", id, s)
			}
		}
	}
}

type simple struct {
	K string `event:"k"`
	N int64  `event:"n"`
	S int32  `event:"small"`
}

type sum struct {
	K string `row:"k,key"`
	N int64  `row:"n"`
}

func simpleBatch(rows ...simple) *record.Batch {
	b := &record.Batch{Len: len(rows), Columns: []record.Column{{Kind: record.String}, {Kind: record.Int64}, {Kind: record.Int64}}}
	for _, r := range rows {
		b.Columns[0].Strings.Append([]byte(r.K))
		b.Columns[1].Int64s = append(b.Columns[1].Int64s, r.N)
		b.Columns[2].Int64s = append(b.Columns[2].Int64s, int64(r.S))
	}
	return b
}

func TestVersionGuard(t *testing.T) {
	f := Fold[simple, sum]{
		Key:     func(e *simple) sum { return sum{K: e.K} },
		Apply:   func(s *sum, e *simple) { s.N += e.N },
		Version: func(e *simple) int64 { return int64(e.S) },
	}
	r := open(t, f, 1)
	var out Outcome
	b := simpleBatch(simple{"a", 1, -5}, simple{"a", 10, -5}, simple{"b", 100, 2}, simple{"a", 1000, -6})
	if err := r.Add(b, allRows(4), nil, &out); err != nil {
		t.Fatal(err)
	}
	r = again(t, f, 1, r)
	b = simpleBatch(simple{"a", 2, -4}, simple{"b", 200, 1}, simple{"b", 400, 3})
	if err := r.Add(b, allRows(3), nil, &out); err != nil {
		t.Fatal(err)
	}
	if out.Applied != 4 || out.Stale != 3 {
		t.Errorf("got %+v", out)
	}
	if got, want := drain(t, r, 0), [][]any{{"a", int64(3)}, {"b", int64(500)}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := r.Add(b, allRows(3), nil, &out); err == nil {
		t.Error("rows were added after draining")
	}
}

func TestPoisonEventsFailAlone(t *testing.T) {
	boom := func(e *simple, at int64) {
		if e.N == at {
			panic(fmt.Sprint("boom ", at))
		}
	}
	f := Fold[simple, sum]{
		Where: func(e *simple) bool { boom(e, -1); return true },
		Key:   func(e *simple) sum { boom(e, -2); return sum{K: e.K} },
		Apply: func(s *sum, e *simple) { s.N += e.N; boom(e, -3) },
	}
	r := open(t, f, 1)
	b := simpleBatch(simple{"a", 1, 0}, simple{"a", -1, 0}, simple{"a", -2, 0}, simple{"a", -3, 0}, simple{"new", -3, 0}, simple{"a", 5, 0},
		simple{"null", 7, 0}, simple{"wide", 7, 0})
	b.Columns[1].Nulls = record.NewBitmap(b.Len)
	b.Columns[1].Nulls.Set(6)
	b.Columns[2].Int64s[7] = 1 << 40
	var out Outcome
	if err := r.Add(b, allRows(b.Len), nil, &out); err != nil {
		t.Fatal(err)
	}
	if got, want := drain(t, r, 0), [][]any{{"a", int64(6)}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	_, file, _, _ := runtime.Caller(0)
	if !strings.HasSuffix(file, "runner_test.go") {
		t.Fatal(file)
	}
	want := []string{
		"Where panicked at job/runner_test.go:", "Key panicked at job/runner_test.go:", "Apply panicked at job/runner_test.go:", "Apply panicked at",
		"column n is null, which field simple.N cannot hold: make it a pointer", "column small is null or beyond 32 bits, which field simple.S",
	}
	if out.Applied != 2 || len(out.Failures) != len(want) {
		t.Fatalf("got %+v", out)
	}
	for i, f := range out.Failures {
		if f.Row != []int32{1, 2, 3, 4, 6, 7}[i] || !strings.HasPrefix(f.Err.Error(), want[i]) {
			t.Errorf("failure %d: row %d: %v", i, f.Row, f.Err)
		}
	}
}

func TestPanicThatTearsStateVoidsTheComputation(t *testing.T) {
	type set struct {
		K    string           `row:"k,key"`
		Seen map[string]int64 `row:"-"`
	}
	f := Fold[simple, set]{
		Key: func(e *simple) set { return set{K: e.K, Seen: map[string]int64{}} },
		Apply: func(s *set, e *simple) {
			s.Seen["x"]++
			if e.N == 2 {
				var none []int64
				none[e.N]++
			}
		},
	}
	var out Outcome
	if err := open(t, f, 1).Add(simpleBatch(simple{"a", 2, 0}), allRows(1), nil, &out); err != nil || len(out.Failures) != 1 {
		t.Errorf("a fresh state is thrown away: %v, %+v", err, out)
	}
	err := open(t, f, 1).Add(simpleBatch(simple{"a", 1, 0}, simple{"a", 2, 0}), allRows(2), nil, &out)
	if err == nil || !strings.Contains(err.Error(), "row 1: Apply panicked at job/runner_test.go:") || !strings.Contains(err.Error(), "half changed") {
		t.Errorf("got %v", err)
	}
}

func TestMapTakesAnEventWholeOrNotAtAll(t *testing.T) {
	type row struct {
		K  string    `row:"k,key"`
		At time.Time `row:"at"`
	}
	m := Map[simple, row]{
		Each: func(e *simple, emit func(row)) {
			for i := range e.N {
				at := time.UnixMicro(i)
				if e.K == "late" && i == 2 {
					at = time.Date(300000, 1, 1, 0, 0, 0, 0, time.UTC)
				}
				emit(row{fmt.Sprint(e.K, i), at})
			}
			if e.K == "panic" {
				panic("after rows")
			}
		},
	}
	r, err := m.Open(Options{Slots: 4, Bucket: func(b []byte) int { return int(b[len(b)-1]) % 4 }})
	if err != nil {
		t.Fatal(err)
	}
	var out Outcome
	b := simpleBatch(simple{"a", 3, 0}, simple{"late", 4, 0}, simple{"none", 0, 0}, simple{"panic", 2, 0}, simple{"z", 1, 0})
	if err := r.Add(b, allRows(b.Len), nil, &out); err != nil {
		t.Fatal(err)
	}
	if out.Applied != 2 || out.Filtered != 1 || len(out.Failures) != 2 {
		t.Errorf("got %+v", out)
	}
	var got []any
	for slot := range 4 {
		for _, row := range drain(t, r, slot) {
			got = append(got, row[0])
		}
	}
	if want := []any{"a0", "z0", "a1", "a2"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestBadRowsAreNamedWhenDrained(t *testing.T) {
	key := func(e *simple) sum { return sum{K: e.K} }
	for want, f := range map[string]Transform{
		`row of key "a": a key column of sum was changed by Apply or Finish`: Fold[simple, sum]{
			Key: key, Apply: func(*sum, *simple) {}, Finish: func(s *sum) { s.K = "b" },
		},
		"Finish panicked at job/runner_test.go:": Fold[simple, sum]{
			Key: key, Apply: func(*sum, *simple) {}, Finish: func(*sum) { panic("no") },
		},
	} {
		r := open(t, f, 1)
		var out Outcome
		if err := r.Add(simpleBatch(simple{K: "a"}), allRows(1), nil, &out); err != nil {
			t.Fatal(err)
		}
		if err := r.Drain(0, func(*record.Batch) error { return nil }); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestSnapshotRefusesZonedTimes(t *testing.T) {
	type state struct {
		N  int64     `row:"n"`
		At time.Time `row:"-"`
	}
	f := Fold[simple, state]{Apply: func(s *state, _ *simple) { s.At = time.Unix(0, 0).In(time.FixedZone("X", 3600)) }}
	r := open(t, f, 1)
	var out Outcome
	if err := r.Add(simpleBatch(simple{}), allRows(1), nil, &out); err != nil {
		t.Fatal(err)
	}
	if err := r.Snapshot(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "time in zone X") {
		t.Errorf("got %v", err)
	}
}

func TestWrongColumnsAreRefused(t *testing.T) {
	f := Fold[simple, sum]{Key: func(e *simple) sum { return sum{K: e.K} }, Apply: func(*sum, *simple) {}}
	var out Outcome
	b := simpleBatch(simple{})
	b.Columns[0], b.Columns[1] = b.Columns[1], b.Columns[0]
	if err := open(t, f, 1).Add(b, allRows(1), nil, &out); err == nil || err.Error() != "column k is int64, field simple.K reads string" {
		t.Errorf("got %v", err)
	}
}

func BenchmarkFold(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	var rows []simple
	for range 8192 {
		rows = append(rows, simple{fmt.Sprint("country ", rng.IntN(38)), rng.Int64N(1000), 1})
	}
	f := Fold[simple, sum]{Key: func(e *simple) sum { return sum{K: e.K} }, Apply: func(s *sum, e *simple) { s.N += e.N }}
	r, _ := f.Open(Options{Slots: 1})
	batch, all := simpleBatch(rows...), allRows(len(rows))
	var out Outcome
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Add(batch, all, nil, &out); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*float64(len(rows))/b.Elapsed().Seconds(), "rows/s")
}
