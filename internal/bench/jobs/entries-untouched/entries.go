// Package untouched is the job entries-untouched: what entries computes, with the columns declared that pass through.
package untouched

import (
	"embed"

	"hindcast/internal/job"
)

//go:embed job.yaml *.go
var files embed.FS

// Job is listed in package jobs.
func Job() job.Job { return job.New(files, job.Outputs{"entries-untouched": Transform()}) }

// Event is what decides the sign.
type Event struct {
	Type   string `event:"event_type"`
	Amount int64  `event:"amount_cents"`
}

// Entry is an event with its signed amount.
type Entry struct {
	ID       job.Same[string]     `row:"event_id"`
	At       job.Same[job.Micros] `row:"event_time"`
	Account  job.Same[string]     `row:"account_id"`
	Type     job.Same[string]     `row:"event_type"`
	Amount   job.Same[int64]      `row:"amount_cents"`
	Version  job.Same[int64]      `row:"version"`
	Currency job.Same[string]     `row:"currency"`
	Note     job.Same[string]     `row:"note"`
	Signed   int64                `row:"signed_cents"`
}

// Transform gives an entry for each event.
func Transform() job.Transform {
	return job.Map[Event, Entry]{
		Each: func(e *Event, emit func(Entry)) {
			var n Entry
			switch e.Type {
			case "payment_captured":
				n.Signed = e.Amount
			case "payment_refunded":
				n.Signed = -e.Amount
			}
			emit(n)
		},
	}
}
