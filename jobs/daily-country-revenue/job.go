// Package revenue is the job daily-country-revenue: what was sold and returned, by day and country.
package revenue

import (
	"embed"

	"hindcast/internal/job"
)

// Files are what the job is made of.
//
//go:embed job.yaml canaries.csv *.go
var Files embed.FS

// Job is listed in package jobs.
func Job() job.Job {
	return job.New(Files, job.Outputs{"daily-country-revenue": Transform()})
}

// Cancellation is the kind of lines that take a sale back.
const Cancellation = "cancellation"

// Line is what is read of an invoice line.
type Line struct {
	Invoice  string `event:"invoice_no"`
	Kind     string `event:"kind"`
	Quantity int64  `event:"quantity"` // negative where goods come back
	Price    int64  `event:"unit_price_mills"`
	Country  string `event:"country"`
}

// Day is one country's day.
type Day struct {
	Country        string `row:"country,key"`
	Lines          int64  `row:"lines"`
	CancelledLines int64  `row:"cancelled_lines"`
	Invoices       int64  `row:"invoices"`
	UnitsSold      int64  `row:"units_sold"`
	UnitsReturned  int64  `row:"units_returned"`
	Gross          int64  `row:"gross_mills"`
	Refunds        int64  `row:"refunds_mills"`
	Net            int64  `row:"net_mills"`

	Seen job.Set[string] `row:"-"` // invoices
}

// Transform adds up the lines of a day and country.
func Transform() job.Transform {
	return job.Fold[Line, Day]{
		Key:    func(l *Line) Day { return Day{Country: l.Country} },
		Apply:  (*Day).Add,
		Finish: func(d *Day) { d.Invoices = d.Seen.Len() },
		Merge:  (*Day).Merge,
	}
}

// Merge adds what came of a later part of the day's lines.
func (d *Day) Merge(later *Day) {
	d.Lines += later.Lines
	d.CancelledLines += later.CancelledLines
	d.UnitsSold += later.UnitsSold
	d.UnitsReturned += later.UnitsReturned
	d.Gross += later.Gross
	d.Refunds += later.Refunds
	d.Net += later.Net
	d.Seen.AddAll(later.Seen)
}

// Add counts a line. A cancellation has a negative quantity, so it lowers the net.
func (d *Day) Add(l *Line) {
	d.Lines++
	d.Seen.Add(l.Invoice)
	amount := l.Quantity * l.Price
	if l.Kind == Cancellation {
		d.CancelledLines++
		d.UnitsReturned -= l.Quantity
		d.Refunds -= amount
	} else {
		d.UnitsSold += l.Quantity
		d.Gross += amount
	}
	d.Net += amount
}
