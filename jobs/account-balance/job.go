// Package accounts is the job account-balance: what each account has spent, and the ledger that it is the sum of.
package accounts

import (
	"embed"
	"time"

	"hindcast/internal/job"
)

//go:embed job.yaml canaries.csv *.go
var files embed.FS

// Job is listed in package jobs.
func Job() job.Job {
	return job.New(files, job.Outputs{"account-balance": Balances(), "ledger-entry": Ledger()})
}

// Line is what is read of an invoice line.
type Line struct {
	Account  *string   `event:"account_id"` // null where a customer has none
	At       time.Time `event:"occurred_at"`
	Version  int64     `event:"version"` // 1, 2, 3 … of the account
	Quantity int64     `event:"quantity"`
	Price    int64     `event:"unit_price_mills"`
}

func (l *Line) hasAccount() bool { return l.Account != nil }
func (l *Line) amount() int64    { return l.Quantity * l.Price }

// Account is the state of one account.
type Account struct {
	ID          string    `row:"account_id,key"`
	Lines       int64     `row:"lines"`
	Balance     int64     `row:"balance_mills"`
	LastVersion int64     `row:"last_version"`
	LastAt      time.Time `row:"last_occurred_at"`
}

// Balances keeps one state per account. An event at or below the account's version was applied before, and is skipped.
func Balances() job.Transform {
	return job.Fold[Line, Account]{
		Where:   (*Line).hasAccount,
		Key:     func(l *Line) Account { return Account{ID: *l.Account} },
		Version: func(l *Line) int64 { return l.Version },
		Apply: func(a *Account, l *Line) {
			a.Lines++
			a.Balance += l.amount()
			a.LastVersion, a.LastAt = l.Version, l.At
		},
	}
}

// Entry is a line of an account's ledger. All but the amount passes through from the event.
type Entry struct {
	ID      job.Same[string]     `row:"event_id,key"`
	Account job.Same[string]     `row:"account_id"`
	At      job.Same[job.Micros] `row:"occurred_at"`
	Kind    job.Same[string]     `row:"kind"`
	Invoice job.Same[string]     `row:"invoice_no"`
	Amount  int64                `row:"amount_mills"`
}

// Ledger gives an entry for each event that has an account.
func Ledger() job.Transform {
	return job.Map[Line, Entry]{
		Where: (*Line).hasAccount,
		Each:  func(l *Line, emit func(Entry)) { emit(Entry{Amount: l.amount()}) },
	}
}
