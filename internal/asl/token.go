package asl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
)

// ErrNoTask is returned for a task token that no running task of this engine waits for.
var ErrNoTask = errors.New("no task waits for this token: it has ended, or its execution does not run here")

// Limits of SendTaskSuccess and SendTaskFailure (API reference).
const (
	maxErrorSize = 256
	maxCauseSize = 32_768
)

// tokenTable holds the tasks that wait for an answer from outside.
type tokenTable struct {
	mu      sync.Mutex
	waiting map[string]*callback
}

// callback is one waiting task. Who takes it from the table sends one answer.
type callback struct {
	strand    *strand
	state     string
	answer    chan answer // has room for the answer
	heartbeat func()
}

// answer is what a task was told; broken, if that could not be recorded.
type answer struct {
	output json.RawMessage
	err    *Error
	broken error
}

func (t *tokenTable) add(token string, cb *callback) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting == nil {
		t.waiting = map[string]*callback{}
	}
	t.waiting[token] = cb
}

// take returns the task that waits for the token, which then waits for its taker; nil if there is none, or another has it.
func (t *tokenTable) take(token string) *callback {
	t.mu.Lock()
	defer t.mu.Unlock()
	cb := t.waiting[token]
	delete(t.waiting, token)
	return cb
}

// SendTaskSuccess answers the task that waits for the token. When it returns nil the answer is durable, and the task ends
// with it. A token is answered once; it may be while the function that was given it still runs. [ErrNoTask] is returned
// for a token that was answered, has timed out, or belongs to an execution that does not run here.
func (e *Engine) SendTaskSuccess(_ context.Context, token string, output json.RawMessage) error {
	switch {
	case !json.Valid(output):
		return errors.New("answer task: the output is not JSON")
	case len(output) > MaxPayload:
		return fmt.Errorf("answer task: the output has %d bytes, %d are allowed", len(output), MaxPayload)
	}
	return e.answer(token, answer{output: output})
}

// SendTaskFailure lets the task that waits for the token fail. It is otherwise like [Engine.SendTaskSuccess].
func (e *Engine) SendTaskFailure(_ context.Context, token string, failure Error) error {
	if len(failure.Name) > maxErrorSize || len(failure.Cause) > maxCauseSize {
		return fmt.Errorf("answer task: an error's name has at most %d bytes and its cause %d, not %d and %d",
			maxErrorSize, maxCauseSize, len(failure.Name), len(failure.Cause))
	}
	return e.answer(token, answer{err: &Error{Name: failure.Name, Cause: failure.Cause}})
}

func (e *Engine) answer(token string, a answer) error {
	cb := e.tokens.take(token)
	if cb == nil {
		return fmt.Errorf("task token %q: %w", token, ErrNoTask)
	}
	s := cb.strand
	ev := Event{Type: NoteAnswer, State: cb.state, Strand: s.key, Token: token, Output: a.output}
	if a.err != nil {
		ev.Error, ev.Cause = a.err.Name, a.err.Cause
	}
	_, err := s.x.append(ev)
	if err == nil {
		err = s.x.sync()
	}
	a.broken = err
	cb.answer <- a
	if errors.Is(err, errStopped) {
		err = ErrNoTask
	}
	if err != nil {
		return fmt.Errorf("task token %q: %w", token, err)
	}
	return nil
}

// answered returns what a task was told, according to a note.
func answered(note Event) answer {
	if note.Output != nil {
		return answer{output: note.Output}
	}
	return answer{err: &Error{Name: note.Error, Cause: note.Cause}}
}

// SendTaskHeartbeat postpones the HeartbeatSeconds of the task that waits for the token. After an interruption of the engine
// they count anew: nobody could have sent it one.
func (e *Engine) SendTaskHeartbeat(_ context.Context, token string) error {
	e.tokens.mu.Lock()
	cb := e.tokens.waiting[token]
	e.tokens.mu.Unlock()
	if cb == nil {
		return fmt.Errorf("task token %q: %w", token, ErrNoTask)
	}
	cb.heartbeat()
	return nil
}
