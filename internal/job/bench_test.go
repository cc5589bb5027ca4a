//go:build full && unix

package job

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"hindcast/internal/record"
)

// payment is an event of a log as an exporter writes it, accounts and kinds by dictionary.
type payment struct {
	At      time.Time `event:"event_time"`
	Account string    `event:"account_id"`
	Kind    string    `event:"event_type"`
	Amount  int64     `event:"amount_cents"`
	Version int64     `event:"version"`
}

func signed(kind string, amount int64) int64 {
	switch kind {
	case "payment_captured":
		return amount
	case "payment_refunded":
		return -amount
	}
	return 0
}

type hourTotal struct {
	Account    string    `row:"account_id,key"`
	Count      int64     `row:"cnt"`
	Total      int64     `row:"total"`
	MaxVersion int64     `row:"max_version"`
	First      time.Time `row:"min_time"`
	Last       time.Time `row:"max_time"`
}

func hourTotals() Fold[payment, hourTotal] {
	return Fold[payment, hourTotal]{
		Key: func(p *payment) hourTotal { return hourTotal{Account: p.Account, First: p.At, Last: p.At} },
		Apply: func(t *hourTotal, p *payment) {
			t.Count++
			t.Total += signed(p.Kind, p.Amount)
			t.MaxVersion = max(t.MaxVersion, p.Version)
			if p.At.Before(t.First) {
				t.First = p.At
			}
			if p.At.After(t.Last) {
				t.Last = p.At
			}
		},
	}
}

type accountBalance struct {
	Account string    `row:"account_id,key"`
	Count   int64     `row:"cnt"`
	Balance int64     `row:"balance"`
	Version int64     `row:"version"`
	Last    time.Time `row:"last_time"`
}

func accountBalances() Fold[payment, accountBalance] {
	return Fold[payment, accountBalance]{
		Key:     func(p *payment) accountBalance { return accountBalance{Account: p.Account} },
		Version: func(p *payment) int64 { return p.Version },
		Apply: func(b *accountBalance, p *payment) {
			b.Count++
			b.Balance += signed(p.Kind, p.Amount)
			b.Version, b.Last = p.Version, p.At
		},
	}
}

// payments are the same by column.
type payments struct {
	At      Column[Micros] `event:"event_time"`
	Account Text           `event:"account_id"`
	Kind    Text           `event:"event_type"`
	Amount  Column[int64]  `event:"amount_cents"`
	Version Column[int64]  `event:"version"`
}

type hourTotalColumns struct {
	Account    Key      `row:"account_id"`
	Count      []int64  `row:"cnt"`
	Total      []int64  `row:"total"`
	MaxVersion []int64  `row:"max_version"`
	First      []Micros `row:"min_time"`
	Last       []Micros `row:"max_time"`
}

func sign(kind string) int64 { return signed(kind, 1) }

func hourTotalsByColumn() ColumnFold[payments, hourTotalColumns] {
	return ColumnFold[payments, hourTotalColumns]{
		Apply: func(s *hourTotalColumns, p *payments, events []Event) {
			sign := Of(&p.Kind, sign)
			for _, e := range events {
				at := p.At.At(e.Row)
				if s.Count[e.Group] == 0 {
					s.First[e.Group], s.Last[e.Group] = at, at
				}
				s.Count[e.Group]++
				s.Total[e.Group] += sign.At(e.Row) * p.Amount.At(e.Row)
				s.MaxVersion[e.Group] = max(s.MaxVersion[e.Group], p.Version.At(e.Row))
				s.First[e.Group] = min(s.First[e.Group], at)
				s.Last[e.Group] = max(s.Last[e.Group], at)
			}
		},
	}
}

type balanceColumns struct {
	Account Key      `row:"account_id"`
	Count   []int64  `row:"cnt"`
	Balance []int64  `row:"balance"`
	Version []int64  `row:"version"`
	Last    []Micros `row:"last_time"`
}

func balancesByColumn() ColumnFold[payments, balanceColumns] {
	return ColumnFold[payments, balanceColumns]{
		Version: "version",
		Apply: func(s *balanceColumns, p *payments, events []Event) {
			sign := Of(&p.Kind, sign)
			for _, e := range events {
				s.Count[e.Group]++
				s.Balance[e.Group] += sign.At(e.Row) * p.Amount.At(e.Row)
				s.Version[e.Group], s.Last[e.Group] = p.Version.At(e.Row), p.At.At(e.Row)
			}
		},
	}
}

// identified is the same with its id, plain text.
type identified struct {
	At      time.Time `event:"event_time"`
	Account string    `event:"account_id"`
	Kind    string    `event:"event_type"`
	Amount  int64     `event:"amount_cents"`
	Version int64     `event:"version"`
	ID      string    `event:"event_id"`
}

type signedPayment struct {
	ID      string    `row:"event_id,key"`
	At      time.Time `row:"event_time"`
	Account string    `row:"account_id"`
	Kind    string    `row:"event_type"`
	Amount  int64     `row:"amount_cents"`
	Version int64     `row:"version"`
	Signed  int64     `row:"signed_cents"`
}

