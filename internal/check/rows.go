package check

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hindcast/internal/table"
)

// rows compares how many rows each table has in the replaced partitions with what the base has there. Only
// partitions that the base lists are compared, empty ones as well; a run that extends the table adds others, which are said and not judged.
//
// A table fails if the differences of its partitions, added up without their signs, are more than checks.rows.within of what the base has
// in them: so a day that lost rows is not hidden by another that gained as many. A single partition beyond the threshold makes a warning
// only, since small ones vary by themselves. Of a base without rows no share can be taken: rows there are a warning, too.
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
	beyond := func(differs, was int64) bool { return float64(differs)*10_000 > float64(within)*float64(was) }
	var sentences, fails []string
	warn := false
	for _, name := range slices.Sorted(maps.Keys(e.Candidate.Tables)) {
		change := e.Candidate.Tables[name]
		if e.Partial && len(change.Partitions) == 0 {
			continue // it is cut by key
		}
		var now, was, differs, added, addedRows, compared int64
		var single []string // partitions beyond the threshold
		for _, label := range slices.SortedFunc(maps.Keys(change.Partitions), change.Schema.Compare) {
			n := table.Partition{Files: change.Partitions[label].Files}.Rows()
			base, ok := e.Base.Manifest.Tables[name].Partitions[label]
			if !ok {
				added, addedRows = added+1, addedRows+n
				continue
			}
			compared++
			d := max(n-base.Rows(), base.Rows()-n)
			now, was, differs = now+n, was+base.Rows(), differs+d
			if beyond(d, base.Rows()) {
				single = append(single, fmt.Sprintf("%s %s: %s rows, %s in the base", name, label, count(n), count(base.Rows())))
			}
		}
		r.Figures[name+".rows"], r.Figures[name+".base"], r.Figures[name+".differ"] = now, was, differs
		var parts []string
		if compared > 0 {
			if r.Status == NotApplicable {
				r.Status = OK
			}
			parts = append(parts, fmt.Sprintf("%s rows, %s in the base", count(now), count(was)))
		}
		if added > 0 {
			r.Figures[name+".new_partitions"], r.Figures[name+".new_rows"] = added, addedRows
			parts = append(parts, fmt.Sprintf("%s rows in %s partitions that are not in the base yet", count(addedRows), count(added)))
		}
		sentence := name + ": " + strings.Join(parts, ", and ")
		sentences = append(sentences, sentence)
		if was > 0 && beyond(differs, was) {
			fails = append(fails, fmt.Sprintf("%s: %s rows, %s in the base: partition by partition they differ by %s, which is more than %s off",
				name, count(now), count(was), count(differs), within))
		}
		warn = warn || len(single) > 0
		for _, s := range single {
			r.find("%s", s)
		}
	}
	r.Summary = strings.Join(sentences, "; ") + "."
	if len(sentences) == 0 {
		r.Summary = "Tables cut by key have no whole partition before all shards are done."
	}
	switch {
	case len(fails) > 0:
		r.Status = Fail
		r.Summary = strings.Join(fails, "; ") + "."
		r.Do = "Look at the partitions that differ. If the new counts are right, widen checks.rows.within and start a new run."
	case warn:
		r.Status = Warn
		r.Do = fmt.Sprintf("These partitions are more than %s off, though the table is not: look at whether they should be.", within)
	}
	return r, nil
}
