package check

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"hindcast/internal/spec"
)

// emptied asks that no partition that had rows has none.
func emptied(_ context.Context, e *evidence) (Result, error) {
	if e.Base == nil {
		return Result{Status: NotApplicable, Summary: "There is no version yet whose partitions could be emptied."}, nil
	}
	r := Result{Status: OK}
	for _, name := range slices.Sorted(maps.Keys(e.Candidate.Tables)) {
		change := e.Candidate.Tables[name]
		for _, label := range slices.SortedFunc(maps.Keys(change.Partitions), change.Schema.Compare) {
			if was := e.Base.Manifest.Tables[name].Partitions[label].Rows(); was > 0 && len(change.Partitions[label].Files) == 0 {
				r.find("%s %s has %s rows in the base, and none in the candidate", name, label, count(was))
			}
		}
	}
	r.Figures = map[string]int64{"emptied": r.Total}
	switch {
	case r.Total == 0:
		r.Summary = "No partition that had rows is empty now."
	case e.Checks.Emptied == spec.AllowEmptied:
		r.Status = Warn
		r.Summary = fmt.Sprintf("%s partitions that had rows are empty now, which the job allows.", count(r.Total))
	default:
		r.Status = Fail
		r.Summary = fmt.Sprintf("%s partitions that had rows are empty now.", count(r.Total))
		r.Do = "Look for missing input. If they must be empty, say checks.emptied: allow and start a new run."
	}
	return r, nil
}
