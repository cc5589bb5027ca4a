package check

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hindcast/internal/table"
)

// rows compares how many rows each table has in the replaced partitions with what the base has there.
func rows(_ context.Context, e *evidence) (Result, error) {
	r := Result{Status: NotApplicable, Figures: map[string]int64{}}
	switch {
	case e.Checks.Rows == nil:
		r.Summary = "The job does not ask to compare row counts."
		return r, nil
	case e.Base == nil:
		r.Summary = "There is no version yet to compare row counts with."
		return r, nil
	}
	within := e.Checks.Rows.Within
	var sentences []string
	for _, name := range slices.Sorted(maps.Keys(e.Candidate.Tables)) {
		var now, was int64
		for label, p := range e.Candidate.Tables[name].Partitions {
			now += table.Partition{Files: p.Files}.Rows()
			was += e.Base.Manifest.Tables[name].Partitions[label].Rows()
		}
		r.Figures[name+".rows"], r.Figures[name+".base"] = now, was
		if was == 0 {
			sentences = append(sentences, fmt.Sprintf("%s: %s rows, where the base has none", name, count(now)))
			continue
		}
		if r.Status == NotApplicable {
			r.Status = OK
		}
		sentence := fmt.Sprintf("%s: %s rows, %s in the base", name, count(now), count(was))
		if differs := max(now-was, was-now); float64(differs)*10_000 > float64(within)*float64(was) {
			r.Status = Fail
			r.find("%s, which is more than %s off", sentence, within)
		}
		sentences = append(sentences, sentence)
	}
	r.Summary = strings.Join(sentences, "; ") + "."
	if r.Status == Fail {
		r.Do = "Look at which partitions differ. If the new count is right, widen checks.rows.within and start a new run."
	}
	return r, nil
}
