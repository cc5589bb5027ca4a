// Package auckland is the job daily-country-revenue-auckland: the transform of daily-country-revenue, by days of another zone.
package auckland

import (
	"embed"

	revenue "hindcast/jobs/daily-country-revenue"

	"hindcast/internal/job"
)

//go:embed job.yaml canaries.csv *.go
var files embed.FS

// Job is listed in package jobs.
func Job() job.Job {
	return job.New(files, job.Outputs{"daily-country-revenue-auckland": revenue.Transform()}).With(revenue.Files)
}
