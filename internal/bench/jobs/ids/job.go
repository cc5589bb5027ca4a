// Package ids is the job ids: a row for each event id, and so nearly as many keys as events. It is what a worker's memory is measured with.
package ids

import (
	"embed"
	"time"

	"hindcast/internal/bench/jobs/totals"
	"hindcast/internal/job"
)

//go:embed job.yaml *.go
var files embed.FS

// Job is listed in package jobs.
func Job() job.Job {
	return job.New(files, job.Outputs{"ids": Transform()}).With(totals.Files)
}

// Payment is what is read of an event.
type Payment struct {
	ID     string    `event:"event_id"`
	Type   string    `event:"event_type"`
	Amount int64     `event:"amount_cents"`
	At     time.Time `event:"event_time"`
}

// Seen is the state of an id: how often it came, and what was charged by all of that.
type Seen struct {
	ID    string    `row:"event_id,key"`
	Count int64     `row:"cnt"`
	Total int64     `row:"total"`
	Last  time.Time `row:"last_time"`
}

// Transform keeps one state per id.
func Transform() job.Transform {
	return job.Fold[Payment, Seen]{
		Key: func(p *Payment) Seen { return Seen{ID: p.ID} },
		Apply: func(s *Seen, p *Payment) {
			if s.Count == 0 || p.At.After(s.Last) {
				s.Last = p.At
			}
			s.Count++
			s.Total += (&totals.Payment{Type: p.Type, Amount: p.Amount}).Charged()
		},
	}
}
