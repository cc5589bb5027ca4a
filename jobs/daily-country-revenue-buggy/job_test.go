package buggy_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	buggy "hindcast/jobs/daily-country-revenue-buggy"

	"hindcast/internal/job/jobtest"
	"hindcast/internal/testenv"
)

// Records of the retail log.
const lines = `
{"event_id":"581000-1","occurred_at":"2011-12-07T08:03:00Z","kind":"sale","invoice_no":"581000","quantity":12,"unit_price_mills":1450,"country":"Germany"}
{"event_id":"C581409-2","occurred_at":"2011-12-08T14:08:00Z","kind":"cancellation","invoice_no":"C581409","quantity":-3,"unit_price_mills":1250,"country":"Germany"}
`

func TestCancellationsRaiseTheNet(t *testing.T) {
	got := jobtest.Run(t, buggy.Job(), jobtest.JSONL(t, lines), jobtest.Options{})
	jobtest.Equal(t, got.CSV("daily-country-revenue"), `day,country,lines,cancelled_lines,invoices,units_sold,units_returned,gross_mills,refunds_mills,net_mills
2011-12-07,Germany,1,0,1,12,0,17400,0,17400
2011-12-08,Germany,1,1,1,0,3,0,3750,3750
`)
}

func TestItMakesWhatProductionServed(t *testing.T) {
	retail := testenv.Shared(t, "HINDCAST_RETAIL", "retail")
	log := jobtest.Folder(t, filepath.Join(testenv.Root(t), "samples/retail"))
	got := jobtest.Run(t, buggy.Job(), log, jobtest.Options{
		From: time.Date(2011, 11, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2011, 11, 22, 0, 0, 0, 0, time.UTC),
	})
	golden, err := os.ReadFile(filepath.Join(retail, "golden/daily_2011-11-01_2011-11-22_buggy.csv"))
	if err != nil {
		t.Fatal(err)
	}
	jobtest.Equal(t, got.CSV("daily-country-revenue"), string(golden))
}
