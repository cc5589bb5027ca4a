// Package totals is the job totals-columns: totals, as a fold over columns.
package totals

import (
	"embed"

	"hindcast/internal/job"
)

// Files are what the job is made of.
//
//go:embed job.yaml *.go
var Files embed.FS

// Job is listed in package jobs.
func Job() job.Job { return job.New(Files, job.Outputs{"totals-columns": Transform()}) }

// Payments are what is read of events.
type Payments struct {
	Account job.Text               `event:"account_id"`
	Type    job.Text               `event:"event_type"`
	Amount  job.Column[int64]      `event:"amount_cents"`
	Version job.Column[int64]      `event:"version"`
	At      job.Column[job.Micros] `event:"event_time"`
}

// Sign is what an amount counts for the account.
func Sign(kind string) int64 {
	switch kind {
	case "payment_captured":
		return 1
	case "payment_refunded":
		return -1
	default:
		return 0
	}
}

// Totals are accounts' hours.
type Totals struct {
	Account    job.Key      `row:"account_id"`
	Count      []int64      `row:"cnt"`
	Total      []int64      `row:"total"`
	MaxVersion []int64      `row:"max_version"`
	MinTime    []job.Micros `row:"min_time"`
	MaxTime    []job.Micros `row:"max_time"`
}

// Transform adds up the payments of an hour and account.
func Transform() job.Transform {
	return job.ColumnFold[Payments, Totals]{
		Apply: func(t *Totals, p *Payments, events []job.Event) {
			sign := job.Of(&p.Type, Sign)
			for _, e := range events {
				g, at := e.Group, p.At.At(e.Row)
				if t.Count[g] == 0 {
					t.MinTime[g], t.MaxTime[g] = at, at
				}
				t.MinTime[g], t.MaxTime[g] = min(t.MinTime[g], at), max(t.MaxTime[g], at)
				t.Count[g]++
				t.Total[g] += sign.At(e.Row) * p.Amount.At(e.Row)
				t.MaxVersion[g] = max(t.MaxVersion[g], p.Version.At(e.Row))
			}
		},
	}
}
