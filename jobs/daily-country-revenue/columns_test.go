package revenue_test

import (
	revenue "hindcast/jobs/daily-country-revenue"

	"hindcast/internal/job"
)

// lineColumns are the columns of invoice lines that revenue.Line has.
type lineColumns struct {
	Invoice  job.Text          `event:"invoice_no"`
	Kind     job.Text          `event:"kind"`
	Quantity job.Column[int64] `event:"quantity"`
	Price    job.Column[int64] `event:"unit_price_mills"`
	Country  job.Text          `event:"country"`
}

// dayColumns are the rows of revenue.Day by column: a value for each country's day.
type dayColumns struct {
	Country        job.Key `row:"country"`
	Lines          []int64 `row:"lines"`
	CancelledLines []int64 `row:"cancelled_lines"`
	Invoices       []int64 `row:"invoices"`
	UnitsSold      []int64 `row:"units_sold"`
	UnitsReturned  []int64 `row:"units_returned"`
	Gross          []int64 `row:"gross_mills"`
	Refunds        []int64 `row:"refunds_mills"`
	Net            []int64 `row:"net_mills"`

	Seen []job.Set[string] `row:"-"`
}

// byColumn is the transform of the job as a column fold.
func byColumn() job.Transform {
	return job.ColumnFold[lineColumns, dayColumns]{
		Apply: func(d *dayColumns, l *lineColumns, events []job.Event) {
			cancellation := job.Of(&l.Kind, func(kind string) bool { return kind == revenue.Cancellation })
			for _, e := range events {
				g, quantity := e.Group, l.Quantity.At(e.Row)
				amount := quantity * l.Price.At(e.Row)
				d.Lines[g]++
				d.Seen[g].Add(l.Invoice.At(e.Row))
				if cancellation.At(e.Row) {
					d.CancelledLines[g]++
					d.UnitsReturned[g] -= quantity
					d.Refunds[g] -= amount
				} else {
					d.UnitsSold[g] += quantity
					d.Gross[g] += amount
				}
				d.Net[g] += amount
			}
		},
		Finish: func(d *dayColumns) {
			for g := range d.Seen {
				d.Invoices[g] = d.Seen[g].Len()
			}
		},
		Merge: func(d, later *dayColumns, events []job.Event) {
			for _, e := range events {
				g, l := e.Group, e.Row
				d.Lines[g] += later.Lines[l]
				d.CancelledLines[g] += later.CancelledLines[l]
				d.UnitsSold[g] += later.UnitsSold[l]
				d.UnitsReturned[g] += later.UnitsReturned[l]
				d.Gross[g] += later.Gross[l]
				d.Refunds[g] += later.Refunds[l]
				d.Net[g] += later.Net[l]
				d.Seen[g].AddAll(later.Seen[l])
			}
		},
	}
}
