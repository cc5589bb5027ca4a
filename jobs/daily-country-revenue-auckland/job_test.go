package auckland_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	auckland "hindcast/jobs/daily-country-revenue-auckland"

	"hindcast/internal/job/jobtest"
	"hindcast/internal/testenv"
)

// Records of the retail log: in London they are of one day.
const lines = `
{"event_id":"581000-1","occurred_at":"2011-12-07T08:03:00Z","kind":"sale","invoice_no":"581000","quantity":12,"unit_price_mills":1450,"country":"Germany"}
{"event_id":"581023-35","occurred_at":"2011-12-07T10:35:00Z","kind":"sale","invoice_no":"581023","quantity":5,"unit_price_mills":20790,"country":"United Kingdom"}
{"event_id":"581179-1","occurred_at":"2011-12-07T15:43:00Z","kind":"sale","invoice_no":"581179","quantity":60,"unit_price_mills":1650,"country":"Germany"}
`

func TestADayBeginsAtElevenInLondon(t *testing.T) {
	got := jobtest.Run(t, auckland.Job(), jobtest.JSONL(t, lines), jobtest.Options{})
	jobtest.Equal(t, got.CSV("daily-country-revenue-auckland"), `day,country,lines,cancelled_lines,invoices,units_sold,units_returned,gross_mills,refunds_mills,net_mills
2011-12-07,Germany,1,0,1,12,0,17400,0,17400
2011-12-07,United Kingdom,1,0,1,5,0,103950,0,103950
2011-12-08,Germany,1,0,1,60,0,99000,0,99000
`)
}

func TestDaysAreThoseOfAuckland(t *testing.T) {
	retail := testenv.Shared(t, "HINDCAST_RETAIL", "retail")
	zone, err := time.LoadLocation("Pacific/Auckland")
	if err != nil {
		t.Fatal(err)
	}
	log := jobtest.Folder(t, filepath.Join(testenv.Root(t), "samples/retail"))
	got := jobtest.Run(t, auckland.Job(), log, jobtest.Options{
		From: time.Date(2011, 11, 1, 0, 0, 0, 0, zone), To: time.Date(2011, 11, 22, 0, 0, 0, 0, zone),
	})
	golden, err := os.ReadFile(filepath.Join(retail, "golden/daily_auckland_2011-11-01_2011-11-22_corrected.csv"))
	if err != nil {
		t.Fatal(err)
	}
	jobtest.Equal(t, got.CSV("daily-country-revenue-auckland"), string(golden))
}
