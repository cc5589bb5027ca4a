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

// tokenTable holds the tasks that wait for an answer from outside.
type tokenTable struct {
	mu      sync.Mutex
	waiting map[string]*callback
}

// callback is one waiting task. The answer is sent at most once.
type callback struct {
	answer    chan answer // has room for the answer
	heartbeat func()
}

type answer struct {
	output json.RawMessage
	err    *Error
}

func (t *tokenTable) add(token string, cb *callback) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting == nil {
		t.waiting = map[string]*callback{}
	}
	t.waiting[token] = cb
}

func (t *tokenTable) remove(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waiting, token)
}

func (t *tokenTable) take(token string) (*callback, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	cb := t.waiting[token]
	if cb == nil {
		return nil, fmt.Errorf("task token %q: %w", token, ErrNoTask)
	}
	delete(t.waiting, token)
	return cb, nil
}

// SendTaskSuccess answers the task that waits for the token. A token is answered once; an
// answer that was not yet in the history when the engine stopped has to be sent again
// after [Engine.Resume].
func (e *Engine) SendTaskSuccess(_ context.Context, token string, output json.RawMessage) error {
	if !json.Valid(output) {
		return fmt.Errorf("answer task: the output is not JSON")
	}
	cb, err := e.tokens.take(token)
	if err != nil {
		return err
	}
	cb.answer <- answer{output: output}
	return nil
}

// SendTaskFailure lets the task that waits for the token fail.
func (e *Engine) SendTaskFailure(_ context.Context, token string, failure Error) error {
	cb, err := e.tokens.take(token)
	if err != nil {
		return err
	}
	cb.answer <- answer{err: &Error{Name: failure.Name, Cause: failure.Cause}}
	return nil
}

// SendTaskHeartbeat postpones the HeartbeatSeconds of the task that waits for the token.
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
