//go:build full

package job

import (
	"fmt"
	"runtime"
	"testing"

	"hindcast/internal/record"
)

type worded struct {
	K     string      `row:"k,key"`
	N     int64       `row:"n"`
	Last  string      `row:"last"`
	Words Set[string] `row:"-"`
}

type wordedColumns struct {
	K     Key           `row:"k"`
	N     []int64       `row:"n"`
	Last  []string      `row:"last"`
	Words []Set[string] `row:"-"`
}

type simples struct {
	K Text          `event:"k"`
	N Column[int64] `event:"n"`
}

// What runners say they hold is about what the process holds.
func TestSizesAreAboutRight(t *testing.T) {
	word := func(n int64) string { return fmt.Sprint("a word of some length ", n) }
	for name, c := range map[string]struct {
		t       Transform
		columns int
	}{
		"fold": {Fold[simple, worded]{
			Key:   func(e *simple) worded { return worded{K: e.K} },
			Apply: func(s *worded, e *simple) { s.N++; s.Last = word(e.N); s.Words.Add(word(e.N % 60)) },
		}, 3},
		"column fold": {ColumnFold[simples, wordedColumns]{
			Apply: func(s *wordedColumns, c *simples, events []Event) {
				for _, e := range events {
					s.N[e.Group]++
					s.Last[e.Group] = word(c.N.At(e.Row))
					s.Words[e.Group].Add(word(c.N.At(e.Row) % 60))
				}
			},
		}, 2},
		"map": {Map[simple, sum]{Each: func(e *simple, emit func(sum)) { emit(sum{e.K, e.N}); emit(sum{e.K, -e.N}) }}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, c.t, 1)
			before := heap()
			var size int64
			for n := range 6 {
				var rows []simple
				for i := range 5000 {
					rows = append(rows, simple{K: fmt.Sprint("key ", (n*5000+i)%2500), N: int64(n*5000 + i)})
				}
				b := simpleBatch(rows...)
				var out Outcome
				if err := r.Add(&record.Batch{Len: b.Len, Columns: b.Columns[:c.columns]}, allRows(b.Len), nil, &out); err != nil {
					t.Fatal(err)
				}
				if now := r.Size(); now < size {
					t.Errorf("size went from %d to %d", size, now)
				} else {
					size = now
				}
			}
			held := int64(heap() - before)
			runtime.KeepAlive(r)
			if size < held*2/3 || size > held*3/2 {
				t.Errorf("size is %d, the heap grew by %d", size, held)
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
