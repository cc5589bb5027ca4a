package aslfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hindcast/internal/asl"
	"hindcast/internal/testenv"
)

func sample(n int) []asl.Event {
	out := make([]asl.Event, n)
	for i := range out {
		until := time.Date(2026, 1, 2, 3, 4, 5, 678000, time.UTC)
		out[i] = asl.Event{
			ID: int64(i + 1), Previous: int64(i), Type: asl.TaskScheduled, Time: until, State: "Work",
			Input: json.RawMessage(fmt.Sprintf(`{"i":%d,"text":"<a & b>\u2028"}`, i)), Until: &until, Resource: "arn",
			Assigned: map[string]json.RawMessage{"x": json.RawMessage("1.50")},
		}
	}
	return out
}

func collect(t *testing.T, h asl.History) []asl.Event {
	t.Helper()
	var out []asl.Event
	for ev, err := range h.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, ev)
	}
	return out
}

func open(t *testing.T, h *Histories, name asl.HistoryName) asl.History {
	t.Helper()
	history, err := h.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return history
}

func write(t *testing.T, h *Histories, name asl.HistoryName, events []asl.Event, group int) {
	t.Helper()
	history := open(t, h, name)
	collect(t, history)
	for batch := range slices.Chunk(events, group) {
		if err := history.Append(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	if err := history.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestEventsComeBackAsWritten(t *testing.T) {
	for _, name := range []asl.HistoryName{{Execution: "run-1"}, {Execution: "run-1", MapRun: "Backfill-4/child/Inner-3"}} {
		h := &Histories{Dir: filepath.Join(t.TempDir(), "a", "b"), SegmentBytes: 2000}
		events := sample(50)
		write(t, h, name, events[:20], 3)
		write(t, h, name, events[20:], 7) // and again after a close
		history := open(t, h, name)
		got := collect(t, history)
		if !reflect.DeepEqual(got, events) {
			t.Errorf("%s: the events differ", name)
		}
		if err := history.Close(); err != nil {
			t.Error(err)
		}
		var read []asl.Event
		for ev, err := range h.Read(name) {
			if err != nil {
				t.Fatal(err)
			}
			read = append(read, ev)
		}
		if len(read) != len(events) {
			t.Errorf("%s: Read yields %d events", name, len(read))
		}
	}
}

func TestNothingIsMadeBeforeTheFirstEvent(t *testing.T) {
	dir := t.TempDir()
	h := &Histories{Dir: dir}
	history := open(t, h, asl.HistoryName{Execution: "run"})
	if got := collect(t, history); len(got) != 0 {
		t.Error("there are events")
	}
	if err := history.Close(); err != nil {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("%v was made", entries)
	}
}

// TestLookingDoesNotRefuse has displays ask whether a history is held: that must neither look like its owner nor keep the owner out.
func TestLookingDoesNotRefuse(t *testing.T) {
	h := &Histories{Dir: t.TempDir()}
	name := asl.HistoryName{Execution: "run"}
	write(t, h, name, sample(1), 1)
	var lookers sync.WaitGroup
	for range 2 {
		lookers.Go(func() {
			for range 2000 {
				if h.Held(name.Execution) {
					t.Error("it is held, and nobody has it open")
				}
			}
		})
	}
	lookers.Wait()

	ctx, stop := context.WithCancel(t.Context())
	for range 2 {
		lookers.Go(func() {
			for ctx.Err() == nil {
				h.Held(name.Execution)
				time.Sleep(100 * time.Microsecond)
			}
		})
	}
	for range 200 {
		if err := open(t, h, name).Close(); err != nil {
			t.Error(err)
		}
	}
	stop()
	lookers.Wait()
}

func TestSecondOpenIsRefused(t *testing.T) {
	h := &Histories{Dir: t.TempDir()}
	name := asl.HistoryName{Execution: "run"}
	write(t, h, name, sample(1), 1)
	first := open(t, h, name)
	if _, err := h.Open(t.Context(), name); !errors.Is(err, ErrHeld) {
		t.Errorf("second open: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	again := open(t, h, name)
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	// Two that start at once: both find nothing, one gets to write.
	h = &Histories{Dir: t.TempDir()}
	a, b := open(t, h, name), open(t, h, name)
	collect(t, a)
	collect(t, b)
	if err := a.Append(t.Context(), sample(1)); err != nil {
		t.Error(err)
	}
	if err := b.Append(t.Context(), sample(1)); err == nil {
		t.Error("both of two openers could write")
	}
}

// TestTruncation cuts a history off: what comes back is every whole line.
func TestTruncation(t *testing.T) {
	h := &Histories{Dir: t.TempDir()}
	name := asl.HistoryName{Execution: "run"}
	events := sample(4)
	write(t, h, name, events, 2)
	path := filepath.Join(h.Dir, "run", historyFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) {
		near := bytes.IndexByte(whole[max(cut-1, 0):min(cut+2, len(whole))], '\n') >= 0
		if !near && cut%40 != 0 && !testenv.Full() {
			continue // each costs a few fsyncs
		}
		if err := os.WriteFile(path, whole[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		history := open(t, h, name)
		got := collect(t, history)
		want := bytes.Count(whole[:cut], []byte("\n"))
		if len(got) != want {
			t.Fatalf("cut at %d: %d events, want %d", cut, len(got), want)
		}
		if err := history.Append(t.Context(), events[want:want+1]); err != nil {
			t.Fatalf("cut at %d: append: %v", cut, err)
		}
		if err := history.Close(); err != nil {
			t.Fatal(err)
		}
		history = open(t, h, name)
		if got := collect(t, history); !reflect.DeepEqual(got, events[:want+1]) {
			t.Fatalf("cut at %d: what was appended does not follow", cut)
		}
		if err := history.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamage flips bits at every byte but those of the last line.
func TestDamage(t *testing.T) {
	h := &Histories{Dir: t.TempDir()}
	name := asl.HistoryName{Execution: "run"}
	write(t, h, name, sample(4), 4)
	path := filepath.Join(h.Dir, "run", historyFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for at := range len(whole) {
		damaged := bytes.Clone(whole)
		damaged[at] ^= 0x11
		if err := os.WriteFile(path, damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		start := int64(0)
		for _, line := range lines {
			if start+int64(len(line)) > int64(at) {
				break
			}
			start += int64(len(line))
		}
		var damage *DamageError
		var failed error
		for _, err := range h.Read(name) {
			failed = err
		}
		switch {
		case at == len(whole)-1: // without its newline the last line counts as torn
			if failed != nil {
				t.Errorf("byte %d: %v", at, failed)
			}
		case !errors.As(failed, &damage):
			t.Errorf("byte %d: damage was not found: %v", at, failed)
		case damage.Offset != start:
			t.Errorf("byte %d: offset %d, want %d", at, damage.Offset, start)
		}
	}
}

// TestSealingSurvivesACrash leaves the states that a crash during the compression of a
// segment can leave.
func TestSealingSurvivesACrash(t *testing.T) {
	h := &Histories{Dir: t.TempDir(), SegmentBytes: 1000}
	name := asl.HistoryName{Execution: "run", MapRun: "Map-3"}
	events := sample(20)
	write(t, h, name, events, 1)
	dir := filepath.Join(h.Dir, "run", "Map-3")
	for _, left := range []string{"000001.jsonl", "000002.jsonl.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, left), []byte("half a li"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	history := open(t, h, name)
	if got := collect(t, history); !reflect.DeepEqual(got, events) {
		t.Error("the events differ")
	}
	if err := history.Close(); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, "000002.jsonl.gz")); err != nil {
		t.Fatal(err)
	}
	var failed error
	for _, err := range h.Read(name) {
		failed = err
	}
	if failed == nil || !strings.Contains(failed.Error(), "000002 is missing") {
		t.Errorf("a missing file: %v", failed)
	}
}

func TestNamesStayBelowTheDirectory(t *testing.T) {
	h := &Histories{Dir: t.TempDir()}
	for _, name := range []asl.HistoryName{{}, {Execution: ".."}, {Execution: "a", MapRun: "../b"}, {Execution: "/etc"}, {Execution: "a", MapRun: "b/../../c"}} {
		if _, err := h.Open(context.Background(), name); err == nil {
			t.Errorf("%q was opened", name)
		}
	}
}

// FuzzRead feeds a history file of any content: it is read to a point or refused, and what
// was read is what was written.
func FuzzRead(f *testing.F) {
	var buf bytes.Buffer
	for _, ev := range sample(3) {
		if err := encode(&buf, &ev); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(buf.Bytes())
	f.Add(buf.Bytes()[:buf.Len()-5])
	f.Add([]byte("{}\n"))
	f.Add(make([]byte, 100))
	f.Fuzz(func(t *testing.T, content []byte) {
		var events []asl.Event
		var failed error
		r := reader{yield: func(ev asl.Event, err error) bool {
			if failed = err; err == nil {
				events = append(events, ev)
			}
			return err == nil
		}}
		r.lines("fuzz", bytes.NewReader(content), true)
		if r.size > int64(len(content)) {
			t.Fatalf("offset %d in %d bytes", r.size, len(content))
		}
		if failed == nil && !r.torn && r.size != int64(len(content)) {
			t.Fatalf("%d of %d bytes were read without an error", r.size, len(content))
		}
		var again bytes.Buffer
		for _, ev := range events {
			if err := encode(&again, &ev); err != nil {
				t.Fatal(err)
			}
			if _, err := decode(bytes.TrimSuffix(again.Bytes(), []byte("\n"))); err != nil {
				t.Fatal(err)
			}
			again.Reset()
		}
	})
}
