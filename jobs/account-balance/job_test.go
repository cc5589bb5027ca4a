package accounts_test

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	accounts "hindcast/jobs/account-balance"

	"hindcast/internal/job/jobtest"
	"hindcast/internal/testenv"
)

// Records of the retail log, one twice, one without an account.
const lines = `
{"partition":0,"offset":120397,"value":{"event_id":"581023-35","occurred_at":"2011-12-07T10:35:00Z","version":35,"kind":"sale","invoice_no":"581023","quantity":5,"unit_price_mills":20790,"account_id":null}}
{"partition":0,"offset":121626,"value":{"event_id":"C581229-1","occurred_at":"2011-12-08T10:14:00Z","version":12,"kind":"cancellation","invoice_no":"C581229","quantity":-10,"unit_price_mills":2080,"account_id":"12558"}}
{"partition":1,"offset":142033,"value":{"event_id":"581179-1","occurred_at":"2011-12-07T15:43:00Z","version":494,"kind":"sale","invoice_no":"581179","quantity":60,"unit_price_mills":1650,"account_id":"12471"}}
{"partition":1,"offset":142034,"value":{"event_id":"581179-2","occurred_at":"2011-12-07T15:43:00Z","version":495,"kind":"sale","invoice_no":"581179","quantity":48,"unit_price_mills":1250,"account_id":"12471"}}
{"partition":1,"offset":142083,"value":{"event_id":"581179-1","occurred_at":"2011-12-07T15:43:00Z","version":494,"kind":"sale","invoice_no":"581179","quantity":60,"unit_price_mills":1650,"account_id":"12471"}}
`

const balances = `account_id,lines,balance_mills,last_version,last_occurred_at
12471,2,159000,495,2011-12-07T15:43:00Z
12558,1,-20800,12,2011-12-08T10:14:00Z
`

func TestAccountsAndTheirLedger(t *testing.T) {
	got := jobtest.Run(t, accounts.Job(), jobtest.JSONL(t, lines), jobtest.Options{})
	jobtest.Equal(t, got.CSV("account-balance"), balances)
	jobtest.Equal(t, got.CSV("ledger-entry"), `month,event_id,account_id,occurred_at,kind,invoice_no,amount_mills
2011-12,581179-1,12471,2011-12-07T15:43:00Z,sale,581179,99000
2011-12,581179-2,12471,2011-12-07T15:43:00Z,sale,581179,60000
2011-12,C581229-1,12558,2011-12-08T10:14:00Z,cancellation,C581229,-20800
`)
}

// Without dedupe, the version guard keeps balances right.
func TestVersionGuardAlone(t *testing.T) {
	got := jobtest.Run(t, accounts.Job(), jobtest.JSONL(t, lines), jobtest.Options{NoDedupe: true})
	jobtest.Equal(t, got.CSV("account-balance"), balances)
	if c := got.Count("account-balance"); c.Stale != 1 || c.Duplicate != 0 {
		t.Errorf("got %+v", c)
	}
}

func TestTheWholeSampleLog(t *testing.T) {
	if !testenv.Full() {
		t.Skip("it reads the whole log, as the command line's tests do: HINDCAST_TEST_FULL=1 runs it")
	}
	log := jobtest.Folder(t, filepath.Join(testenv.Root(t), "samples/retail"))
	got := jobtest.Run(t, accounts.Job(), log, jobtest.Options{})
	c := got.Count("account-balance")
	if c.Total() != 544_617 || c.Duplicate != 2_708 || c.Filtered != 135_080 || c.Stale != 0 {
		t.Errorf("got %+v", c)
	}
	if c := got.Count("ledger-entry"); c.Total() != 544_617 || c.Duplicate != 2_708 {
		t.Errorf("got %+v", c)
	}
	table := got.CSV("account-balance")
	canaries, err := os.ReadFile("canaries.csv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(canaries)) {
		if _, row, _ := strings.Cut(line, ","); !strings.Contains(table, row) {
			t.Errorf("canary is missing: %s", line)
		}
	}
	if ledger, balance := sum(t, got.CSV("ledger-entry"), "account_id", "amount_mills"), sum(t, table, "account_id", "balance_mills"); len(balance) != 4372 {
		t.Errorf("%d accounts", len(balance))
	} else {
		for account, b := range balance {
			if ledger[account] != b {
				t.Errorf("account %s: the ledger sums to %d, its balance is %d", account, ledger[account], b)
			}
		}
	}
	golden, err := os.ReadFile(filepath.Join(testenv.Shared(t, "HINDCAST_RETAIL", "retail"), "golden/accounts_2011-12-10.csv"))
	if err != nil {
		t.Fatal(err)
	}
	jobtest.Equal(t, table, string(golden))
	unguarded := jobtest.Run(t, accounts.Job(), log, jobtest.Options{NoDedupe: true})
	jobtest.Equal(t, unguarded.CSV("account-balance"), string(golden))
}

// sum adds up a column of a CSV by the values of another.
func sum(t *testing.T, text, by, column string) map[string]int64 {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var key, value int
	for i, name := range rows[0] {
		switch name {
		case by:
			key = i
		case column:
			value = i
		}
	}
	out := map[string]int64{}
	for _, row := range rows[1:] {
		n, err := strconv.ParseInt(row[value], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		out[row[key]] += n
	}
	return out
}
