package asl

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"hindcast/internal/testenv"
)

// replayed has a retry, a wait, branches, iterations and a Map Run, one of whose children fails.
const replayed = `{"TimeoutSeconds":5000,"StartAt":"T","States":{
	"T":{"Type":"Task","Resource":"arn:aws:lambda:local:0:function:f","Retry":[{"ErrorEquals":["States.ALL"],"MaxAttempts":1}],"ResultPath":"$.t","Next":"W"},
	"W":{"Type":"Wait","Seconds":5,"Next":"P"},
	"P":{"Type":"Parallel","ResultPath":"$.p","Next":"M","Assign":{"v":1},"Branches":[
		{"StartAt":"B","States":{"B":{"Type":"Pass","End":true}}},
		{"StartAt":"I","States":{"I":{"Type":"Map","ItemsPath":"$.list","End":true,"ItemProcessor":{"StartAt":"J","States":{"J":{"Type":"Task","Resource":"arn:aws:lambda:local:0:function:f","End":true}}}}}}]},
	"M":{"Type":"Map","ItemsPath":"$.list","MaxConcurrency":2,"Next":"C","ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},
		"StartAt":"K","States":{"K":{"Type":"Task","Resource":"arn:aws:lambda:local:0:function:f","End":true}}}},
	"C":{"Type":"Choice","Choices":[{"Variable":"$[0]","IsNull":false,"Next":"S"}],"Default":"S"},
	"S":{"Type":"Succeed"}}}`

func replayEngine(h *memoryHistories, repaired bool) *Engine {
	return &Engine{Histories: h, Tasks: TaskFunc(func(_ context.Context, req TaskRequest) (json.RawMessage, error) {
		if req.State == "K" && string(req.Payload) == "2" && !repaired || req.State == "T" && req.Attempt == 0 {
			return nil, &Error{"Bad", string(req.Payload)}
		}
		return req.Payload, nil
	})}
}

// damaged resumes, and redrives, an execution whose histories were changed: two bytes say how, two bytes where. Nothing panics
// or hangs; what ends has ended for good, and what is refused is refused again.
func damaged(t *testing.T, changes []byte) {
	synctest.Test(t, func(t *testing.T) {
		m := mustParse(t, replayed)
		h := &memoryHistories{}
		if result, err := replayEngine(h, false).Start(t.Context(), m, "x", json.RawMessage(`{"list":[1,2,3]}`)); err != nil || result.Status != Failed {
			t.Fatalf("%+v %v", result, err)
		}
		for ; len(changes) >= 4; changes = changes[4:] {
			names := slices.SortedFunc(func(yield func(HistoryName) bool) {
				for name := range h.logs {
					if !yield(name) {
						return
					}
				}
			}, func(a, b HistoryName) int { return len(a.MapRun) - len(b.MapRun) })
			log := h.logs[names[int(changes[0]>>4)%len(names)]]
			if len(log.events) > 0 {
				log.events = damage(log.events, changes[0]&15, changes[1], int(changes[2]), int(changes[3]))
			}
		}
		e := replayEngine(h, true)
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		first, err := e.Resume(ctx, m, "x")
		if errors.Is(err, context.DeadlineExceeded) {
			t.Fatal("it hangs")
		}
		if again, errAgain := e.Resume(ctx, m, "x"); err == nil && (errAgain != nil || again.Status != first.Status || string(again.Output) != string(first.Output)) {
			t.Errorf("%+v, and then %+v %v", first, again, errAgain)
		}
		result, err := e.Redrive(ctx, m, "x")
		if err == nil && result.Status == "" || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("redrive: %+v %v", result, err)
		}
	})
}

// damage changes the events of a history.
func damage(events []Event, how, what byte, at, to int) []Event {
	at, to = at%len(events), to%len(events)
	events = slices.Clone(events)
	renumber := what&1 == 0
	switch how % 8 {
	case 0:
		events = events[:at] // as a crash does
	case 1:
		events = slices.Delete(events, at, at+1)
	case 2:
		events = slices.Insert(events, to, events[at])
	case 3:
		events[at], events[to] = events[to], events[at]
	case 4:
		events[at].Type = events[to].Type
	case 5:
		events[at].Strand, events[at].Child = events[to].Strand, events[to].Child
	case 6:
		events[at].Input, events[at].Output, events[at].Next = events[to].Output, events[to].Input, events[to].State
	case 7:
		events[at] = Event{Type: events[at].Type, State: events[at].State, ID: events[at].ID, Time: events[to].Time, Strand: events[at].Strand, Child: events[at].Child}
	}
	if renumber {
		next := map[string]int64{}
		for i := range events {
			if ev := &events[i]; !ev.Note() {
				next[ev.Child]++
				ev.ID = next[ev.Child]
			}
		}
	}
	return events
}

// FuzzHistory replays histories that no engine wrote.
func FuzzHistory(f *testing.F) {
	f.Add([]byte{0, 0, 5, 0})
	f.Add([]byte{4, 0, 7, 2, 3, 0, 9, 8})
	f.Add([]byte{0x17, 1, 3, 2, 0x14, 0, 6, 1})
	f.Add([]byte{0, 1, 6, 0, 7, 1, 5, 0}) // a retry without its time
	f.Fuzz(func(t *testing.T, changes []byte) { damaged(t, changes) })
}

// TestDamagedHistories replays some that are damaged at random.
func TestDamagedHistories(t *testing.T) {
	n := 100
	if testenv.Full() {
		n = 5000
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range n {
		changes := make([]byte, 4*(1+random.IntN(2)))
		for i := range changes {
			changes[i] = byte(random.Uint32())
		}
		damaged(t, changes)
		if t.Failed() {
			t.Fatalf("changes %v", changes)
		}
	}
}
