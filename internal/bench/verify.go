package main

import (
	"context"
	"encoding/json"
	"fmt"
)

// digest tells results apart, whatever the order of their rows.
type digest struct {
	Rows int64  `json:"rows"`
	Sum  string `json:"sum"`
	Hash string `json:"hash"` // the sum of the rows' hashes
}

// ask runs a query that gives one row, and scans it.
func (b *bench) ask(ctx context.Context, sql string, to ...any) error {
	_, out, err := command{args: []string{b.duckdb, "-threads", fmt.Sprint(b.threads), "-temp", b.scratch}, stdin: sql}.run(ctx)
	if err != nil {
		return err
	}
	var row []json.RawMessage
	if err := json.Unmarshal(out, &row); err != nil || len(row) != len(to) {
		return fmt.Errorf("DuckDB gave %q for a row of %d values: %w", out, len(to), err)
	}
	for i := range to {
		if err := json.Unmarshal(row[i], to[i]); err != nil {
			return fmt.Errorf("DuckDB gave %s: %w", row[i], err)
		}
	}
	return nil
}

func (b *bench) digest(ctx context.Context, c measured, rows string) (d digest, err error) {
	sql := fmt.Sprintf("SELECT count(*), sum(%s)::VARCHAR, sum(hash(r))::VARCHAR FROM (SELECT %s FROM (%s)) r", c.Sum, c.Columns, rows)
	return d, b.ask(ctx, sql, &d.Rows, &d.Sum, &d.Hash)
}

// equal fails where a row is on one side only, or more often there. Rows are told apart by the MD5 of their text, since DuckDB needs ten times
// the memory for the rows themselves.
func (b *bench) equal(ctx context.Context, c measured, ours, theirs string) error {
	side := func(rows string) string {
		return fmt.Sprintf("(SELECT md5_number(r::VARCHAR) FROM (SELECT %s FROM (%s)) r)", c.Columns, rows)
	}
	var here, there int64
	text := fmt.Sprintf("SELECT (SELECT count(*) FROM (%[1]s EXCEPT ALL %[2]s)), (SELECT count(*) FROM (%[2]s EXCEPT ALL %[1]s))", side(ours), side(theirs))
	if err := b.ask(ctx, text, &here, &there); err != nil {
		return fmt.Errorf("compare the results: %w", err)
	}
	if here != 0 || there != 0 {
		return fmt.Errorf("the results differ, so there is no ratio: %d rows are only here, %d only there", here, there)
	}
	return nil
}

// rowsRead counts the events that a case is about: those of the window, or all.
func (b *bench) rowsRead(ctx context.Context, c measured, log string) (n int64, err error) {
	sql := fmt.Sprintf("SELECT count(*) FROM read_parquet('%s', hive_partitioning = false)", pattern(log))
	if !c.Whole {
		sql += fmt.Sprintf(" WHERE event_time >= TIMESTAMPTZ '%s' AND event_time < TIMESTAMPTZ '%s'", instant(windowFrom), instant(windowTo))
	}
	return n, b.ask(ctx, sql, &n)
}
