package asl

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// grammar is what the events of a strand look like, one after the other, in an execution that has ended and was not redriven.
var grammar = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(MapIterationStarted )?(ExecutionStarted )?(` + strings.Join([]string{
		`(Pass|Succeed)StateEntered (Pass|Succeed)StateExited `,
		`FailStateEntered `,
		`ChoiceStateEntered ChoiceStateExited `,
		`WaitStateEntered (WaitStateExited |WaitStateAborted )?`,
		`TaskStateEntered (RetryScheduled )*((Task|LambdaFunction)Scheduled (Task|LambdaFunction)Started (TaskSubmitted )?((Task|LambdaFunction)(Succeeded|Failed|TimedOut) )?(RetryScheduled )?)*(TaskStateExited |TaskStateAborted )?`,
		`ParallelStateEntered (ParallelStateStarted (RetryScheduled )?)+(ParallelStateSucceeded |ParallelStateFailed )ParallelStateExited `,
		`MapStateEntered (MapStateStarted (MapRunStarted MapRun(Succeeded|Failed) )?(RetryScheduled )?)+(MapStateSucceeded |MapStateFailed )(MapStateExited )?`,
	}, "|") + `)*(MapIteration(Succeeded|Failed|Aborted) )?(BranchFailed )?(Execution(Succeeded|Failed) )?$`)
})

// Check looks for what Step Functions could not have written in a history of executions that have ended: events that are missing, come twice or before those that
// they follow, states that are entered in one another, events in an order that no state has, anything after the end but a redrive.
func Check(events iter.Seq2[Event, error]) error {
	type line struct{ child, strand string }
	var wrong []error
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	ids, last, redriven := map[string]int64{}, map[string]EventType{}, map[string]bool{}
	strands, open := map[line]string{}, map[line]int{}
	for ev, err := range events {
		if err != nil {
			return err
		}
		switch ev.Type {
		case NoteItems, NoteRedrive, NoteUpdate, NoteAnswer: // not a strand's own
			continue
		}
		at := line{ev.Child, ev.Strand}
		strands[at] += string(ev.Type) + " "
		if ev.Note() {
			continue
		}
		if ids[ev.Child]++; ev.ID != ids[ev.Child] || ev.Previous >= ev.ID {
			add("execution %q: event %d ← %d comes as number %d", ev.Child, ev.ID, ev.Previous, ids[ev.Child])
		}
		before := last[ev.Child]
		if ended := before.terminal(); ended != (ev.Type == ExecutionRedriven) || before == ExecutionSucceeded {
			add("execution %q: event %d is %s, after %q", ev.Child, ev.ID, ev.Type, before)
		}
		last[ev.Child] = ev.Type
		redriven[ev.Child] = redriven[ev.Child] || ev.Type == ExecutionRedriven
		switch {
		case ev.Type.entered():
			open[at]++
		case ev.Type.exited():
			open[at]--
		}
		if n := open[at]; n != 0 && n != 1 {
			add("execution %q, strand %q: event %d, %s: %d states are entered", ev.Child, ev.Strand, ev.ID, ev.Type, n)
		}
	}
	for _, child := range slices.Sorted(maps.Keys(last)) {
		if !last[child].terminal() {
			add("execution %q ends with %s", child, last[child])
		}
	}
	for at, types := range strands {
		if !redriven[at.child] && !grammar().MatchString(types) {
			add("execution %q, strand %q: %s", at.child, at.strand, types)
		}
	}
	return errors.Join(wrong...)
}
