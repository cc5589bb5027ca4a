package transform

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hindcast/internal/job/wire"
	"hindcast/internal/record"
)

// Ids that differ in a byte or in length, most of them next to one that is packed.
func hardIDs() []string {
	uuid := "01234567-89ab-4cde-8f01-23456789abcd"
	ids := []string{uuid, strings.ToUpper(uuid), strings.ReplaceAll(uuid, "-", "_"), uuid + "0", uuid[1:], strings.Repeat("0123456789", 9)}
	for i := range len(uuid) {
		for _, c := range "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG-_/:`@\x00\x80\xb0\xe1" {
			ids = append(ids, uuid[:i]+string([]byte{byte(c)})+uuid[i+1:])
		}
	}
	for n := range 18 {
		for _, c := range []string{"a", "b", "\x00", "\x0f", "\x10"} {
			ids = append(ids, strings.Repeat(c, n), strings.Repeat("a", n)+c)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func TestKeysAreTheIDs(t *testing.T) {
	type whole struct {
		kind idKind
		idKey
	}
	of := map[whole]string{}
	for _, id := range hardIDs() {
		kind, key := keyOf([]byte(id))
		if other, ok := of[whole{kind, key}]; ok {
			t.Errorf("%q and %q have one key", id, other)
		}
		of[whole{kind, key}] = id
		if (kind == idNone) != (id == "") {
			t.Errorf("%q is of kind %d", id, kind)
		}
		if kind != idNone && kind != idLong && string(key.bytes(nil, kind)) != id {
			t.Errorf("the key of %q says %q", id, key.bytes(nil, kind))
		}
	}
	if kind, _ := keyOf([]byte("01234567-89ab-4cde-8f01-23456789abcd")); kind != idUUID {
		t.Errorf("a UUID is of kind %d", kind)
	}
	kind, key := keyOf([]byte{1, 2, 3, 4, 5, 6, 7, 0x88})
	if n := int64(-0x77F8F9FAFBFCFDFF); kind != idShort || key != intKey(n) {
		t.Errorf("an integer's key is %x, that of its bytes %x", intKey(n), key)
	}
}

// What is seen is what a map would hold, and a checkpoint has all of it.
func TestSeenAgainstMap(t *testing.T) {
	hard := hardIDs()
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 5))
		type event struct {
			at      Position
			content content
		}
		want := map[string]event{}
		s := newSeen(rng.Int64N(3000))
		var at Position
		for range 1000 << (seed % 4) {
			switch at.Offset += 1 + rng.Int64N(3); rng.IntN(200) {
			case 0:
				at = Position{at.Partition + 1, 0}
			case 1:
				at.Offset += rng.Int64N(1 << 34)
			}
			id := hard[rng.IntN(len(hard))]
			if rng.IntN(2) == 0 {
				id = idOfKind(rng.IntN(4000))
			}
			kind, key := keyOf([]byte(id))
			if kind == idNone {
				continue
			}
			e := event{at, content(rng.Uint64())}
			n, fresh := s.sets[kind].add(key, key.hash(kind), []byte(id), e.at, e.content)
			before, ok := want[id]
			if ok == fresh {
				t.Fatalf("seed %d: id %q: fresh is %v", seed, id, fresh)
			}
			if fresh {
				want[id], before = e, e
			}
			if got := (event{s.sets[kind].position(n), s.sets[kind].content(n)}); got != before {
				t.Fatalf("seed %d: id %q: got %+v, want %+v", seed, id, got, before)
			}
		}
		var w wire.Writer
		var saved bytes.Buffer
		if err := errors.Join(s.write(&w, &saved), w.Flush(&saved)); err != nil {
			t.Fatal(err)
		}
		again, r := newSeen(0), wire.NewReader(saved.Bytes())
		if again.read(r); r.End() != nil {
			t.Fatal(r.End())
		}
		for id, e := range want {
			kind, key := keyOf([]byte(id))
			n, fresh := again.sets[kind].add(key, key.hash(kind), []byte(id), Position{}, 0)
			if fresh || (event{again.sets[kind].position(n), again.sets[kind].content(n)}) != e {
				t.Fatalf("seed %d: id %q is not in the checkpoint as it was", seed, id)
			}
		}
		if got, want := slices.Sorted(each(again.fingerprints())), slices.Sorted(each(s.fingerprints())); !slices.Equal(got, want) {
			t.Fatalf("seed %d: other fingerprints after a lap", seed)
		}
	}
}

