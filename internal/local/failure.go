package local

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hindcast/internal/asl"
	"hindcast/internal/asl/aslfile"
)

// failure tells why the run's last execution failed; it is empty where it did not, or has not ended.
func (w *Workspace) failure(run string) (string, error) {
	dir := w.historyDir(run)
	last, err := lastExecution(dir)
	if err != nil {
		return "", err
	}
	ended, err := lastEvent(dir, last)
	if err != nil || ended.Type == "" || ended.Type == asl.ExecutionSucceeded {
		return "", err
	}
	h := &aslfile.Histories{Dir: dir}
	name := asl.HistoryName{Execution: executionName(last)}
	cause := ""
	// A Map's own error says only that children failed: the first that did says why.
	if strings.HasPrefix(ended.Error, "States.") {
		if name.MapRun, err = lastMapRun(filepath.Join(dir, name.Execution)); err != nil {
			return "", err
		}
		if cause, err = firstCause(h.Read(name)); err != nil {
			return "", err
		}
	}
	if cause == "" {
		cause = readable(ended.Cause)
	}
	if cause == "" {
		cause = ended.Error
	}
	return cause, nil
}

// lastMapRun names the Map Run of an execution that began last; each has a folder, LABEL-EVENT.
func lastMapRun(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("list map runs: %w", err)
	}
	name, last := "", 0
	for _, e := range entries {
		_, id, _ := strings.Cut(e.Name(), "-")
		if n, err := strconv.Atoi(id); err == nil && e.IsDir() && n > last {
			name, last = e.Name(), n
		}
	}
	return name, nil
}

// firstCause is why the first child failed that did, since the last redrive. Those after it may only have been abandoned.
func firstCause(events iter.Seq2[asl.Event, error]) (cause string, err error) {
	for ev, err := range events {
		if err != nil {
			return "", fmt.Errorf("read history: %w", err)
		}
		switch {
		case ev.Type == asl.NoteRedrive:
			cause = ""
		case cause == "" && ev.Child != "" && (ev.Type == asl.ExecutionFailed || ev.Type == asl.ExecutionTimedOut):
			cause = cmp.Or(readable(ev.Cause), ev.Error)
		}
	}
	return cause, nil
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
