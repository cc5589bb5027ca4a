package blobtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"hindcast/internal/blob"
	"hindcast/internal/testenv"
)

const writers = 20

// count picks the number of rounds.
func count(full, reduced int) int {
	if testenv.Full() {
		return full
	}
	return reduced
}

// padding makes what racing writers swap long enough to be torn.
const padding = 5000

// stateOf is what racing writers swap: all of a race are equally long, and a mixture of two is none.
func stateOf(generation, writer, padding int) []byte {
	b := fmt.Appendf(nil, "%06d %02d ", generation, writer)
	return append(b, bytes.Repeat(b[:9], padding/9)...)
}

// generationOf reads a state, and fails if it is torn.
func generationOf(b []byte, padding int) (generation int, err error) {
	var writer int
	if _, err := fmt.Sscanf(string(b[:min(9, len(b))]), "%06d %02d", &generation, &writer); err != nil {
		return 0, fmt.Errorf("torn read: %w", err)
	}
	if !bytes.Equal(b, stateOf(generation, writer, padding)) {
		return 0, fmt.Errorf("torn read of generation %d", generation)
	}
	return generation, nil
}

// oneWinner lets all writers swap the same version at once, round after round.
func oneWinner(t *testing.T, s blob.Store) {
	tag := put(t, s, "pointer", stateOf(0, 0, padding), blob.Condition{IfAbsent: true}).ETag
	for round := 1; round <= count(200, 10); round++ {
		won := make([]*blob.Info, writers)
		start := make(chan struct{})
		g, ctx := errgroup.WithContext(t.Context())
		for w := range writers {
			g.Go(func() error {
				<-start
				info, err := blob.PutBytes(ctx, s, "pointer", stateOf(round, w, padding), blob.Condition{IfMatch: tag})
				if err == nil {
					won[w] = &info
				}
				if errors.Is(err, blob.ErrPrecondition) {
					err = nil
				}
				return err
			})
		}
		close(start)
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		winner := -1
		for w, info := range won {
			if info == nil {
				continue
			}
			if winner >= 0 {
				t.Fatalf("round %d: writers %d and %d both won", round, winner, w)
			}
			winner, tag = w, info.ETag
		}
		if winner < 0 {
			t.Fatalf("round %d: nobody won", round)
		}
		wantBytes(t, s, "pointer", stateOf(round, winner, padding))
	}
}

// noLostUpdate counts up by read and swap: every acknowledged step must be in the sum.
func noLostUpdate(t *testing.T, s blob.Store) {
	t.Run("Small", func(t *testing.T) { countUp(t, s, padding, count(20, 3)) })
	t.Run("Large", func(t *testing.T) { countUp(t, s, 20*padding, count(3, 1)) })
}

func countUp(t *testing.T, s blob.Store, padding, steps int) {
	put(t, s, "counter", stateOf(0, 0, padding), blob.Condition{})
	taken := make([]atomic.Int32, writers*steps+1)
	g, ctx := errgroup.WithContext(t.Context())
	for w := range writers {
		g.Go(func() error {
			for done := 0; done < steps; {
				b, info, err := blob.ReadAll(ctx, s, "counter")
				if err != nil {
					return err
				}
				generation, err := generationOf(b, padding)
				if err != nil {
					return err
				}
				_, err = blob.PutBytes(ctx, s, "counter", stateOf(generation+1, w, padding), blob.Condition{IfMatch: info.ETag})
				if errors.Is(err, blob.ErrPrecondition) {
					continue
				}
				if err != nil {
					return err
				}
				if generation >= writers*steps || taken[generation+1].Add(1) > 1 {
					return fmt.Errorf("generation %d was taken twice", generation+1)
				}
				done++
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	b, _, err := blob.ReadAll(t.Context(), s, "counter")
	if err != nil {
		t.Fatal(err)
	}
	if generation, err := generationOf(b, padding); err != nil || generation != writers*steps {
		t.Fatalf("counted %d, %v, want %d", generation, err, writers*steps)
	}
}

// oneCreator lets all writers create the same key at once.
func oneCreator(t *testing.T, s blob.Store) {
	for round := range count(50, 5) {
		key := fmt.Sprintf("decisions/%d.json", round)
		var won atomic.Int32
		g, ctx := errgroup.WithContext(t.Context())
		for w := range writers {
			g.Go(func() error {
				_, err := blob.PutBytes(ctx, s, key, stateOf(0, w, padding), blob.Condition{IfAbsent: true})
				if err == nil {
					won.Add(1)
				}
				if errors.Is(err, blob.ErrPrecondition) {
					err = nil
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		if won.Load() != 1 {
			t.Fatalf("round %d: %d writers created it", round, won.Load())
		}
	}
}

// wholeReads overwrites an object while others read and list it.
func wholeReads(t *testing.T, s blob.Store, loose bool) {
	for _, n := range []int{5_000, 300_000} {
		key := fmt.Sprintf("x%d", n)
		versions := make([][]byte, 8)
		for i := range versions {
			versions[i] = content(n, uint64(i))
		}
		put(t, s, key, versions[0], blob.Condition{})
		var done atomic.Bool
		g, ctx := errgroup.WithContext(t.Context())
		g.Go(func() error {
			defer done.Store(true)
			for i := range count(200, 15) {
				if _, err := blob.PutBytes(ctx, s, key, versions[i%len(versions)], blob.Condition{}); err != nil {
					return err
				}
			}
			return nil
		})
		for range 4 {
			g.Go(func() error {
				for !done.Load() {
					b, info, err := blob.ReadAll(ctx, s, key)
					if err != nil {
						return err
					}
					if !slices.ContainsFunc(versions, func(v []byte) bool { return bytes.Equal(b, v) }) {
						return fmt.Errorf("torn read of %d bytes", len(b))
					}
					page, err := s.List(ctx, "x", "", 100)
					if err != nil {
						return err
					}
					if names := names(page); !slices.Contains(names, key) {
						return fmt.Errorf("lists %q without %s", names, key)
					}
					// A read that is pinned gives these bytes or none.
					o, err := s.Get(ctx, key, blob.GetOptions{IfMatch: info.ETag, Offset: 100})
					if errors.Is(err, blob.ErrPrecondition) {
						continue
					}
					if err != nil {
						return err
					}
					rest, err := io.ReadAll(o.Body)
					o.Body.Close()
					same := bytes.Equal(rest, b[100:])
					if loose {
						same = slices.ContainsFunc(versions, func(v []byte) bool { return bytes.Equal(rest, v[100:]) })
					}
					if err != nil || !same {
						return fmt.Errorf("a pinned read of %d bytes gives others, or %w", len(rest), err)
					}
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}
