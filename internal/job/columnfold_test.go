//go:build full

package job

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"hindcast/internal/record"
)

// visit is an event of which a fold and a column fold make the same rows.
type visit struct {
	Shop  *string   `event:"shop"`
	Day   time.Time `event:"day,date"`
	Kind  string    `event:"kind"`
	N     int64     `event:"n"`
	Paid  *float64  `event:"paid"`
	At    time.Time `event:"at"`
	First bool      `event:"first"`
}

type visits struct {
	Shop  Text            `event:"shop,null"`
	Day   Column[Days]    `event:"day"`
	Kind  Text            `event:"kind"`
	N     Column[int64]   `event:"n"`
	Paid  Column[float64] `event:"paid,null"`
	At    Column[Micros]  `event:"at"`
	First Column[bool]    `event:"first"`
}

type shopDay struct {
	Shop  string      `row:"shop,key"`
	Day   time.Time   `row:"day,key,date"`
	Rows  int64       `row:"rows"`
	Mix   int64       `row:"mix"` // depends on order
	Paid  *float64    `row:"paid"`
	Kind  string      `row:"kind"`
	Kinds int64       `row:"kinds"`
	At    time.Time   `row:"at"`
	Any   bool        `row:"any"`
	Seen  Set[string] `row:"-"`
}

type shopDays struct {
	Shop  Key           `row:"shop"`
	Day   Key           `row:"day"`
	Rows  []int64       `row:"rows"`
	Mix   []int64       `row:"mix"`
	Paid  []*float64    `row:"paid"`
	Kind  []string      `row:"kind"`
	Kinds []int64       `row:"kinds"`
	At    []Micros      `row:"at"`
	Any   []bool        `row:"any"`
	Seen  []Set[string] `row:"-"`
}

func byStruct(guard bool) Fold[visit, shopDay] {
	f := Fold[visit, shopDay]{
		Where: func(v *visit) bool { return v.N%7 != 0 },
		Key:   func(v *visit) shopDay { return shopDay{Shop: *v.Shop, Day: v.Day} },
		Apply: func(s *shopDay, v *visit) {
			s.Rows++
			s.Mix = s.Mix*31 + v.N*int64(len(v.Kind))
			if v.Paid != nil {
				s.Paid = v.Paid
			}
			s.Kind, s.At, s.Any = v.Kind, v.At, s.Any || v.First
			s.Seen.Add(v.Kind)
		},
		Finish: func(s *shopDay) { s.Kinds = s.Seen.Len() },
	}
	if guard {
		f.Version = func(v *visit) int64 { return v.N }
	}
	return f
}

func byColumn(guard bool) ColumnFold[visits, shopDays] {
	f := ColumnFold[visits, shopDays]{
		Where: func(v *visits, row int32) bool { return v.N.At(row)%7 != 0 },
		Apply: func(s *shopDays, v *visits, events []Event) {
			length := Of(&v.Kind, func(kind string) int64 { return int64(len(kind)) })
			for _, e := range events {
				g := e.Group
				s.Rows[g]++
				s.Mix[g] = s.Mix[g]*31 + v.N.At(e.Row)*length.At(e.Row)
				if !v.Paid.Null(e.Row) {
					paid := v.Paid.At(e.Row)
					s.Paid[g] = &paid
				}
				s.Kind[g], s.At[g], s.Any[g] = v.Kind.At(e.Row), v.At.At(e.Row), s.Any[g] || v.First.At(e.Row)
				s.Seen[g].Add(v.Kind.At(e.Row))
			}
		},
		Finish: func(s *shopDays) {
			for g := range s.Seen {
				s.Kinds[g] = s.Seen[g].Len()
			}
		},
	}
	if guard {
		f.Version = "n"
	}
	return f
}

// shopOnly is the same with one key column.
type shopOnly struct {
	Shop string `row:"owner,key"`
	Sum  int64  `row:"sum"`
}

type shopsOnly struct {
	Shop Key     `row:"owner,from=shop"`
	Sum  []int64 `row:"sum"`
}

