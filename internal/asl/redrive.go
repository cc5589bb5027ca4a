package asl

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits of Step Functions for redrives (developer guide, "Restarting state machine executions with redrive" and
// "Redriving Map Runs").
const (
	redrivePeriod  = 14 * 24 * time.Hour  // since the execution ended
	longestOpen    = 365 * 24 * time.Hour // since it began
	maxMapRedrives = 1000                 // of one Map Run
)

// redrivable returns the input of an execution that can be redriven, or why it cannot.
func (x *execution) redrivable(m *Machine) (json.RawMessage, error) {
	input, err := x.begun(m)
	if err != nil {
		return nil, err
	}
	if reason := x.notRedrivable(x.engine.now()); reason != "" {
		hint := "start a new execution"
		if x.end == nil {
			hint = "resume it"
		}
		return nil, fmt.Errorf("%w: %s: %s", ErrNotRedrivable, reason, hint)
	}
	return input, nil
}

// notRedrivable says, in AWS's words, why the execution could not be redriven at a time; empty if it could.
func (x *execution) notRedrivable(at time.Time) string {
	switch {
	case x.end == nil:
		return "Execution is RUNNING and cannot be redriven"
	case x.end.Type == ExecutionSucceeded:
		return "Execution is SUCCEEDED and cannot be redriven"
	case x.lastID >= MaxEvents-1: // there must be room for ExecutionRedriven and another event
		return "Execution history event limit exceeded"
	case at.Sub(x.started) > longestOpen:
		return "Execution has exceeded the max execution time"
	case at.Sub(x.end.Time) > redrivePeriod:
		return "Execution redrivable period exceeded"
	}
	return ""
}

// recordRedrive records a redrive and makes the past what it starts from.
func (x *execution) recordRedrive() error {
	if x.end == nil { // a child that was left running when the execution was stopped
		if _, err := x.append(Event{Type: ExecutionAborted}); err != nil {
			return err
		}
	}
	ev, err := x.append(Event{Type: ExecutionRedriven, Previous: x.lastID, RedriveCount: x.redrives + 1})
	if err != nil {
		return err
	}
	x.reopen(ev)
	return nil
}

// reopen forgets of the past what a redrive does again.
func (x *execution) reopen(redriven Event) {
	x.end, x.redrive = nil, false
	x.redrives++
	x.redriven = redriven
	for key, past := range x.past {
		x.past[key] = reopened(past)
	}
}

// reopened returns what a redrive keeps of a strand's events. A state that was entered and not left is begun again after
// its entry: so the events that follow it follow the entry, as AWS's do.
func reopened(past []Event) []Event {
	last := -1
	for i, ev := range past {
		if ev.Type.entered() || ev.Type.exited() {
			last = i
		}
	}
	kept, tail := slices.Clone(past[:last+1]), past[last+1:]
	if last < 0 || past[last].Type.exited() { // between two states, or at the end
		for _, ev := range tail {
			switch ev.Type {
			case ExecutionStarted, MapIterationStarted, MapIterationSucceeded:
				kept = append(kept, ev)
			}
		}
		return kept
	}
	switch strings.TrimSuffix(string(past[last].Type), "StateEntered") {
	case "Fail": // it is entered again, and fails again
		return kept[:last]
	case "Parallel", "Map":
		return append(kept, reopenedGroup(tail)...)
	}
	return kept
}

// reopenedGroup returns what a redrive keeps of the events of a Parallel or Map state between its entry and its end: the
// beginning of the last attempt, whose branches, iterations or child executions go on. It keeps nothing, so that all is
// done again, where the state's result was too large, or where a Map Run had other States.Runtime errors.
func reopenedGroup(tail []Event) []Event {
	var kept []Event
	failure := ""
	distributed := false
	for _, ev := range tail {
		switch ev.Type {
		case ParallelStateStarted, MapStateStarted:
			kept, failure, distributed = []Event{ev}, "", false
		case MapRunStarted, MapRunRedriven:
			kept = append(kept, ev)
			distributed = true
		case ExecutionAborted: // its error is the operator's
		default:
			if ev.Error != "" {
				failure = ev.Error
			}
		}
	}
	if failure == errDataLimit || distributed && failure == errRuntime {
		return nil
	}
	return kept
}
