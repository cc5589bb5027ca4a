package asl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hindcast/internal/asl/expr"
	"hindcast/internal/testenv"
)

// conformanceCase is a case as the folder's README describes it.
type conformanceCase struct {
	Name       string
	Family     string
	Definition json.RawMessage
	Input      json.RawMessage
	Tasks      []struct {
		State    string
		Attempts []caseAttempt
	}
	S3     []struct{ Bucket, Key, Body string }
	Clock  string
	Expect struct {
		Status  Status
		Output  json.RawMessage
		Error   json.RawMessage
		Cause   json.RawMessage
		States  []map[string]any
		Partial bool
		Racy    bool
	}
}

type caseAttempt struct {
	Input   json.RawMessage
	Output  json.RawMessage
	Payload json.RawMessage
	Error   *string
	Cause   string
	Hang    bool
	used    bool
}

// TestConformance runs the cases that were recorded of AWS, on a fake clock.
func TestConformance(t *testing.T) {
	dir := filepath.Join(testenv.Shared(t, "HINDCAST_ASL_CASES", "asl-conformance"), "cases")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	ran, failed := map[string]int{}, map[string]int{}
	for _, entry := range entries {
		body, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		var c conformanceCase
		if err := json.Unmarshal(body, &c); err != nil {
			t.Fatalf("%s: %v", entry.Name(), err)
		}
		ran[c.Family]++
		if !t.Run(c.Name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { runCase(t, &c) }) }) {
			failed[c.Family]++
		}
	}
	for _, family := range slices.Sorted(maps.Keys(ran)) {
		t.Logf("%-24s %3d cases, %d failed", family, ran[family], failed[family])
	}
	if len(ran) == 0 {
		t.Errorf("no cases in %s", dir)
	}
}

func runCase(t *testing.T, c *conformanceCase) {
	m, err := Parse(c.Definition, nil)
	if err != nil {
		t.Fatal(err)
	}
	var events []Event
	e := &Engine{
		Tasks:   &stubTasks{t: t, c: c},
		Objects: caseObjects(c),
		Clock:   &offsetClock{},
		Observe: func(ev Event) {
			if ev.Child == "" && !ev.Note() {
				events = append(events, ev)
			}
		},
	}
	if c.Clock != "" {
		start, err := time.Parse(time.RFC3339, c.Clock)
		if err != nil {
			t.Fatal(err)
		}
		e.Clock = &offsetClock{time.Until(start)}
	}
	result, err := e.Start(t.Context(), m, "case", c.Input)
	if err != nil {
		t.Fatal(err)
	}
	want := c.Expect
	if result.Status != want.Status {
		t.Errorf("status is %s (%s: %s), want %s", result.Status, result.Error, result.Cause, want.Status)
	}
	for _, check := range []struct {
		what      string
		got, want json.RawMessage
	}{
		{"output", result.Output, want.Output},
		{"error", quoted(result.Error), want.Error},
		{"cause", quoted(result.Cause), want.Cause},
	} {
		if check.want == nil && check.got == nil {
			continue
		}
		if !like(decoded(t, check.got), decoded(t, check.want)) {
			t.Errorf("%s is %s\nwant %s", check.what, check.got, check.want)
		}
	}
	if want.States != nil && !want.Racy {
		compareHistories(t, events, c)
	}
	if want.Racy {
		comparePrefix(t, events, want.States)
	}
	if t.Failed() {
		for _, ev := range events {
			t.Logf("%3d ← %3d %s %q %s%s %s %s", ev.ID, ev.Previous, ev.Type, ev.State, ev.Input, ev.Output, ev.Error, ev.Cause)
		}
	}
}

func quoted(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	b, _ := json.Marshal(s)
	return b
}