// dayOnly has an integer for its key, and no Where: null keys are dead letters of the one, panics of the other.
type dayOnly struct {
	N   int64 `row:"n,key"`
	Sum int64 `row:"sum"`
}

type daysOnly struct {
	N   Key     `row:"n"`
	Sum []int64 `row:"sum"`
}

// total has no key.
type totalOnly struct {
	Sum int64 `row:"sum"`
}

type totalsOnly struct {
	Sum []int64 `row:"sum"`
}

// A column fold gives what the same fold over structs gives, dead letters and all, whatever lies in dictionaries, and whatever the laps.
func TestColumnFoldsGiveWhatFoldsGive(t *testing.T) {
	bucket := func(b []byte) int { return (len(b) + 3) % 5 % 3 }
	for name, c := range map[string]struct {
		fold, columns Transform
		o             Options
	}{
		"two keys":             {byStruct(false), byColumn(false), Options{Slots: 3}},
		"two keys, guarded":    {byStruct(true), byColumn(true), Options{Slots: 3}},
		"two keys, in buckets": {byStruct(true), byColumn(true), Options{Slots: 3, Bucket: bucket}},
		"one key": {
			Fold[visit, shopOnly]{
				Key:   func(v *visit) shopOnly { return shopOnly{Shop: *v.Shop} },
				Apply: func(s *shopOnly, v *visit) { s.Sum = s.Sum*31 + v.N },
			},
			ColumnFold[visits, shopsOnly]{Apply: func(s *shopsOnly, v *visits, events []Event) {
				for _, e := range events {
					s.Sum[e.Group] = s.Sum[e.Group]*31 + v.N.At(e.Row)
				}
			}},
			Options{Slots: 3},
		},
		"an integer, in buckets": {
			Fold[visit, dayOnly]{
				Key:   func(v *visit) dayOnly { return dayOnly{N: v.N} },
				Apply: func(s *dayOnly, v *visit) { s.Sum += v.N + 1 },
			},
			ColumnFold[visits, daysOnly]{Apply: func(s *daysOnly, v *visits, events []Event) {
				for _, e := range events {
					s.Sum[e.Group] += v.N.At(e.Row) + 1
				}
			}},
			Options{Slots: 3, Bucket: bucket},
		},
		"no key": {
			Fold[visit, totalOnly]{Apply: func(s *totalOnly, v *visit) { s.Sum += v.N }},
			ColumnFold[visits, totalsOnly]{Apply: func(s *totalsOnly, v *visits, events []Event) {
				for _, e := range events {
					s.Sum[e.Group] += v.N.At(e.Row)
				}
			}},
			Options{Slots: 3},
		},
	} {
		t.Run(name, func(t *testing.T) { compareFolds(t, c.fold, c.columns, c.o) })
	}
}

func compareFolds(t *testing.T, fold, columns Transform, o Options) {
	t.Helper()
	rng := rand.New(rand.NewPCG(11, 12))
	shape, err := columns.Shape()
	if err != nil {
		t.Fatal(err)
	}
	if want, err := fold.Shape(); err != nil || !reflect.DeepEqual(shape, want) {
		t.Fatalf("%v: got %+v, want %+v", err, shape, want)
	}
	both := []Transform{withOptions{fold, o}, withOptions{columns, o}}
	runners := []Runner{open(t, both[0], 0), open(t, both[1], 0)}
	var outs [2]Outcome
	shops := &dictionaries{rng: rng, words: []string{"", "\x00", "\x00\xff", "a", "a\x00", "a\x00b", "b", "corner shop"}}
	kinds := &dictionaries{rng: rng, words: []string{"visit", "return", "gift"}}
	for n := range 40 {
		if n%4 == 0 {
			shops.next()
			kinds.next()
		}
		b, rows, slots := randomVisits(rng, shops, kinds)
		if o.Bucket != nil {
			slots = nil
		}
		for i, r := range runners {
			if err := r.Add(b, rows, slots, &outs[i]); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(9) == 0 {
				runners[i] = again(t, both[i], 0, r)
			}
		}
	}
	counts := func(o Outcome) []any {
		var rows []int32
		for _, f := range o.Failures {
			rows = append(rows, f.Row)
		}
		return []any{o.Applied, o.Filtered, o.Stale, rows}
	}
	if got, want := counts(outs[1]), counts(outs[0]); !reflect.DeepEqual(got, want) || outs[0].Applied == 0 || len(outs[0].Failures) == 0 {
		t.Errorf("got %v, want %v", got, want)
	}
	rows := 0
	for slot := range o.Slots {
		got, want := drain(t, runners[1], slot), drain(t, runners[0], slot)
		rows += len(got)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("slot %d: got %v, want %v", slot, got, want)
		}
	}
	if rows == 0 {
		t.Error("no rows")
	}
}

