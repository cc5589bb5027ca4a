//go:build full

package job

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"hindcast/internal/record"
)

type owned struct {
	Owner *string `event:"owner"`
	Kind  string  `event:"kind"`
	N     int64   `event:"n"`
}

type ownedTotal struct {
	Owner string `row:"owner,key"`
	Rows  int64  `row:"rows"`
	Mix   int64  `row:"mix"` // depends on order
	Kind  string `row:"kind"`
}

// ownedFold takes its key from a field as it lies, from another, or makes one.
func ownedFold(versioned bool) Fold[owned, ownedTotal] {
	f := Fold[owned, ownedTotal]{
		Key: func(e *owned) ownedTotal {
			switch {
			case e.N%50 == 0:
				return ownedTotal{Owner: fmt.Sprint("made ", e.N)}
			case e.Owner == nil || e.N%17 == 0:
				return ownedTotal{Owner: e.Kind}
			}
			return ownedTotal{Owner: *e.Owner}
		},
		Apply: func(t *ownedTotal, e *owned) {
			t.Rows, t.Mix, t.Kind = t.Rows+1, t.Mix*31+e.N, e.Kind
			if e.N%23 == 0 {
				panic("no 23")
			}
		},
	}
	if versioned {
		f.Version = func(e *owned) int64 { return e.N }
	}
	return f
}

// dictionaries gives strings as codes of a dictionary with all of them, in an order of its own.
type dictionaries struct {
	rng   *rand.Rand
	words []string
	dict  record.Strings
	at    map[string]uint32
}

func (d *dictionaries) next() {
	d.dict, d.at = record.Strings{}, map[string]uint32{}
	for _, i := range d.rng.Perm(len(d.words)) {
		d.at[d.words[i]] = uint32(len(d.at))
		d.dict.Append([]byte(d.words[i]))
	}
	if d.rng.IntN(3) > 0 {
		d.dict.Dictionary = record.NewDictionary()
	}
}

// strings returns rows as codes, or plain.
func (d *dictionaries) strings(rows []string, plain bool) record.Strings {
	out := record.Strings{Offsets: []uint32{0}}
	if plain {
		for _, r := range rows {
			out.Append([]byte(r))
		}
		return out
	}
	out = d.dict
	for _, r := range rows {
		out.Codes = append(out.Codes, d.at[r])
	}
	return out
}

// A fold gives the same whether its keys come by the codes of dictionaries, numbered or not, or plain, and whatever its key is made of.
func TestFoldByCodesAsByKeys(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	words := []string{"", "a", "b", "\x00"}
	for i := range 60 {
		words = append(words, fmt.Sprint("owner ", i))
	}
	for _, c := range []struct {
		versioned bool
		o         Options
	}{
		{false, Options{Slots: 3}},
		{true, Options{Slots: 3}},
		{true, Options{Slots: 4, Bucket: func(b []byte) int { return len(b) % 4 }}},
	} {
		f := ownedFold(c.versioned)
		open := func() Runner {
			r, err := f.Open(c.o)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		coded, plain := open(), open()
		var outs [2]Outcome
		d := &dictionaries{rng: rng, words: words}
		for n := range 40 {
			if n%4 == 0 {
				d.next()
			}
			rows := 1 + rng.IntN(600)
			owners, kinds, ns := make([]string, rows), make([]string, rows), make([]int64, rows)
			nulls, slots := record.NewBitmap(rows), make([]int32, rows)
			for i := range rows {
				owners[i], kinds[i], ns[i], slots[i] = words[rng.IntN(len(words))], words[rng.IntN(4)], rng.Int64N(2000), int32(rng.IntN(3))
				if rng.IntN(9) == 0 {
					nulls.Set(i)
				}
			}
			if c.o.Bucket != nil {
				slots = nil
			}
			for side, r := range []Runner{coded, plain} {
				b := &record.Batch{Len: rows, Columns: []record.Column{
					{Kind: record.String, Nulls: nulls, Strings: d.strings(owners, side == 1 || n%7 == 0)},
					{Kind: record.String, Strings: d.strings(kinds, side == 1 || n%5 == 0)},
					{Kind: record.Int64, Int64s: ns},
				}}
				if err := r.Add(b, allRows(rows), slots, &outs[side]); err != nil {
					t.Fatal(err)
				}
			}
			if n == 20 {
				coded = again(t, withOptions{f, c.o}, 0, coded)
			}
		}
		if !reflect.DeepEqual(outs[0], outs[1]) || outs[0].Applied == 0 || len(outs[0].Failures) == 0 {
			t.Errorf("%+v\n%+v", outs[0], outs[1])
		}
		for slot := range c.o.Slots {
			if got, want := drain(t, coded, slot), drain(t, plain, slot); !reflect.DeepEqual(got, want) {
				t.Errorf("slot %d: got %v, want %v", slot, got, want)
			}
		}
	}
}

// withOptions is a transform that is opened with these.
type withOptions struct {
	Transform
	o Options
}

func (w withOptions) Open(Options) (Runner, error) { return w.Transform.Open(w.o) }
