// Package jobs lists the jobs. A job is a folder here: copy one, and add it to the list.
package jobs

import (
	accounts "hindcast/jobs/account-balance"
	revenue "hindcast/jobs/daily-country-revenue"
	auckland "hindcast/jobs/daily-country-revenue-auckland"
	buggy "hindcast/jobs/daily-country-revenue-buggy"

	"hindcast/internal/job"
)

// All returns every job.
func All() []job.Job {
	return []job.Job{
		revenue.Job(),
		auckland.Job(),
		buggy.Job(),
		accounts.Job(),
	}
}