func each(some iter.Seq[[]uint64]) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for all := range some {
			for _, v := range all {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// Ids that are added many at a time are what they are when they are added one by one.
func TestManyIDsAtOnceAreAsOneByOne(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 9))
		many, each := newSeen(100), newSeen(0)
		together, next, at := 0, 0, Position{}
		for range 100 {
			n := 1 + rng.IntN(touchIDs)
			var keys []idKey
			var hashes, contents []uint64
			var offsets []int64
			var rows []int32
			if rng.IntN(10) == 0 {
				at = Position{at.Partition + 1, rng.Int64N(1 << 40)}
			}
			for i := range n {
				if at.Offset += 1 + rng.Int64N(3); rng.IntN(1000) == 0 {
					at.Offset += rng.Int64N(1 << 33)
				}
				id := next
				if next++; rng.IntN(5) == 0 {
					id = rng.IntN(next)
				}
				kind, key := keyOf(fmt.Appendf(nil, "%016d", id))
				keys, hashes, contents = append(keys, key), append(hashes, key.hash(kind)), append(contents, rng.Uint64())
				offsets, rows = append(offsets, at.Offset-1, at.Offset), append(rows, int32(2*i+1))
			}
			a, b := &many.sets[idWhole], &each.sets[idWhole]
			var want []repeat
			for i := range n {
				if number, fresh := b.add(keys[i], hashes[i], nil, Position{at.Partition, offsets[rows[i]]}, content(contents[i])); !fresh {
					want = append(want, repeat{int32(i), int32(number)})
				}
			}
			got, ok := a.addAll(keys, hashes, contents, at.Partition, offsets, rows, nil)
			if far := offsets[rows[n-1]]-offsets[rows[0]] >= 1<<32; ok == far {
				t.Fatalf("seed %d: offsets %d to %d: ok is %v", seed, offsets[rows[0]], offsets[rows[n-1]], ok)
			}
			if together++; !ok {
				together--
				for i := range n {
					a.add(keys[i], hashes[i], nil, Position{at.Partition, offsets[rows[i]]}, content(contents[i]))
				}
			} else if !slices.Equal(got, want) {
				t.Fatalf("seed %d: repeats %v, want %v", seed, got, want)
			}
		}
		a, b := &many.sets[idWhole], &each.sets[idWhole]
		if a.n != b.n || together == 0 {
			t.Fatalf("seed %d: %d ids, want %d; %d times together", seed, a.n, b.n, together)
		}
		for i := range a.n {
			if *a.key(i) != *b.key(i) || a.content(i) != b.content(i) || a.position(i) != b.position(i) {
				t.Fatalf("seed %d: id %d is %v at %s with %x, want %v at %s with %x", seed, i, *a.key(i), a.position(i), a.content(i), *b.key(i), b.position(i), b.content(i))
			}
		}
	}
}

// Ids of one length take what the comment of seen says, whether more come than were expected or fewer.
func TestSeenIsSmall(t *testing.T) {
	for _, expect := range []int64{0, 1 << 16, 1 << 20} {
		s := newSeen(expect)
		const ids = 1 << 16
		for i := range ids {
			kind, key := keyOf(fmt.Appendf(nil, "%016d", i))
			s.sets[kind].add(key, key.hash(kind), nil, Position{0, int64(i)}, 0)
		}
		if each := s.size() / ids; each > 28+10 && expect <= ids {
			t.Errorf("expecting %d: %d bytes for each of %d ids", expect, each, ids)
		}
	}
}

