//go:build full

package job

import (
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"hindcast/internal/record"
)

// noted is a row of which most columns pass through, spelled one in which none does.
type noted struct {
	Shop  Same[string]  `row:"shop,key,from=shop"`
	N     int64         `row:"n,key"`
	Kind  Same[string]  `row:"sort,from=kind"`
	Paid  Same[float64] `row:"paid,null"`
	Day   Same[Days]    `row:"day"`
	At    Same[Micros]  `row:"at"`
	First Same[bool]    `row:"first"`
}

type spelled struct {
	Shop  string   `row:"shop,key"`
	N     int64    `row:"n,key"`
	Kind  string   `row:"sort"`
	Paid  *float64 `row:"paid"`
	Day   Days     `row:"day"`
	At    Micros   `row:"at"`
	First bool     `row:"first"`
}

// spelledVisit reads what the other map does not have to.
type spelledVisit struct {
	N     int64    `event:"n"`
	Shop  *string  `event:"shop"` // no row where it is null
	Kind  string   `event:"kind"`
	Paid  *float64 `event:"paid"`
	Day   Days     `event:"day"`
	At    Micros   `event:"at"`
	First bool     `event:"first"`
}

type numbered struct {
	N int64 `event:"n"`
}

type numberedShop struct {
	N    int64   `event:"n"`
	Shop *string `event:"shop"`
}

// times emits a row several times, and fails for some events after a few.
func times[R any](n int64, row func(int64) R, emit func(R)) {
	for i := range n % 4 {
		if n%31 == 0 && i == 2 {
			panic("no 31")
		}
		emit(row(n + i))
	}
}

// A map whose columns pass through gives what one gives that spells them out.
func TestColumnsPassThrough(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	through := Map[numberedShop, noted]{Each: func(e *numberedShop, emit func(noted)) {
		times(e.N, func(n int64) noted { return noted{N: n} }, emit)
	}}
	spelt := Map[spelledVisit, spelled]{Each: func(e *spelledVisit, emit func(spelled)) {
		times(e.N, func(n int64) spelled { return spelled{*e.Shop, n, e.Kind, e.Paid, e.Day, e.At, e.First} }, emit)
	}}
	shape, err := through.Shape()
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"shop", "", "kind", "paid", "day", "at", "first"}; !reflect.DeepEqual(shape.Same, want) || shape.Passing != 5 {
		t.Errorf("%q pass through, %d of which nothing else reads", shape.Same, shape.Passing)
	}
	shape.Same, shape.Passing = nil, 0
	want, err := spelt.Shape()
	if err != nil || !reflect.DeepEqual(shape, want) {
		t.Fatalf("%v: got %+v, want %+v", err, shape, want)
	}
	for _, o := range []Options{{Slots: 3}, {Slots: 3, Bucket: func(b []byte) int { return (len(b) + 3) % 5 % 3 }}} {
		both := []Transform{withOptions{through, o}, withOptions{spelt, o}}
		runners := []Runner{open(t, both[0], 0), open(t, both[1], 0)}
		var outs [2]Outcome
		shops := &dictionaries{rng: rng, words: []string{"", "\x00", "a", "a\x00", "b", "corner shop"}}
		kinds := &dictionaries{rng: rng, words: []string{"visit", "return", "gift"}}
		laps := 0
		for n := range 24 {
			if n%4 == 0 {
				shops.next()
				kinds.next()
			}
			b, rows, slots := randomVisits(rng, shops, kinds)
			c := b.Columns
			b.Columns = append(c[:0:0], c[3], c[0], c[2], c[4], c[1], c[5], c[6]) // as they are read
			if o.Bucket != nil {
				slots = nil
			}
			for i, r := range runners {
				if err := r.Add(b, rows, slots, &outs[i]); err != nil {
					t.Fatal(err)
				}
				if n > 12 && rng.IntN(6) == 0 {
					runners[i] = again(t, both[i], 0, r)
					laps++
				}
			}
		}
		if got, want := outs[0], outs[1]; got.Applied != want.Applied || got.Filtered != want.Filtered || got.Applied == 0 || len(got.Failures) != len(want.Failures) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if laps == 0 {
			t.Error("there was no lap")
		}
		rows := 0
		for slot := range o.Slots {
			got, want := drain(t, runners[0], slot), drain(t, runners[1], slot)
			if rows += len(got); !reflect.DeepEqual(got, want) {
				t.Errorf("slot %d: %d rows differ from the %d expected", slot, len(got), len(want))
			}
		}
		if rows == 0 {
			t.Error("no rows")
		}
	}
}