func signedPayments() Map[identified, signedPayment] {
	return Map[identified, signedPayment]{
		Each: func(p *identified, emit func(signedPayment)) {
			emit(signedPayment{ID: p.ID, At: p.At, Account: p.Account, Kind: p.Kind, Amount: p.Amount, Version: p.Version, Signed: signed(p.Kind, p.Amount)})
		},
	}
}

// passedPayment is the same of which what it can passes through.
type passedPayment struct {
	ID      Same[string] `row:"event_id,key"`
	At      Same[Micros] `row:"event_time"`
	Account Same[string] `row:"account_id"`
	Kind    Same[string] `row:"event_type"`
	Amount  Same[int64]  `row:"amount_cents"`
	Version Same[int64]  `row:"version"`
	Signed  int64        `row:"signed_cents"`
}

type amount struct {
	Kind   string `event:"event_type"`
	Amount int64  `event:"amount_cents"`
}

func passedPayments() Map[amount, passedPayment] {
	return Map[amount, passedPayment]{Each: func(p *amount, emit func(passedPayment)) { emit(passedPayment{Signed: signed(p.Kind, p.Amount)}) }}
}

const (
	benchBatch    = 4096
	benchBatches  = 128 // a row group
	benchAccounts = 50_000
	benchSlots    = 3
)

// benchLog is one row group of payments.
func benchLog() []*record.Batch {
	rng := rand.New(rand.NewPCG(1, 1))
	zipf := rand.NewZipf(rng, 1.1, 20, benchAccounts-1)
	perm := rng.Perm(benchAccounts)
	versions := make([]int64, benchAccounts)
	var accounts, kinds record.Strings
	for i := range benchAccounts {
		accounts.Append(fmt.Appendf(nil, "acct-%08d", i))
	}
	for _, k := range []string{"order_placed", "payment_captured", "payment_refunded", "payment_failed"} {
		kinds.Append([]byte(k))
	}
	accounts.Dictionary, kinds.Dictionary = record.NewDictionary(), record.NewDictionary()
	var out []*record.Batch
	for n := range benchBatches {
		b := &record.Batch{Len: benchBatch, Columns: []record.Column{
			{Kind: record.Timestamp}, {Kind: record.String}, {Kind: record.String}, {Kind: record.Int64}, {Kind: record.Int64}, {Kind: record.String},
		}}
		c := b.Columns
		c[1].Strings, c[2].Strings = accounts, kinds
		for i := range benchBatch {
			a := perm[zipf.Uint64()]
			versions[a]++
			c[0].Int64s = append(c[0].Int64s, 1_767_225_600_000_000+int64(n*benchBatch+i)*17_000-rng.Int64N(3_000_000))
			c[1].Strings.Codes = append(c[1].Strings.Codes, uint32(a))
			c[2].Strings.Codes = append(c[2].Strings.Codes, uint32(rng.IntN(4)))
			c[3].Int64s = append(c[3].Int64s, rng.Int64N(10_000))
			c[4].Int64s = append(c[4].Int64s, versions[a])
			c[5].Strings.Append(fmt.Appendf(nil, "%016x", rng.Uint64()))
		}
		out = append(out, b)
	}
	return out
}

var benchColumns = []string{"event_time", "account_id", "event_type", "amount_cents", "version", "event_id"}

// of returns the columns of a schema.
func of(b *record.Batch, schema record.Schema) (out []record.Column) {
	for _, f := range schema {
		out = append(out, b.Columns[slices.Index(benchColumns, f.Name)])
	}
	return out
}

// cpuTime is what the process has used: more steady than the clock where a machine is shared.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAdd is what a row costs between the reader and the state.
func BenchmarkAdd(b *testing.B) {
	log := benchLog()
	rows := allRows(benchBatch)
	for _, c := range []struct {
		name  string
		t     Transform
		slots int
	}{
		{"totals", hourTotals(), benchSlots},
		{"totals-by-column", hourTotalsByColumn(), benchSlots},
		{"balances", accountBalances(), 1},
		{"balances-by-column", balancesByColumn(), 1},
		{"map", signedPayments(), benchSlots},
		{"map-passing-columns", passedPayments(), benchSlots},
	} {
		shape, err := c.t.Shape()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			began := cpuTime(b)
			for b.Loop() {
				r, err := c.t.Open(Options{Slots: c.slots})
				if err != nil {
					b.Fatal(err)
				}
				var out Outcome
				slots := make([]int32, benchBatch)
				for n, batch := range log {
					batch := &record.Batch{Len: batch.Len, Columns: of(batch, shape.Events)}
					for i := range slots {
						slots[i] = int32(n * c.slots / len(log))
					}
					if err := r.Add(batch, rows, slots, &out); err != nil {
						b.Fatal(err)
					}
				}
				if out.Applied != benchBatch*benchBatches {
					b.Fatalf("%+v", out)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-began)/float64(b.N)/(benchBatch*benchBatches), "cpu-ns/row")
		})
	}
}