// The hashes of a dictionary are kept while it is the same, and never taken for those of another.
func TestContentsFollowTheDictionary(t *testing.T) {
	var c contents
	plain := func(s record.Strings) []uint64 {
		var p record.Strings
		for _, code := range s.Codes {
			p.Append(s.Data[s.Offsets[code]:s.Offsets[code+1]])
		}
		return slices.Clone(new(contents).of(&record.Batch{Columns: []record.Column{{Kind: record.String, Strings: p}}}, 1, -1, []int32{0, 1, 2}))
	}
	a := record.Strings{Offsets: []uint32{0, 1, 3}, Data: []byte("abc"), Dictionary: record.NewDictionary()}
	for i, s := range []record.Strings{
		{Codes: []uint32{0, 1, 0}, Offsets: a.Offsets, Data: a.Data, Dictionary: a.Dictionary},
		{Codes: []uint32{1, 1, 0}, Offsets: a.Offsets, Data: a.Data, Dictionary: a.Dictionary},
		{Codes: []uint32{1, 1, 0}, Offsets: []uint32{0, 2, 3}, Data: a.Data, Dictionary: record.NewDictionary()},
		{Codes: []uint32{1, 0, 0}, Offsets: a.Offsets, Data: []byte("xyz")},
		{Codes: []uint32{1, 0, 0}, Offsets: a.Offsets, Data: []byte("uvw")},
	} {
		got := c.of(&record.Batch{Columns: []record.Column{{Kind: record.String, Strings: s}}}, 1, -1, []int32{0, 1, 2})
		if !slices.Equal(got, plain(s)) {
			t.Errorf("batch %d: its contents are not those of the same strings without a dictionary", i)
		}
	}
}

// Rows come back from scratch as they were, whatever their columns.
func TestScratchGivesBackWhatItTook(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	f, err := newScratchFile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.remove(); err != nil {
			t.Error(err)
		}
	}()
	kinds := []record.Kind{record.String, record.Int64, record.Float64, record.Bool, record.String, record.Timestamp}
	var batches []*record.Batch
	for n := range 9 {
		b := &record.Batch{Len: 1 + rng.IntN(200)}
		for i, kind := range kinds {
			c := record.Column{Kind: kind}
			if (n+i)%3 == 0 {
				c.Nulls = record.NewBitmap(b.Len)
			}
			for row := range b.Len {
				if null := c.Nulls != nil && rng.IntN(3) == 0; null {
					c.Nulls.Set(row)
				}
				switch kind {
				case record.String:
					c.Strings.Append(bytes.Repeat([]byte{byte(row)}, rng.IntN(4)))
				case record.Float64:
					c.Float64s = append(c.Float64s, rng.NormFloat64())
				default:
					c.Int64s = append(c.Int64s, rng.Int64()-1<<62)
				}
			}
			if n%2 == 0 && i == 4 {
				c.Strings = dictionary(c.Strings, b.Len)
			}
			b.Columns = append(b.Columns, c)
		}
		for row := range b.Len {
			if n%3 > 0 {
				b.Offsets = append(b.Offsets, int64(row))
			}
			if n%3 > 1 {
				b.RecordTimes = append(b.RecordTimes, -int64(row))
			}
		}
		batches = append(batches, b)
		if err := f.write([]byte{byte(n)}, b, nil); err != nil {
			t.Fatal(err)
		}
	}
	in, err := f.read(0, f.size)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range batches {
		head, b, err := in.next()
		if err != nil || len(head) != 1 || head[0] != byte(n) || b.Len != want.Len {
			t.Fatalf("batch %d: %v, %d rows for %d, head %v", n, err, b.Len, want.Len, head)
		}
		if !slices.Equal(b.Offsets, want.Offsets) || !slices.Equal(b.RecordTimes, want.RecordTimes) {
			t.Errorf("batch %d: other offsets or times", n)
		}
		for i := range want.Columns {
			x, y := &b.Columns[i], &want.Columns[i]
			if x.Kind != y.Kind || !slices.Equal(x.Int64s, y.Int64s) || !slices.Equal(x.Float64s, y.Float64s) || !slices.Equal(x.Nulls, y.Nulls) || (x.Nulls == nil) != (y.Nulls == nil) {
				t.Errorf("batch %d, column %d is another", n, i)
			}
			for row := range want.Len {
				if y.Kind == record.String && !y.Nulls.Get(row) && !bytes.Equal(x.Strings.At(row), y.Strings.At(row)) {
					t.Errorf("batch %d, column %d, row %d: %q, want %q", n, i, row, x.Strings.At(row), y.Strings.At(row))
				}
			}
		}
	}
	if _, _, err := in.next(); !errors.Is(err, io.EOF) {
		t.Errorf("behind the last batch: %v", err)
	}
}
