package check

import (
	"context"
	"fmt"
	"strings"
)

// input asks that every offset of the read range was accounted for, once, for every table.
func input(_ context.Context, e *evidence) (Result, error) {
	r := Result{Status: OK, Figures: map[string]int64{}}
	if e.Partial {
		r.Status, r.Summary = NotApplicable, "Whether every offset is accounted for shows when all shards are done."
		return r, nil
	}
	if len(e.Accounts) == 0 {
		r.Status, r.Summary = Fail, "There is no account of the input."
		r.Do = "Start a new run; if it happens again, it is a defect of Hindcast to be reported."
		return r, nil
	}
	sums := map[string]*Account{}
	var order []string
	for _, a := range e.Accounts {
		if got := a.Total() + a.Skipped; got != a.Offsets {
			r.Status = Fail
			r.find("table %s, partition %d, %s: the read range has %s offsets, %s were accounted for", a.Table, a.Partition, a.Origin, count(a.Offsets), count(got))
		}
		s := sums[a.Table]
		if s == nil {
			s = &Account{}
			sums[a.Table] = s
			order = append(order, a.Table)
		}
		s.Offsets += a.Offsets
		s.Skipped += a.Skipped
		s.Applied += a.Applied
		s.Filtered += a.Filtered
		s.Duplicate += a.Duplicate
		s.Conflict += a.Conflict
		s.Stale += a.Stale
		s.Outside += a.Outside
		s.Dead += a.Dead
	}
	var sentences []string
	for _, name := range order {
		s := sums[name]
		r.Figures[name+".offsets"] = s.Offsets
		var parts []string
		for _, c := range []struct {
			what string
			n    int64
		}{
			{"applied", s.Applied},
			{"filtered", s.Filtered},
			{"duplicate", s.Duplicate},
			{"stale", s.Stale},
			{"outside", s.Outside},
			{"skipped", s.Skipped},
			{"dead", s.Dead},
			{"conflict", s.Conflict},
		} {
			if c.n != 0 {
				r.Figures[name+"."+c.what] = c.n
				parts = append(parts, count(c.n)+" "+c.what)
			}
		}
		sentences = append(sentences, fmt.Sprintf("%s: %s offsets: %s", name, count(s.Offsets), strings.Join(parts, ", ")))
	}
	r.Summary = strings.Join(sentences, "; ") + "."
	if r.Status == Fail {
		r.Summary = "Not every offset was accounted for once. " + r.Summary
		r.Do = "Do not promote this. Start a new run; if it happens again, it is a defect of Hindcast to be reported."
	}
	return r, nil
}