// Rows of a batch without a null may follow those of one that has some.
func TestNullsPassThrough(t *testing.T) {
	type row struct {
		K Same[string] `row:"k,null"`
		N int64        `row:"n"`
	}
	r := open(t, Map[numbered, row]{Each: func(e *numbered, emit func(row)) { emit(row{N: e.N}) }}, 1)
	var out Outcome
	for range 2 {
		var all []simple
		var rows []int32
		for i := range 100 {
			all, rows = append(all, simple{K: "k"}), append(rows, int32(i))
		}
		b := simpleBatch(all...)
		if out.Applied == 0 {
			b.Columns[0].Nulls = record.NewBitmap(100)
			b.Columns[0].Nulls.Set(3)
		}
		b.Columns = []record.Column{b.Columns[1], b.Columns[0]}
		if err := r.Add(b, rows, nil, &out); err != nil {
			t.Fatal(err)
		}
	}
	nulls := 0
	err := r.Drain(0, func(b *record.Batch) error {
		for i := range b.Len {
			if b.Columns[0].Nulls.Get(i) {
				nulls++
			}
		}
		return nil
	})
	if err != nil || nulls != 1 {
		t.Errorf("%v: %d nulls of one", err, nulls)
	}
}

// Where a row has a place, what it lacks lies there: it is not asked for.
func TestPlacesStandForWhatPasses(t *testing.T) {
	type row struct {
		K Same[string] `row:"k"`
		N int64        `row:"n"`
	}
	r, err := Map[numbered, row]{Each: func(e *numbered, emit func(row)) { emit(row{N: e.N}) }}.Open(Options{Slots: 1, Lent: []string{"k"}})
	if err != nil {
		t.Fatal(err)
	}
	b := simpleBatch(simple{K: "a"}, simple{}, simple{})
	b.Columns[0].Nulls = record.Bitmap{6}
	place := record.Column{Kind: record.Int64, Int64s: []int64{0, 7, 0}, Nulls: record.Bitmap{5}}
	b.Columns = []record.Column{b.Columns[1], b.Columns[0], place}
	var out Outcome
	if err := r.Add(b, []int32{0, 1, 2}, nil, &out); err != nil {
		t.Fatal(err)
	}
	if out.Applied != 2 || len(out.Failures) != 1 || out.Failures[0].Row != 2 {
		t.Errorf("got %+v", out)
	}
	var got []string
	err = r.Drain(0, func(b *record.Batch) error {
		for i := range b.Len {
			text, place := "none", "none"
			if c := &b.Columns[0]; !c.Nulls.Get(i) {
				text = string(c.Strings.At(i))
			}
			if c := &b.Columns[2]; !c.Nulls.Get(i) {
				place = strconv.FormatInt(c.Int64s[i], 10)
			}
			got = append(got, text+" "+place)
		}
		return nil
	})
	if want := []string{"a none", "none 7"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: got %q, not %q", err, got, want)
	}
}

// Strings that come by numbered dictionaries leave by one, too.
func TestPassedStringsKeepTheirCodes(t *testing.T) {
	type row struct {
		K Same[string] `row:"k,key"`
		N int64        `row:"n"`
	}
	r := open(t, Map[numbered, row]{Each: func(e *numbered, emit func(row)) { emit(row{N: e.N}) }}, 1)
	var out Outcome
	for _, words := range [][]string{{"b", "a"}, {"c", "b"}} {
		b := simpleBatch(simple{K: words[0]}, simple{K: words[1]})
		b.Columns[0].Strings.Codes, b.Columns[0].Strings.Dictionary = []uint32{0, 1}, record.NewDictionary()
		b.Columns = []record.Column{b.Columns[1], b.Columns[0]}
		if err := r.Add(b, []int32{0, 1}, nil, &out); err != nil {
			t.Fatal(err)
		}
		scrub(b)
	}
	var got []string
	err := r.Drain(0, func(b *record.Batch) error {
		s := &b.Columns[0].Strings
		for i, code := range s.Codes {
			got = append(got, string(s.At(i)))
			if i > 0 && code == s.Codes[i-1] != (got[i] == got[i-1]) {
				t.Errorf("codes %v of %q", s.Codes, got)
			}
		}
		if s.Dictionary == 0 {
			t.Error("the dictionary has no number")
		}
		return nil
	})
	if want := []string{"a", "b", "b", "c"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: got %q, want %q", err, got, want)
	}
}

func TestColumnsThatCannotPassThroughAreRefused(t *testing.T) {
	type plain struct {
		N int64 `row:"n,null"`
	}
	type nullKey struct {
		Shop Same[string] `row:"shop,key,null"`
	}
	type otherKind struct {
		N Same[string] `row:"n"`
	}
	type inFold struct {
		N Same[int64] `row:"n"`
	}
	for want, tr := range map[string]Transform{
		"field plain.N: tag `row:\"n,null\"`: unknown option \"null\"":              Map[numbered, plain]{Each: func(*numbered, func(plain)) {}},
		"a key column holds no null: use string":                                    Map[numbered, nullKey]{Each: func(*numbered, func(nullKey)) {}},
		"field otherKind.N: column n is string here, and int64 in field numbered.N": Map[numbered, otherKind]{Each: func(*numbered, func(otherKind)) {}},
		"type job.Same[int64] cannot be a column":                                   Fold[numbered, inFold]{Apply: func(*inFold, *numbered) {}},
	} {
		if _, err := tr.Shape(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