func randomVisits(rng *rand.Rand, shops, kinds *dictionaries) (b *record.Batch, rows, slots []int32) {
	n := 1 + rng.IntN(700)
	b = &record.Batch{Len: n, Columns: make([]record.Column, 7)}
	for i, k := range []record.Kind{record.String, record.Date, record.String, record.Int64, record.Float64, record.Timestamp, record.Bool} {
		b.Columns[i].Kind = k
	}
	c := b.Columns
	texts := [2][]string{}
	c[0].Nulls, c[4].Nulls = record.NewBitmap(n), record.NewBitmap(n)
	if rng.IntN(2) == 0 {
		c[3].Nulls = record.NewBitmap(n)
	}
	for i := range n {
		texts[0] = append(texts[0], shops.words[rng.IntN(len(shops.words))])
		texts[1] = append(texts[1], kinds.words[rng.IntN(len(kinds.words))])
		c[1].Int64s = append(c[1].Int64s, rng.Int64N(3)-1)
		c[3].Int64s = append(c[3].Int64s, rng.Int64N(500)-20)
		c[4].Float64s = append(c[4].Float64s, rng.NormFloat64())
		c[5].Int64s = append(c[5].Int64s, rng.Int64N(1e15))
		c[6].Int64s = append(c[6].Int64s, rng.Int64N(2))
		for _, k := range []int{0, 3, 4} {
			if c[k].Nulls != nil && rng.IntN(20) == 0 {
				c[k].Nulls.Set(i)
			}
		}
		if rng.IntN(10) > 0 {
			rows, slots = append(rows, int32(i)), append(slots, int32(rng.IntN(3)))
		}
	}
	c[0].Strings, c[2].Strings = shops.strings(texts[0], rng.IntN(3) == 0), kinds.strings(texts[1], rng.IntN(3) == 0)
	return b, rows, slots
}

