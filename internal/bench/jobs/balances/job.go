// Package balances is the job balances: what each account was charged in all.
package balances

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
	return job.New(files, job.Outputs{"balances": Transform()}).With(totals.Files)
}

// Balance is the state of an account.
type Balance struct {
	Account string    `row:"account_id,key"`
	Count   int64     `row:"cnt"`
	Balance int64     `row:"balance"`
	Version int64     `row:"version"`
	Last    time.Time `row:"last_time"`
}

// Transform keeps one state per account. An event at or below the account's version was applied before, and is skipped.
func Transform() job.Transform {
	return job.Fold[totals.Payment, Balance]{
		Key:     func(p *totals.Payment) Balance { return Balance{Account: p.Account} },
		Version: func(p *totals.Payment) int64 { return p.Version },
		Apply: func(b *Balance, p *totals.Payment) {
			if b.Count == 0 || p.At.After(b.Last) {
				b.Last = p.At
			}
			b.Count++
			b.Balance += p.Charged()
			b.Version = p.Version
		},
	}
}
