// Package buggy is the job daily-country-revenue-buggy: what production ran from 2011-11-01 to 2011-11-21. It writes the table of
// daily-country-revenue, and counts cancellations as sales. It is kept to show what a correction corrects.
package buggy

import (
	"embed"

	revenue "hindcast/jobs/daily-country-revenue"

	"hindcast/internal/job"
)

//go:embed job.yaml *.go
var files embed.FS

// Job is listed in package jobs.
func Job() job.Job {
	return job.New(files, job.Outputs{"daily-country-revenue": Transform()}).With(revenue.Files)
}

// Transform adds up the lines of a day and country, wrongly.
func Transform() job.Transform {
	return job.Fold[revenue.Line, revenue.Day]{
		Key: func(l *revenue.Line) revenue.Day { return revenue.Day{Country: l.Country} },
		Apply: func(d *revenue.Day, l *revenue.Line) {
			d.Add(l)
			if l.Kind == revenue.Cancellation {
				// The bug: the net had the absolute quantity of a cancellation.
				d.Net += (abs(l.Quantity) - l.Quantity) * l.Price
			}
		},
		Finish: func(d *revenue.Day) { d.Invoices = d.Seen.Len() },
	}
}

func abs(n int64) int64 { return max(n, -n) }
