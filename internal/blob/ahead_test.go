package blob_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/blob/memblob"
)

// slow takes 30 ms for each Get, and says how many bytes were asked for. Get fails where fail says so.
type slow struct {
	blob.Store
	fail func(blob.GetOptions) error

	mu    sync.Mutex
	gets  int
	asked int64
}

func (s *slow) Get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	s.mu.Lock()
	s.gets++
	s.asked += opts.Length
	s.mu.Unlock()
	select {
	case <-time.After(30 * time.Millisecond):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.fail != nil {
		if err := s.fail(opts); err != nil {
			return nil, err
		}
	}
	return s.Store.Get(ctx, key, opts)
}

func object(t *testing.T, s blob.Store, n int) (blob.Info, []byte) {
	t.Helper()
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return mustPut(t, s, "x", string(b)), b
}

func TestAheadHidesLatencyWithinItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, size, depth = 100, 1000, 10
		s := &slow{Store: memblob.New()}
		info, want := object(t, s, n*size)
		a := blob.NewAhead(t.Context(), depth*size, 1000)
		r := a.Reader(s, info)
		start := time.Now()
		for i := range int64(n) {
			r.Want(i*size, size)
		}
		for i := range int64(n) {
			b := make([]byte, size)
			if _, err := r.ReadAt(b, i*size); err != nil || !bytes.Equal(b, want[i*size:][:size]) {
				t.Fatalf("range %d: %v", i, err)
			}
			synctest.Wait()
			s.mu.Lock()
			if ahead := s.asked - (i+1)*size; ahead > depth*size {
				t.Fatalf("%d bytes are held or under way where the budget is %d", ahead, depth*size)
			}
			s.mu.Unlock()
		}
		if took := time.Since(start); took != n/depth*30*time.Millisecond || s.gets != n {
			t.Errorf("%d ranges, %d at a time, took %v in %d requests", n, depth, took, s.gets)
		}
		a.Close()
	})
}

// Whatever was wanted, and whatever is asked for, in whatever order: the bytes are those of the object.
func TestAheadReadsWhatIsThere(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 2))
		s := memblob.New()
		info, want := object(t, s, 1+rng.IntN(50_000))
		a := blob.NewAhead(t.Context(), int64(rng.IntN(20_000)), 1+rng.IntN(4))
		r := a.Reader(s, info)
		var wanted [][2]int64
		for range rng.IntN(10) {
			at := rng.Int64N(info.Size)
			wanted = append(wanted, [2]int64{at, 1 + rng.Int64N(info.Size-at)})
			r.Want(at, wanted[len(wanted)-1][1])
		}
		var lent [][2][]byte // and what they must be for as long as they are not returned
		for i := range 20 {
			if len(wanted) > 0 && rng.IntN(3) == 0 {
				of := wanted[rng.IntN(len(wanted))]
				b, err := r.Lend(of[0], of[1])
				if err != nil {
					t.Fatal(err)
				}
				if b != nil {
					lent = append(lent, [2][]byte{b, want[of[0]:][:of[1]]})
				}
			}
			if rng.IntN(8) == 0 {
				r.Return()
				lent = nil
			}
			for _, l := range lent {
				if !bytes.Equal(l[0], l[1]) {
					t.Fatalf("%d bytes that were lent are others", len(l[0]))
				}
			}
			at := rng.Int64N(info.Size)
			b := make([]byte, 1+rng.IntN(len(want)))
			n, err := r.ReadAt(b, at)
			rest := want[at:]
			if short := len(b) > len(rest); short != errors.Is(err, io.EOF) || !short && err != nil || !bytes.Equal(b[:n], rest[:min(len(b), len(rest))]) {
				t.Fatalf("%d bytes at %d of %d: %d, %v", len(b), at, len(want), n, err)
			}
			if i == 15 {
				r.Drop()
				lent = nil
			}
		}
		a.Close()
	}
}

func TestARangeIsLentOnceAndAsItWasWanted(t *testing.T) {
	s := memblob.New()
	info, want := object(t, s, 1000)
	a := blob.NewAhead(t.Context(), 1000, 2)
	defer a.Close()
	r := a.Reader(s, info)
	r.Want(100, 200)
	if b, err := r.Lend(100, 100); b != nil || err != nil {
		t.Errorf("a part of what was wanted: %d bytes, %v", len(b), err)
	}
	if b, err := r.Lend(100, 200); !bytes.Equal(b, want[100:300]) || cap(b) < 232 || err != nil {
		t.Errorf("what was wanted: %d bytes (%d), %v", len(b), cap(b), err)
	}
	if b, err := r.Lend(100, 200); b != nil || err != nil {
		t.Errorf("again: %d bytes, %v", len(b), err)
	}
	got := make([]byte, 200)
	if _, err := r.ReadAt(got, 100); err != nil || !bytes.Equal(got, want[100:300]) {
		t.Errorf("what was lent is read as anything: %v", err)
	}
}

func TestAheadKeepsErrorsToTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		s := &slow{Store: memblob.New(), fail: func(o blob.GetOptions) error {
			if o.Offset == 200 {
				return broken
			}
			return nil
		}}
		info, _ := object(t, s, 1000)
		a := blob.NewAhead(t.Context(), 1000, 10)
		r := a.Reader(s, info)
		for at := int64(0); at < 500; at += 100 {
			r.Want(at, 100)
		}
		synctest.Wait()
		for at := int64(0); at < 500; at += 100 {
			if _, err := r.ReadAt(make([]byte, 100), at); (at == 200) != errors.Is(err, broken) || at != 200 && err != nil {
				t.Errorf("at %d: %v", at, err)
			}
		}
		// What is another object by now is noticed.
		r.Want(600, 100)
		r.Want(500, 100)
		mustPut(t, s, "x", "another")
		if _, err := r.ReadAt(make([]byte, 100), 500); !errors.Is(err, blob.ErrPrecondition) {
			t.Errorf("of a replaced object: %v", err)
		}
		// Nothing is under way after Close: the bubble would say so.
		r.Want(700, 100)
		a.Close()
		if _, err := r.ReadAt(make([]byte, 100), 700); !errors.Is(err, context.Canceled) {
			t.Errorf("after Close: %v", err)
		}
	})
}
