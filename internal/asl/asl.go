// Package asl interprets state machines in the Amazon States Language (the
// JSONPath form) as AWS Step Functions does: same states, same error names, same
// history events, same limits.
//
// It owns the language and its durability. Every execution keeps a [History]; an
// event that leads to an effect is durable before the effect is caused, so an
// execution that was interrupted anywhere continues with [Engine.Resume]: what
// was answered is not asked again, what was scheduled and not answered is invoked
// again, and a wait or a retry ends when it would have ended. One that is stopped, has
// timed out or has failed is continued by [Engine.Redrive]. A Map Run can be changed and
// paused while it runs: [Engine.UpdateMapRun].
//
// It knows nothing of what its tasks do: they are run by a [TaskRunner], objects
// are read and written through [Objects]. A definition that uses what this package
// does not do (JSONata, activities, service integrations other than Lambda's) is
// refused by [Parse], never run differently from what is written.
package asl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"
)

// Limits of Step Functions that the engine enforces.
const (
	// MaxPayload is the most bytes that an input, an output or a result may have as JSON.
	MaxPayload = 256 * 1024
	// MaxEvents is the most events that the history of one execution may have.
	MaxEvents = 25_000
)

// Status is the state of an execution.
type Status string

// The states of an execution that has ended.
const (
	Succeeded Status = "SUCCEEDED"
	Failed    Status = "FAILED"
	TimedOut  Status = "TIMED_OUT"
	Aborted   Status = "ABORTED"
)

// Result is how an execution ended. Output is set if it succeeded; otherwise Error
// and Cause, both of which may be empty.
type Result struct {
	Status Status          `json:"status"`
	Output json.RawMessage `json:"output,omitempty"`
	Error  string          `json:"error,omitempty"`
	Cause  string          `json:"cause,omitempty"`
}

// Error is a failure that Retry and Catch can name. A [TaskRunner] returns one to
// say which; any other error of a task counts as Lambda.Unknown.
type Error struct {
	Name  string
	Cause string
}

// Error returns the name and the cause.
func (e *Error) Error() string {
	if e.Cause == "" {
		return e.Name
	}
	return e.Name + ": " + e.Cause
}

// FunctionError returns the error that Step Functions reports for a function that
// ended with an error of the given type: the cause is the object that Lambda returns.
func FunctionError(errorType, message string) *Error {
	cause, err := json.Marshal(struct {
		Message string `json:"errorMessage"`
		Type    string `json:"errorType"`
	}{message, errorType})
	if err != nil { // two strings always encode
		cause = nil
	}
	return &Error{Name: errorType, Cause: string(cause)}
}

// Abort is the cause to cancel a context with (see [context.WithCancelCause]) in order
// to end the execution for good, as StopExecution does: its end is durable before its
// child executions are ended too. Cancelled in any other way an execution is only
// interrupted, and [Engine.Resume] continues it.
type Abort struct{ Name, Cause string }

// Error says that the execution was aborted, and why.
func (a *Abort) Error() string { return fmt.Sprintf("aborted: %s %s", a.Name, a.Cause) }

// What Start, Resume and Redrive refuse.
var (
	ErrExists            = errors.New("there is an execution of this name: resume it, or start one of another name")
	ErrNoExecution       = errors.New("there is no execution of this name")
	ErrDefinitionChanged = errors.New("the definition is not the one that the execution began with: start a new execution")
	ErrNotRedrivable     = errors.New("the execution cannot be redriven")
)

// TaskRequest is one attempt of a Task state.
type TaskRequest struct {
	// Resource is the state's Resource.
	Resource string
	// Function is the function's bare name, without account, Region and qualifier.
	Function  string
	Qualifier string
	// Payload is what the function receives.
	Payload json.RawMessage
	// Parameters is the state's whole effective input: for lambda:invoke the object that
	// has FunctionName and Payload, otherwise the same as Payload.
	Parameters json.RawMessage

	State     string
	Execution string // name of the execution that was started
	Child     string // name of the child execution, in a Distributed Map
	Attempt   int    // counts from 0; a repetition after an interruption has the same number
	// Token is the task token of a waitForTaskToken task; see [Engine.SendTaskSuccess].
	Token string
	// Deadline is when the attempt times out; zero if it does not.
	Deadline time.Time
	// Heartbeat postpones the attempt's HeartbeatSeconds. It may be called from any goroutine.
	Heartbeat func()
}

// TaskRunner runs tasks.
type TaskRunner interface {
	// Run returns the function's answer as JSON; nil counts as null. It is called again
	// with the same request if the engine was stopped before the answer was recorded, so
	// it must be idempotent. When ctx is done (timeout, failed sibling, interruption) it
	// must return soon; its answer is then ignored. It is called concurrently.
	Run(ctx context.Context, req TaskRequest) (json.RawMessage, error)
}

// TaskFunc is a function that is a [TaskRunner].
type TaskFunc func(ctx context.Context, req TaskRequest) (json.RawMessage, error)

// Run calls f.
func (f TaskFunc) Run(ctx context.Context, req TaskRequest) (json.RawMessage, error) {
	return f(ctx, req)
}

// Object is an entry of a listing.
type Object struct {
	Key          string
	ETag         string
	Size         int64 // bytes
	LastModified time.Time
	StorageClass string // empty: STANDARD
}

// Objects is the object store that ItemReader reads and ResultWriter writes.
type Objects interface {
	// Get opens an object for reading.
	Get(ctx context.Context, bucket, key string) (io.ReadCloser, error)
	// List yields the objects whose keys begin with prefix, in order of their keys.
	List(ctx context.Context, bucket, prefix string) iter.Seq2[Object, error]
	// Put writes an object, replacing what was there.
	Put(ctx context.Context, bucket, key string, body []byte) error
}

// Clock tells the time and waits.
type Clock interface {
	Now() time.Time
	// Sleep returns nil at t, or the context's cause if that is done first.
	Sleep(ctx context.Context, t time.Time) error
}

// Engine runs executions. Its fields are set before its first use. All methods may be
// called concurrently.
type Engine struct {
	Tasks     TaskRunner
	Objects   Objects   // needed only for ItemReader and ResultWriter
	Histories Histories // nil: the histories are kept in memory and lost with the engine
	Clock     Clock     // nil: the system's

	// Observe is told every event after it was put in the history's queue, its own
	// notes included, one at a time. It must not block for long.
	Observe func(Event)

	// MaxParallel limits how many iterations of one Map state run at once, below what the
	// definition allows; 0: only the definition and AWS's limits (40 inline, 10,000 distributed).
	MaxParallel int

	// Seed varies the jitter of retries.
	Seed uint64

	observing sync.Mutex
	memory    memoryHistories
	tokens    tokenTable
	mapRuns   mapRunTable
}