func TestColumnFoldsAreVoidAfterAPanic(t *testing.T) {
	f := byColumn(false)
	f.Apply = func(s *shopDays, v *visits, events []Event) {
		s.Rows[events[0].Group] += int64(len(v.Shop.At(events[0].Row))) / int64(len(events)-2)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	shops, kinds := &dictionaries{rng: rng, words: []string{"a"}}, &dictionaries{rng: rng, words: []string{"k"}}
	shops.next()
	kinds.next()
	b, _, _ := randomVisits(rng, shops, kinds)
	b.Columns[0].Nulls, b.Columns[3].Nulls = nil, nil
	for i := range b.Len {
		b.Columns[1].Int64s[i], b.Columns[3].Int64s[i] = 0, 1
		b.Offsets = append(b.Offsets, int64(100+i))
	}
	var out Outcome
	err := open(t, f, 1).Add(b, []int32{3, 5}, nil, &out)
	if err == nil || !strings.HasPrefix(err.Error(), "row 3: Apply panicked at job/columnfold_test.go:") || !strings.HasSuffix(err.Error(),
		"it was given 2 events of offsets 103 to 105, whose groups may be half changed") {
		t.Errorf("got %v", err)
	}
	f.Apply = func(s *shopDays, _ *visits, _ []Event) { s.Mix = append(s.Mix, 1) }
	if err := open(t, f, 1).Add(b, []int32{3, 5}, nil, &out); err == nil || !strings.Contains(err.Error(), "Apply left shopDays.Mix with 2 values for 1 groups") {
		t.Errorf("got %v", err)
	}
	f.Apply = func(_ *shopDays, v *visits, events []Event) { v.Paid.At(events[0].Row) }
	b.Columns[4].Nulls.Set(3)
	if err := open(t, f, 1).Add(b, []int32{3, 5}, nil, &out); err == nil || !strings.Contains(err.Error(), "the value is null: ask Null before At") {
		t.Errorf("got %v", err)
	}
}

// Groups do not keep the dictionaries that their strings came from.
func TestGroupsDoNotHoldDictionaries(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	shops, kinds := &dictionaries{rng: rng, words: []string{"a", "b"}}, &dictionaries{rng: rng, words: []string{"visit", "return"}}
	r := open(t, byColumn(false), 3).(*columnRunner[visits, shopDays])
	held := 0
	for range 10 {
		shops.next()
		kinds.next()
		b, rows, slots := randomVisits(rng, shops, kinds)
		var out Outcome
		if err := r.Add(b, rows, slots, &out); err != nil {
			t.Fatal(err)
		}
		if r.events.Kind.dict.active {
			held++
		}
		for i := range r.columns {
			if c := &r.columns[i]; c.name == "shopDays.Kind" {
				for g := range r.state.Kind {
					if !c.borrowed || r.lent(*(*unsafe.Pointer)(c.value(uint32(g)))) {
						t.Fatalf("group %d holds its kind's dictionary", g)
					}
				}
			}
		}
	}
	if held == 0 {
		t.Error("no dictionary was used")
	}
}

func TestColumnFoldsThatCannotBeAreRefused(t *testing.T) {
	type plainState struct {
		Shop Key   `row:"shop"`
		Sum  int64 `row:"sum"`
	}
	type lateKey struct {
		Sum  []int64 `row:"sum"`
		Shop Key     `row:"shop"`
	}
	type noSuch struct {
		Shop Key     `row:"who"`
		Sum  []int64 `row:"sum"`
	}
	type floatKey struct {
		Paid Key     `row:"paid"`
		Sum  []int64 `row:"sum"`
	}
	type private struct {
		Sum  []int64     `row:"sum"`
		Seen Set[string] `row:"-"`
	}
	type notPlain struct {
		Sum []int64  `row:"sum"`
		F   []func() `row:"-"`
	}
	type structEvent struct {
		N int64 `event:"n"`
	}
	for want, tr := range map[string]Transform{
		"field plainState.Sum: tag `row:\"sum\"`: type int64 has no place for a value a group: use a slice": ColumnFold[visits, plainState]{Apply: nothing[visits, plainState]},
		"key columns come first: move it before field lateKey.Sum":                                          ColumnFold[visits, lateKey]{Apply: nothing[visits, lateKey]},
		"field noSuch.Shop: visits has no column who to be the key: add a field for it, or name another":    ColumnFold[visits, noSuch]{Apply: nothing[visits, noSuch]},
		"field floatKey.Paid: a float cannot be a key":                                                      ColumnFold[visits, floatKey]{Apply: nothing[visits, floatKey]},
		"field private.Seen: private state has a value a group: make it []job.Set[string]":                  ColumnFold[visits, private]{Apply: nothing[visits, private]},
		"private state must be plain data":                                                                  ColumnFold[visits, notPlain]{Apply: nothing[visits, notPlain]},
		"type int64 is no column of events: use job.Text":                                                   ColumnFold[structEvent, shopDays]{Apply: nothing[structEvent, shopDays]},
		"fold has no Apply":                           ColumnFold[visits, shopDays]{},
		"visits has no int64 column day without null": ColumnFold[visits, shopDays]{Apply: nothing[visits, shopDays], Version: "day"},
	} {
		if _, err := tr.Shape(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if _, err := tr.Open(Options{Slots: 1}); err == nil {
			t.Errorf("%s: it was opened", want)
		}
	}
}

func nothing[E, S any](*S, *E, []Event) {}
