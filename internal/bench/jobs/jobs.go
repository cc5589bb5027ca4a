// Package jobs lists the jobs that are measured.
package jobs

import (
	"hindcast/internal/bench/jobs/balances"
	"hindcast/internal/bench/jobs/entries"
	"hindcast/internal/bench/jobs/totals"
	"hindcast/internal/job"
)

// All returns the jobs.
func All() []job.Job { return []job.Job{totals.Job(), balances.Job(), entries.Job()} }