func decoded(t *testing.T, b json.RawMessage) any {
	t.Helper()
	if b == nil {
		return missing{}
	}
	v, err := expr.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// missing stands for a value that is not there.
type missing struct{}

// like reports whether a value is as a pattern says.
func like(got, want any) bool {
	if w, ok := want.(map[string]any); ok {
		if w["$any"] == true {
			_, absent := got.(missing)
			return !absent || w["optional"] == true
		}
		g, ok := got.(map[string]any)
		if !ok {
			return false
		}
		for k, v := range w {
			member, ok := g[k]
			if !ok {
				member = missing{}
			}
			if !like(member, v) {
				return false
			}
		}
		for k := range g {
			if _, ok := w[k]; !ok {
				return false
			}
		}
		return true
	}
	if w, ok := want.([]any); ok {
		g, ok := got.([]any)
		return ok && len(g) == len(w) && !slices.ContainsFunc(slices.Collect(indices(len(g))), func(i int) bool { return !like(g[i], w[i]) })
	}
	return expr.Equal(got, want)
}

func indices(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// recordedForm lays an event out as the cases have it.
func recordedForm(t *testing.T, ev Event) map[string]any {
	m := map[string]any{"event": string(ev.Type)}
	text := func(name, value string) {
		if value != "" {
			m[name] = value
		}
	}
	text("name", ev.State)
	text("error", ev.Error)
	text("cause", ev.Cause)
	if ev.Input != nil {
		m["input"] = decoded(t, ev.Input)
	}
	if ev.Output != nil {
		m["output"] = decoded(t, ev.Output)
	}
	if ev.Index != nil {
		m["index"] = expr.Number(int64(*ev.Index))
	}
	if ev.Length != nil {
		m["length"] = expr.Number(int64(*ev.Length))
	}
	if ev.TimeoutSeconds > 0 {
		m["timeoutInSeconds"] = expr.Number(ev.TimeoutSeconds)
	}
	if ev.Assigned != nil {
		vars := map[string]any{}
		for name, raw := range ev.Assigned {
			vars[name] = decoded(t, raw)
		}
		m["assigned"] = vars
	}
	return m
}

// unrecorded are the fields that AWS's events of some types lack and ours have.
func unrecorded(event, field string) bool {
	switch {
	case event == "ExecutionStarted" && field == "input":
		return true
	case field == "name":
		return strings.HasPrefix(event, "MapState") || strings.HasPrefix(event, "MapRun") || strings.HasPrefix(event, "ParallelState") ||
			strings.HasSuffix(event, "Aborted")
	case field == "error" || field == "cause":
		return event == "MapIterationFailed" || event == "MapStateFailed" || event == "ParallelStateFailed" || event == "MapRunFailed"
	case field == "output":
		return event == "ExecutionSucceeded"
	}
	return false
}

func sameEvent(got, want map[string]any) bool {
	for field, w := range want {
		if field == "previous" {
			continue
		}
		g, ok := got[field]
		if !ok {
			g = missing{}
		}
		if !like(g, w) {
			return false
		}
	}
	for field := range got {
		if _, ok := want[field]; !ok && !unrecorded(fmt.Sprint(got["event"]), field) {
			return false
		}
	}
	return true
}

// compareHistories pairs the events one to one, with the events that they follow.
func compareHistories(t *testing.T, events []Event, c *conformanceCase) {
	want := normalized(t, c.Expect.States)
	got := make([]map[string]any, len(events))
	for i, ev := range events {
		got[i] = recordedForm(t, ev)
	}
	if len(got) != len(want) && !c.Expect.Partial {
		t.Errorf("%d events, want %d", len(got), len(want))
		return
	}
	pair := make([]int, len(want)) // index of the event of ours
	used := make([]bool, len(got))
	deepest := 0
	var match func(i int) bool
	match = func(i int) bool {
		deepest = max(deepest, i)
		if i == len(want) {
			return true
		}
		for j := range got {
			if used[j] || !sameEvent(got[j], want[i]) {
				continue
			}
			switch p := want[i]["previous"].(type) {
			case nil:
				if events[j].Previous != 0 {
					continue
				}
			case json.Number:
				k, _ := expr.Int(p)
				if want[i]["event"] == "MapStateExited" { // recordings differ in what it follows
					break
				}
				if int(k) >= i || events[j].Previous != events[pair[k]].ID {
					continue
				}
			}
			used[j], pair[i] = true, j
			if match(i + 1) {
				return true
			}
			used[j] = false
		}
		return false
	}
	if !match(0) {
		t.Errorf("no event agrees with the recorded event %d: %v", deepest, want[deepest])
	}
}

func normalized(t *testing.T, states []map[string]any) []map[string]any {
	b, err := expr.Encode(states)
	if err != nil {
		t.Fatal(err)
	}
	list, _ := decoded(t, b).([]any)
	out := make([]map[string]any, len(list))
	for i := range list {
		out[i], _ = list[i].(map[string]any)
	}
	return out
}

// comparePrefix compares the events up to the first Map or Parallel state.
func comparePrefix(t *testing.T, events []Event, states []map[string]any) {
	for i, want := range normalized(t, states) {
		if strings.HasSuffix(fmt.Sprint(want["event"]), "StateStarted") {
			return
		}
		if i >= len(events) || !sameEvent(recordedForm(t, events[i]), want) {
			t.Errorf("event %d is not the recorded %v", i, want)
			return
		}
	}
}

// stubTasks answers as the case says.
type stubTasks struct {
	t  *testing.T
	c  *conformanceCase
	mu sync.Mutex
}

func (s *stubTasks) Run(ctx context.Context, req TaskRequest) (json.RawMessage, error) {
	a := s.next(req)
	switch {
	case a == nil:
		return nil, errors.New("no attempt is recorded")
	case a.Hang:
		<-ctx.Done()
		return nil, ctx.Err()
	case a.Error != nil:
		return nil, &Error{*a.Error, a.Cause}
	case a.Payload != nil:
		return a.Payload, nil
	}
	return a.Output, nil
}

func (s *stubTasks) next(req TaskRequest) *caseAttempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.c.Tasks {
		task := &s.c.Tasks[i]
		if task.State != req.State {
			continue
		}
		var first *caseAttempt
		for j := range task.Attempts {
			a := &task.Attempts[j]
			if a.used {
				continue
			}
			if first == nil {
				first = a
			}
			if like(decoded(s.t, req.Parameters), decoded(s.t, a.Input)) {
				a.used = true
				return a
			}
		}
		if first != nil {
			s.t.Errorf("task %s received %s, want %s", req.State, req.Parameters, first.Input)
			first.used = true
		}
		return first
	}
	s.t.Errorf("task %s: no attempts are recorded", req.State)
	return nil
}

// memObjects are objects in memory, by bucket and key.
type memObjects struct {
	mu      sync.Mutex
	objects map[[2]string][]byte
}

func caseObjects(c *conformanceCase) *memObjects {
	m := &memObjects{objects: map[[2]string][]byte{}}
	for _, o := range c.S3 {
		m.objects[[2]string{o.Bucket, o.Key}] = []byte(o.Body)
	}
	return m
}

func (m *memObjects) Get(_ context.Context, bucket, key string) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	body, ok := m.objects[[2]string{bucket, key}]
	if !ok {
		return nil, fmt.Errorf("there is no object %s", key)
	}
	return io.NopCloser(strings.NewReader(string(body))), nil
}

func (m *memObjects) List(_ context.Context, bucket, prefix string) iter.Seq2[Object, error] {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Object
	for id, body := range m.objects {
		if id[0] == bucket && strings.HasPrefix(id[1], prefix) {
			out = append(out, Object{Key: id[1], ETag: fmt.Sprintf("%q", id[1]), Size: int64(len(body)), LastModified: time.Unix(1, 0)})
		}
	}
	slices.SortFunc(out, func(a, b Object) int { return strings.Compare(a.Key, b.Key) })
	return func(yield func(Object, error) bool) {
		for _, o := range out {
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (m *memObjects) Put(_ context.Context, bucket, key string, body []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[[2]string{bucket, key}] = body
	return nil
}

// offsetClock is the clock of a synctest bubble, moved.
type offsetClock struct{ by time.Duration }

func (c *offsetClock) Now() time.Time { return time.Now().Add(c.by) }

func (c *offsetClock) Sleep(ctx context.Context, t time.Time) error {
	return systemClock{}.Sleep(ctx, t.Add(-c.by))
}
