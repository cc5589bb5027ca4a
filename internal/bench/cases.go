package main

import (
	"bytes"
	"embed"
	"fmt"
	"text/template"
	"time"

	"hindcast/internal/bench/generate"
)

// The window: a third of the day.
var (
	windowFrom = generate.Start.Add(8 * time.Hour)
	windowTo   = generate.Start.Add(16 * time.Hour)
)

// measured is one line of the results: a job, and what answers the same in SQL.
type measured struct {
	Name string
	// Job is the job's name, which is also its table's.
	Job string
	// SQL is a file of folder sql.
	SQL string
	// Whole says that the job is computed of the whole log, as keyed tables are: it has no window.
	Whole bool
	// Columns are what results are compared by; Sum is one of them whose sum is printed.
	Columns, Sum string
	// Bars are by who wrote the segments.
	Bars map[string]bar
}

// bar is how many times as fast as DuckDB a job must be, and is to become.
type bar struct{ least, aim float64 }

// What results are compared by.
const (
	totalColumns   = "epoch_us(hour) AS hour, account_id, cnt, total, max_version, epoch_us(min_time) AS min_time, epoch_us(max_time) AS max_time"
	balanceColumns = `account_id, cnt, balance, "version", epoch_us(last_time) AS last_time`
	idColumns      = "event_id, cnt, total, epoch_us(last_time) AS last_time"
	entryColumns   = "event_id, epoch_us(event_time) AS event_time, account_id, event_type, amount_cents, version, currency, note, signed_cents"
)

// cases are what can be measured. A new one needs a job in jobs, and SQL.
var cases = []measured{
	{
		Name: "totals", Job: "totals", SQL: "totals.sql", Columns: totalColumns, Sum: "total",
		Bars: map[string]bar{byHindcast: {1.2, 1.8}},
	},
	{
		Name: "totals-columns", Job: "totals-columns", SQL: "totals.sql", Columns: totalColumns, Sum: "total",
		Bars: map[string]bar{byHindcast: {1.7, 2.5}, byDuckDB: {1.5, 2.3}},
	},
	{
		Name: "balances", Job: "balances", SQL: "balances.sql", Whole: true, Columns: balanceColumns, Sum: "balance",
		Bars: map[string]bar{byHindcast: {3.5, 5}},
	},
	{
		Name: "balances-columns", Job: "balances-columns", SQL: "balances.sql", Whole: true, Columns: balanceColumns, Sum: "balance",
		Bars: map[string]bar{byHindcast: {4.5, 7}},
	},
	{
		Name: "map", Job: "entries", SQL: "entries.sql", Columns: entryColumns, Sum: "signed_cents",
		Bars: map[string]bar{byHindcast: {1.2, 1.7}},
	},
	{
		Name: "map-untouched", Job: "entries-untouched", SQL: "entries.sql", Columns: entryColumns, Sum: "signed_cents",
		Bars: map[string]bar{byHindcast: {3, 5}},
	},
	{Name: "ids", Job: "ids", SQL: "ids.sql", Whole: true, Columns: idColumns, Sum: "total"},
}

//go:embed sql/*.sql
var sqlFiles embed.FS

// query fills in a file of folder sql: in is a pattern of files, out a folder.
func query(name, in, out string) (string, error) {
	t, err := template.New(name).ParseFS(sqlFiles, "sql/"+name)
	if err != nil {
		return "", fmt.Errorf("read the SQL: %w", err)
	}
	var hours []string
	for h := windowFrom; h.Before(windowTo); h = h.Add(time.Hour) {
		hours = append(hours, instant(h))
	}
	buckets := make([]int, 16)
	for i := range buckets {
		buckets[i] = i
	}
	var b bytes.Buffer
	err = t.Execute(&b, map[string]any{
		"In": in, "Out": out, "From": instant(windowFrom), "To": instant(windowTo), "FromMillis": windowFrom.UnixMilli(), "Hours": hours, "Buckets": buckets,
	})
	if err != nil {
		return "", fmt.Errorf("fill in the SQL: %w", err)
	}
	return b.String(), nil
}

// instant writes t as DuckDB reads instants.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05+00") }
