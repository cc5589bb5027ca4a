// Package balances is the job balances-columns: balances, as a fold over columns.
package balances

import (
	"embed"

	totals "hindcast/internal/bench/jobs/totals-columns"
	"hindcast/internal/job"
)

//go:embed job.yaml *.go
var files embed.FS

// Job is listed in package jobs.
func Job() job.Job {
	return job.New(files, job.Outputs{"balances-columns": Transform()}).With(totals.Files)
}

// Balances are the states of accounts.
type Balances struct {
	Account job.Key      `row:"account_id"`
	Count   []int64      `row:"cnt"`
	Balance []int64      `row:"balance"`
	Version []int64      `row:"version"`
	Last    []job.Micros `row:"last_time"`
}

// Transform keeps one state per account. An event at or below the account's version was applied before, and is skipped.
func Transform() job.Transform {
	return job.ColumnFold[totals.Payments, Balances]{
		Version: "version",
		Apply: func(b *Balances, p *totals.Payments, events []job.Event) {
			sign := job.Of(&p.Type, totals.Sign)
			for _, e := range events {
				g, at := e.Group, p.At.At(e.Row)
				if b.Count[g] == 0 {
					b.Last[g] = at
				}
				b.Last[g] = max(b.Last[g], at)
				b.Count[g]++
				b.Balance[g] += sign.At(e.Row) * p.Amount.At(e.Row)
				b.Version[g] = p.Version.At(e.Row)
			}
		},
	}
}
