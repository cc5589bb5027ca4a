package source_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/blob/memblob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/plan"
	"hindcast/internal/source"
	"hindcast/internal/source/sourcetest"
)

// far is a store whose requests take 30 ms each.
type far struct{ blob.Store }

func (f far) Get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	select {
	case <-time.After(30 * time.Millisecond):
		return f.Store.Get(ctx, key, opts)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// farLog is a log of two topic partitions, of n segments with two row groups of 50 rows each, on a far store. It is made outside of bubbles: they cannot have
// the compressors that all files share.
func farLog(t *testing.T, n int64) (stores source.Stores, inputs []plan.Input, count *blob.Counted) {
	mem := memblob.New()
	for p := range int32(2) {
		for i := range n {
			rows := sourcetest.Events(p, plan.Ranges{{First: i * 100, Next: i*100 + 100}})
			inputs = append(inputs, sourcetest.Input(t, mem, sourcetest.Key(p, i*100), rows, false, parquetfile.WriterOptions{RowGroupRows: 50}))
		}
	}
	count = blob.Count(mem)
	return source.Stores{Segments: far{count}}, inputs, count
}

// Whoever takes 5 ms for 50 rows does not wait for requests of 30 ms, but for the first.
func TestLatencyIsHidden(t *testing.T) {
	stores, inputs, count := farLog(t, 20)
	synctest.Test(t, func(t *testing.T) {
		r := open(t, stores, inputs...)
		start, rows := time.Now(), 0
		for {
			_, b, err := r.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			rows += b.Len
			time.Sleep(time.Duration(b.Len) * 100 * time.Microsecond)
		}
		took := time.Since(start)
		// To open 20 segments, 8 at a time, takes three turns; the first row group comes with the fourth.
		decode, first := time.Duration(rows)*100*time.Microsecond, 4*30*time.Millisecond
		if rows != 4000 || took > decode+first {
			t.Errorf("%d rows took %v, of which %v are the reader's own", rows, took, decode)
		}
		// A footer and two row groups.
		if n := count.Requests(); n != 3*40 {
			t.Errorf("%d requests for 40 segments", n)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A reader that is closed or cancelled in the middle leaves nothing running: the bubble would not end.
func TestReadingAheadEndsWithTheReader(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		stores, inputs, _ := farLog(t, 20)
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			r, err := source.Open(ctx, stores, inputs, sourcetest.Schema(), source.Layout{Kafka: source.CapturedColumns})
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := r.Next(ctx); err != nil {
				t.Fatal(err)
			}
			if cancelled {
				cancel()
				if _, _, err := r.Next(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("after it was cancelled: %v", err)
				}
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			cancel()
		})
	}
}

// A segment that was replaced after its footer was read is found where its rows are.
func TestReadingAheadKeepsErrorsToTheirPlace(t *testing.T) {
	stores, inputs, count := farLog(t, 3)
	synctest.Test(t, func(t *testing.T) {
		r := open(t, stores, inputs...)
		rows := 0
		for {
			_, b, err := r.Next(t.Context())
			if err != nil {
				if !errors.Is(err, source.ErrChanged) || rows != 300 {
					t.Errorf("after %d rows: %v", rows, err)
				}
				break
			}
			rows += b.Len
			if rows == 50 { // of the first topic partition; the second's footers were read meanwhile
				sourcetest.Put(t, count.Store, inputs[3].Segment, []byte("another"))
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}
