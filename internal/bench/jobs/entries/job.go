// Package entries is the job entries: every event with its signed amount, in the order of the log.
package entries

import (
	"embed"
	"time"

	"hindcast/internal/job"
)

//go:embed job.yaml *.go
var files embed.FS

// Job is listed in package jobs.
func Job() job.Job { return job.New(files, job.Outputs{"entries": Transform()}) }

// Event is all that is known of an event.
type Event struct {
	ID       string    `event:"event_id"`
	At       time.Time `event:"event_time"`
	Account  string    `event:"account_id"`
	Type     string    `event:"event_type"`
	Amount   int64     `event:"amount_cents"`
	Version  int64     `event:"version"`
	Currency string    `event:"currency"`
	Note     string    `event:"note"`
}

// Entry is an event with its signed amount.
type Entry struct {
	ID       string    `row:"event_id"`
	At       time.Time `row:"event_time"`
	Account  string    `row:"account_id"`
	Type     string    `row:"event_type"`
	Amount   int64     `row:"amount_cents"`
	Version  int64     `row:"version"`
	Currency string    `row:"currency"`
	Note     string    `row:"note"`
	Signed   int64     `row:"signed_cents"`
}

// Transform gives an entry for each event.
func Transform() job.Transform {
	return job.Map[Event, Entry]{
		Each: func(e *Event, emit func(Entry)) {
			n := Entry{
				ID: e.ID, At: e.At, Account: e.Account, Type: e.Type, Amount: e.Amount, Version: e.Version, Currency: e.Currency, Note: e.Note,
			}
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
