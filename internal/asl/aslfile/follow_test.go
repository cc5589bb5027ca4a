package aslfile

import (
	"reflect"
	"testing"

	"hindcast/internal/asl"
)

// A history that is followed while it is written, over files that are full and compressed, gives each event once and in order.
func TestAFollowerHasEveryEventOnce(t *testing.T) {
	for name, history := range map[string]asl.HistoryName{"execution": {Execution: "x"}, "map run": {Execution: "x", MapRun: "m-1"}} {
		t.Run(name, func(t *testing.T) {
			h := &Histories{Dir: t.TempDir(), SegmentBytes: 2000}
			f, err := h.Follow(history)
			if err != nil {
				t.Fatal(err)
			}
			var got []asl.Event
			look := func() {
				t.Helper()
				for ev, err := range f.Next() {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, ev)
				}
			}
			look() // there is nothing yet
			want := sample(40)
			w := open(t, h, history)
			collect(t, w)
			for i := range want {
				if err := w.Append(t.Context(), want[i:i+1]); err != nil {
					t.Fatal(err)
				}
				if i%3 == 0 { // so that it is behind when a file is sealed
					look()
				}
			}
			look()
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			look()
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%d events were read of %d", len(got), len(want))
			}
		})
	}
}
