// Package jobs lists the jobs that are measured.
package jobs

import (
	"hindcast/internal/bench/jobs/balances"
	balancescolumns "hindcast/internal/bench/jobs/balances-columns"
	"hindcast/internal/bench/jobs/entries"
	untouched "hindcast/internal/bench/jobs/entries-untouched"
	"hindcast/internal/bench/jobs/ids"
	"hindcast/internal/bench/jobs/totals"
	totalscolumns "hindcast/internal/bench/jobs/totals-columns"
	"hindcast/internal/job"
)

// All returns the jobs.
func All() []job.Job {
	return []job.Job{totals.Job(), totalscolumns.Job(), balances.Job(), balancescolumns.Job(), entries.Job(), untouched.Job(), ids.Job()}
}
