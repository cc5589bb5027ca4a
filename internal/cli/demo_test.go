package cli

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hindcast/internal/testenv"
)

// within gives the header and the lines whose first column lies in [from, to).
func within(t *testing.T, text, from, to string) string {
	t.Helper()
	lines := strings.SplitAfter(text, "\n")
	out := lines[0]
	for _, l := range lines[1:] {
		if day, _, _ := strings.Cut(l, ","); day >= from && day < to {
			out += l
		}
	}
	return out
}

func golden(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testenv.Shared(t, "HINDCAST_RETAIL", "retail"), "golden", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func same(t *testing.T, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			t.Fatalf("%d lines, expected %d; line %d differs:\n got %q\nwant %q", len(g), len(w), i+1, at(g, i), at(w, i))
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(no such line)"
}

func TestDemoServesTheCorrectedWeeks(t *testing.T) {
	ws := demoWorkspace(t)
	now := hindcast(t, "table", "cat", demoTable, "--workspace", ws).ok(t).out
	v1 := hindcast(t, "table", "cat", demoTable, "--workspace", ws, "--version", "1").ok(t).out
	same(t, within(t, now, demoFrom, demoTo), golden(t, "daily_2011-11-01_2011-11-22_corrected.csv"))
	same(t, within(t, v1, demoFrom, demoTo), golden(t, "daily_2011-11-01_2011-11-22_buggy.csv"))
	same(t, within(t, now, demoBegin, demoFrom), within(t, v1, demoBegin, demoFrom))
	same(t, within(t, now, demoTo, demoEnd), within(t, v1, demoTo, demoEnd))
}

func TestDemoLeavesOtherDaysTheSameFiles(t *testing.T) {
	ws := demoWorkspace(t)
	files := func(args ...string) map[string]string {
		out := map[string]string{}
		for _, l := range strings.Split(hindcast(t, append([]string{"table", "files", demoTable, "--workspace", ws}, args...)...).ok(t).out, "\n")[1:] {
			if f := strings.Fields(l); len(f) > 0 {
				out[f[0]] = f[len(f)-1]
			}
		}
		return out
	}
	now, v1 := files(), files("--version", "1")
	if len(now) != len(v1) || len(now) < 300 {
		t.Fatalf("%d partitions, %d in version 1", len(now), len(v1))
	}
	changed := 0
	for day, file := range now {
		bad := day >= "day="+demoFrom && day < "day="+demoTo
		if bad == (file == v1[day]) {
			t.Errorf("%s: %s, in version 1 %s", day, file, v1[day])
		}
		if bad {
			changed++
		}
	}
	if changed == 0 {
		t.Error("no day changed")
	}
}

func TestDemoTellsItsStoryBriefly(t *testing.T) {
	demoWorkspace(t)
	lines := strings.Split(strings.TrimSpace(demoed.out), "\n")
	if len(lines) > 28 {
		t.Errorf("%d lines:\n%s", len(lines), demoed.out)
	}
	for _, want := range []string{"£1,090,942.09", "£1,015,061.53", "rollback", "promote"} {
		if !strings.Contains(demoed.out, want) {
			t.Errorf("no %q in:\n%s", want, demoed.out)
		}
	}
}

func TestAucklandDaysAreRight(t *testing.T) {
	ws := filepath.Join(t.TempDir(), "ws")
	hindcast(t, "run", "daily-country-revenue-auckland", "--from", demoFrom, "--to", demoTo, "--promote", "--workspace", ws).ok(t)
	same(t, hindcast(t, "table", "cat", "daily-country-revenue-auckland", "--workspace", ws).ok(t).out,
		golden(t, "daily_auckland_2011-11-01_2011-11-22_corrected.csv"))
}

func TestAccountsAndLedgerSwapAtOnceAndAgree(t *testing.T) {
	ws := filepath.Join(t.TempDir(), "ws")
	hindcast(t, "run", "account-balance", "--promote", "--workspace", ws).ok(t)
	read := func(table string) [][]string {
		rows, err := csv.NewReader(strings.NewReader(hindcast(t, "table", "cat", table, "--workspace", ws).ok(t).out)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	accounts := read("account-balance")
	same(t, sorted(accounts), golden(t, "accounts_2011-12-10.csv"))

	sums := map[string]int64{}
	ledger := read("ledger-entry")
	account, amount := column(t, ledger, "account_id"), column(t, ledger, "amount_mills")
	for _, r := range ledger[1:] {
		sums[r[account]] += integer(t, r[amount])
	}
	id, balance := column(t, accounts, "account_id"), column(t, accounts, "balance_mills")
	for _, r := range accounts[1:] {
		if sums[r[id]] != integer(t, r[balance]) {
			t.Errorf("account %s: the ledger sums to %d, its balance is %s", r[id], sums[r[id]], r[balance])
		}
		delete(sums, r[id])
	}
	if len(sums) > 0 {
		t.Errorf("accounts of the ledger that have no balance: %v", sums)
	}
}
