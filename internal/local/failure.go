package local

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hindcast/internal/asl"
	"hindcast/internal/asl/aslfile"
	"hindcast/internal/step"
)

// failure tells why the run's last execution failed; it is empty where it did not, or has not ended.
func (w *Workspace) failure(run string) (string, error) {
	failed, err := w.Failure(run)
	if err != nil || failed == nil {
		return "", err
	}
	return failed.Error(), nil
}

// Failure is the error that the run's last execution failed with; nil where it did not, or has not ended.
func (w *Workspace) Failure(run string) (*step.Error, error) {
	dir := w.historyDir(run)
	last, err := lastExecution(dir)
	if err != nil {
		return nil, err
	}
	ended, _, err := lastEvent(dir, last)
	if err != nil || ended.Type == "" || ended.Type == asl.ExecutionSucceeded {
		return nil, err
	}
	h := &aslfile.Histories{Dir: dir}
	name := asl.HistoryName{Execution: executionName(last)}
	failed := &step.Error{Name: ended.Error, Err: errors.New(cmp.Or(readable(ended.Cause), ended.Error))}
	// A Map's own error says only that children failed: the first that did says why.
	if strings.HasPrefix(ended.Error, "States.") {
		if name.MapRun, err = lastMapRun(filepath.Join(dir, name.Execution)); err != nil {
			return nil, err
		}
		first, err := firstFailure(h.Read(name))
		if err != nil {
			return nil, err
		}
		if first != nil {
			failed = first
		}
	}
	return failed, nil
}

// lastMapRun names the Map Run of an execution that began last, if one has.
func lastMapRun(dir string) (string, error) {
	names, err := mapRuns(dir)
	if err != nil || len(names) == 0 {
		return "", err
	}
	return names[len(names)-1], nil
}

// mapRuns names the Map Runs of an execution, in the order in which they began; each has a folder, LABEL-EVENT.
func mapRuns(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list map runs: %w", err)
	}
	var names []string
	began := map[string]int{}
	for _, e := range entries {
		_, id, _ := strings.Cut(e.Name(), "-")
		if n, err := strconv.Atoi(id); err == nil && e.IsDir() {
			names, began[e.Name()] = append(names, e.Name()), n
		}
	}
	slices.SortFunc(names, func(a, b string) int { return began[a] - began[b] })
	return names, nil
}

// firstFailure is why the first child failed that did, since the last redrive; nil if none did. Those after it may only have been abandoned.
func firstFailure(events iter.Seq2[asl.Event, error]) (first *step.Error, err error) {
	for ev, err := range events {
		if err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		switch {
		case ev.Type == asl.NoteRedrive:
			first = nil
		case first == nil && ev.Child != "" && (ev.Type == asl.ExecutionFailed || ev.Type == asl.ExecutionTimedOut):
			first = &step.Error{Name: ev.Error, Err: errors.New(cmp.Or(readable(ev.Cause), ev.Error))}
		}
	}
	return first, nil
}

// readable gives the message of what [asl.FunctionError] makes of an error.
func readable(cause string) string {
	var of struct {
		Message string `json:"errorMessage"`
	}
	if err := json.Unmarshal([]byte(cause), &of); err == nil && of.Message != "" {
		return of.Message
	}
	return cause
}
