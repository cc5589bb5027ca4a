package check

import (
	"context"
	"fmt"

	"hindcast/internal/spec"
)

// lateness warns of events whose times are farther from their record times than the job declares: where they are read they are
// counted right, but they show that others of the window may lie where the run did not read, or that their times are wrong.
func lateness(_ context.Context, e *evidence) (Result, error) {
	r := Result{Status: OK, Total: e.Strays, Figures: map[string]int64{"strays": e.Strays}}
	declared := fmt.Sprintf("up to %s late or %s ahead", e.Event.Lateness, e.Event.Ahead)
	switch {
	case e.WholeLog && e.Event.Lateness == 0:
		return Result{Status: NotApplicable, Summary: "The job declares no lateness, and a run over the whole log needs none."}, nil
	case e.Strays == 0:
		r.Summary = fmt.Sprintf("Every event that was read is %s of its record time, as declared.", declared)
		return r, nil
	}
	for _, s := range e.FirstStrays[:min(len(e.FirstStrays), MaxFindings)] {
		r.Findings = append(r.Findings, fmt.Sprintf("%s: event time %s, record time %s", s.Position, spec.FormatInstant(s.Event), spec.FormatInstant(s.Record)))
	}
	r.Status = Warn
	r.Summary = fmt.Sprintf("%s events that were read are not %s of their record times, as the job declares.", count(e.Strays), declared)
	r.Do = "If their times are right, declare source.event.lateness and ahead so, and start a new run; else find who wrote them: they are in partitions of stray dates."
	return r, nil
}
