package check

import (
	"context"
	"fmt"
)

// deadLetters asks that no more events were unreadable than the job accepts.
func deadLetters(_ context.Context, e *evidence) (Result, error) {
	r := Result{Status: OK, Total: e.DeadLetters, Figures: map[string]int64{"dead_letters": e.DeadLetters, "accepted": e.Checks.DeadLetters}}
	for _, d := range e.FirstDeadLetters[:min(len(e.FirstDeadLetters), MaxFindings)] {
		where := ""
		if d.Table != "" {
			where = ", for table " + d.Table
		}
		r.Findings = append(r.Findings, fmt.Sprintf("%s%s: %s", d.Position, where, d.Reason))
	}
	switch {
	case e.DeadLetters == 0:
		r.Summary = "Every event was readable."
	case e.DeadLetters <= e.Checks.DeadLetters:
		r.Status = Warn
		r.Summary = fmt.Sprintf("%s events were unreadable; the job accepts %s.", count(e.DeadLetters), count(e.Checks.DeadLetters))
		r.Do = "Their figures are missing from the result: look at the findings."
	default:
		r.Status = Fail
		r.Summary = fmt.Sprintf("%s events were unreadable; the job accepts %s.", count(e.DeadLetters), count(e.Checks.DeadLetters))
		r.Do = "Make the job read them (a pointer for a column that may be null, a wider type), or accept that many in checks.dead-letters."
	}
	return r, nil
}
