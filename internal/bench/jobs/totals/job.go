// Package totals is the job totals: what each account was charged, by the hour.
package totals

import (
	"embed"
	"time"

	"hindcast/internal/job"
)

// Files are what the job is made of.
//
//go:embed job.yaml *.go
var Files embed.FS

// Job is listed in package jobs.
func Job() job.Job { return job.New(Files, job.Outputs{"totals": Transform()}) }

// Payment is what is read of an event.
type Payment struct {
	Account string    `event:"account_id"`
	Type    string    `event:"event_type"`
	Amount  int64     `event:"amount_cents"`
	Version int64     `event:"version"`
	At      time.Time `event:"event_time"`
}

// Charged is the amount as it counts for the account.
func (p *Payment) Charged() int64 {
	switch p.Type {
	case "payment_captured":
		return p.Amount
	case "payment_refunded":
		return -p.Amount
	default:
		return 0
	}
}

// Total is an account's hour.
type Total struct {
	Account    string    `row:"account_id,key"`
	Count      int64     `row:"cnt"`
	Total      int64     `row:"total"`
	MaxVersion int64     `row:"max_version"`
	MinTime    time.Time `row:"min_time"`
	MaxTime    time.Time `row:"max_time"`
}

// Transform adds up the payments of an hour and account.
func Transform() job.Transform {
	return job.Fold[Payment, Total]{
		Key: func(p *Payment) Total { return Total{Account: p.Account} },
		Apply: func(t *Total, p *Payment) {
			if t.Count == 0 || p.At.Before(t.MinTime) {
				t.MinTime = p.At
			}
			if t.Count == 0 || p.At.After(t.MaxTime) {
				t.MaxTime = p.At
			}
			t.Count++
			t.Total += p.Charged()
			t.MaxVersion = max(t.MaxVersion, p.Version)
		},
	}
}
