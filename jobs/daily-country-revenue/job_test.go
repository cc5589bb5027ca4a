package revenue_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	revenue "hindcast/jobs/daily-country-revenue"

	"hindcast/internal/job"
	"hindcast/internal/job/jobtest"
	"hindcast/internal/testenv"
)

// Records of the retail log; the last of partition 0 is a redelivery.
const lines = `
{"partition":0,"offset":120304,"value":{"event_id":"581000-1","occurred_at":"2011-12-07T08:03:00Z","kind":"sale","invoice_no":"581000","quantity":12,"unit_price_mills":1450,"country":"Germany"}}
{"partition":0,"offset":120322,"value":{"event_id":"581000-19","occurred_at":"2011-12-07T08:03:00Z","kind":"sale","invoice_no":"581000","quantity":5,"unit_price_mills":18000,"country":"Germany"}}
{"partition":0,"offset":120397,"value":{"event_id":"581023-35","occurred_at":"2011-12-07T10:35:00Z","kind":"sale","invoice_no":"581023","quantity":5,"unit_price_mills":20790,"country":"United Kingdom"}}
{"partition":0,"offset":120448,"value":{"event_id":"581023-35","occurred_at":"2011-12-07T10:35:00Z","kind":"sale","invoice_no":"581023","quantity":5,"unit_price_mills":20790,"country":"United Kingdom"}}
{"partition":1,"offset":142560,"value":{"event_id":"C581409-1","occurred_at":"2011-12-08T14:08:00Z","kind":"cancellation","invoice_no":"C581409","quantity":-1,"unit_price_mills":1250,"country":"Germany"}}
{"partition":1,"offset":142561,"value":{"event_id":"C581409-2","occurred_at":"2011-12-08T14:08:00Z","kind":"cancellation","invoice_no":"C581409","quantity":-3,"unit_price_mills":1250,"country":"Germany"}}
`

func TestLinesOfADayAddUp(t *testing.T) {
	for _, j := range []job.Job{revenue.Job(), job.New(revenue.Files, job.Outputs{"daily-country-revenue": byColumn()})} {
		got := jobtest.Run(t, j, jobtest.JSONL(t, lines), jobtest.Options{})
		jobtest.Equal(t, got.CSV("daily-country-revenue"), `day,country,lines,cancelled_lines,invoices,units_sold,units_returned,gross_mills,refunds_mills,net_mills
2011-12-07,Germany,2,0,1,17,0,107400,0,107400
2011-12-07,United Kingdom,1,0,1,5,0,103950,0,103950
2011-12-08,Germany,2,2,1,0,4,0,5000,-5000
`)
	}
}

func TestThreeWeeksOfTheSampleLog(t *testing.T) {
	log := jobtest.Folder(t, filepath.Join(testenv.Root(t), "samples/retail"))
	window := jobtest.Options{From: time.Date(2011, 11, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2011, 11, 22, 0, 0, 0, 0, time.UTC)}
	got := jobtest.Run(t, revenue.Job(), log, window)
	csv := got.CSV("daily-country-revenue")
	canaries, err := os.ReadFile("canaries.csv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(canaries)) {
		if !strings.Contains(csv, line) {
			t.Errorf("canary is missing: %s", line)
		}
	}
	count := got.Count("daily-country-revenue")
	if n := count.Total(); n != 544_617 {
		t.Errorf("%d of 544,617 records are accounted for: %+v", n, count)
	}
	golden, err := os.ReadFile(filepath.Join(testenv.Shared(t, "HINDCAST_RETAIL", "retail"), "golden/daily_2011-11-01_2011-11-22_corrected.csv"))
	if err != nil {
		t.Fatal(err)
	}
	jobtest.Equal(t, csv, string(golden))
	if !testenv.Full() {
		return
	}
	columns := jobtest.Run(t, job.New(revenue.Files, job.Outputs{"daily-country-revenue": byColumn()}), log, window)
	jobtest.Equal(t, columns.CSV("daily-country-revenue"), string(golden))
}
