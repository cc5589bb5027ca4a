package asl

import (
	"encoding/json"
	"strings"
	"time"
)

// EventType is the type of a history event, in AWS's words.
type EventType string

// The events of Step Functions that the engine produces. Those of a state are made of
// its type: PassStateEntered, TaskStateExited, WaitStateAborted and so on.
const (
	ExecutionStarted   EventType = "ExecutionStarted"
	ExecutionSucceeded EventType = "ExecutionSucceeded"
	ExecutionFailed    EventType = "ExecutionFailed"
	ExecutionTimedOut  EventType = "ExecutionTimedOut"
	ExecutionAborted   EventType = "ExecutionAborted"
	ExecutionRedriven  EventType = "ExecutionRedriven"

	TaskScheduled EventType = "TaskScheduled"
	TaskStarted   EventType = "TaskStarted"
	TaskSubmitted EventType = "TaskSubmitted"
	TaskSucceeded EventType = "TaskSucceeded"
	TaskFailed    EventType = "TaskFailed"
	TaskTimedOut  EventType = "TaskTimedOut"

	LambdaFunctionScheduled EventType = "LambdaFunctionScheduled"
	LambdaFunctionStarted   EventType = "LambdaFunctionStarted"
	LambdaFunctionSucceeded EventType = "LambdaFunctionSucceeded"
	LambdaFunctionFailed    EventType = "LambdaFunctionFailed"
	LambdaFunctionTimedOut  EventType = "LambdaFunctionTimedOut"

	ParallelStateStarted   EventType = "ParallelStateStarted"
	ParallelStateSucceeded EventType = "ParallelStateSucceeded"
	ParallelStateFailed    EventType = "ParallelStateFailed"

	MapStateStarted       EventType = "MapStateStarted"
	MapStateSucceeded     EventType = "MapStateSucceeded"
	MapStateFailed        EventType = "MapStateFailed"
	MapIterationStarted   EventType = "MapIterationStarted"
	MapIterationSucceeded EventType = "MapIterationSucceeded"
	MapIterationFailed    EventType = "MapIterationFailed"
	MapIterationAborted   EventType = "MapIterationAborted"

	MapRunStarted   EventType = "MapRunStarted"
	MapRunSucceeded EventType = "MapRunSucceeded"
	MapRunFailed    EventType = "MapRunFailed"
	MapRunAborted   EventType = "MapRunAborted"
	MapRunRedriven  EventType = "MapRunRedriven"
)

// The engine's own notes. They have no ID, since Step Functions has no such events;
// [Event.Note] tells them apart.
const (
	// NoteRetry records that an attempt of a state failed and when the next one begins.
	NoteRetry EventType = "RetryScheduled"
	// NoteBranchFailed records that a branch of a Parallel state failed, and with what.
	NoteBranchFailed EventType = "BranchFailed"
	// NoteAnswer records what the holder of a task token answered, until the task's own event tells it.
	NoteAnswer EventType = "TaskAnswered"
	// NoteProgress reports the counts of a Map Run. It goes to observers only, not into the history.
	NoteProgress EventType = "MapRunProgress"
	// NoteItems begins the history of child executions: what the Map Run read, in number and digest.
	NoteItems EventType = "MapRunItems"
	// NoteRedrive parts the history of child executions: what failed before it is redriven after it.
	NoteRedrive EventType = "MapRunRedriveBegun"
	// NoteUpdate records what [Engine.UpdateMapRun] changed.
	NoteUpdate EventType = "MapRunUpdated"
)

// Event is an event of an execution's history: AWS's event types and contents, laid
// out flat. Which fields are set depends on the type.
type Event struct {
	// Child is the name of the child execution that the event belongs to; empty for the
	// execution that was started.
	Child string `json:"child,omitempty"`
	// ID counts the events of an execution from 1; 0 for the engine's own notes.
	ID       int64     `json:"id,omitempty"`
	Previous int64     `json:"previousEventId,omitempty"`
	Type     EventType `json:"type"`
	Time     time.Time `json:"timestamp"` // UTC, to the microsecond

	// Strand names the line of control within the execution: empty for the main one, else
	// the ID of the event that began the branches or iterations, a dot and the index.
	Strand string `json:"strand,omitempty"`
	// State is the state's name.
	State  string          `json:"name,omitempty"`
	Input  json.RawMessage `json:"input,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	Error  string          `json:"error,omitempty"`
	Cause  string          `json:"cause,omitempty"`

	// Assigned are the variables that the state assigned.
	Assigned map[string]json.RawMessage `json:"assignedVariables,omitempty"`

	Index  *int `json:"index,omitempty"`  // of the iteration
	Length *int `json:"length,omitempty"` // of the Map's array; 0 with an ItemReader

	Resource         string `json:"resource,omitempty"`
	TimeoutSeconds   int64  `json:"timeoutInSeconds,omitempty"`
	HeartbeatSeconds int64  `json:"heartbeatInSeconds,omitempty"`
	Token            string `json:"taskToken,omitempty"`
	MapRun           string `json:"mapRunArn,omitempty"`
	RedriveCount     int    `json:"redriveCount,omitempty"`

	// Of ExecutionStarted: what the execution is bound to.
	Machine    string `json:"stateMachine,omitempty"`
	Definition string `json:"definitionSha256,omitempty"`

	// Of the exit from a state: the state that follows; empty if none does. AWS has no such field.
	Next string `json:"next,omitempty"`

	// Of NoteRetry: when the next attempt begins, and which retrier said so.
	Until   *time.Time `json:"until,omitempty"`
	Retrier *int       `json:"retrier,omitempty"`

	// Of NoteProgress; of NoteItems, with the items' SHA-256.
	Counts *MapCounts `json:"counts,omitempty"`
	Items  string     `json:"itemsSha256,omitempty"`
	// Of NoteUpdate.
	Update *MapRunUpdate `json:"update,omitempty"`
}

// Note reports whether the event is the engine's own, unknown to Step Functions.
func (e *Event) Note() bool { return e.ID == 0 }

// MapCounts are the child executions of a Map Run by status. Items are what they were
// made of: as many, unless they are batched. PendingRedrive have failed before, and are to run again.
type MapCounts struct {
	Total          int `json:"total"`
	Pending        int `json:"pending"`
	PendingRedrive int `json:"pendingRedrive,omitempty"`
	Running        int `json:"running"`
	Succeeded      int `json:"succeeded"`
	Failed         int `json:"failed"`
	Aborted        int `json:"aborted"`
	Items          int `json:"items"`
}

// note reports whether an event of an execution is the engine's own.
func (t EventType) note() bool { return t == NoteRetry || t == NoteBranchFailed || t == NoteAnswer }

func (t EventType) entered() bool { return strings.HasSuffix(string(t), "StateEntered") }
func (t EventType) exited() bool  { return strings.HasSuffix(string(t), "StateExited") }

// terminal reports whether the event is the last one of an execution.
func (t EventType) terminal() bool {
	return t == ExecutionSucceeded || t == ExecutionFailed || t == ExecutionTimedOut || t == ExecutionAborted
}
