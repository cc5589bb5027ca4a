// Command duck runs SQL in DuckDB, a process of its own for each measurement:
//
//	duck [-threads N] [-memory LIMIT] [-temp DIR] < statements
//
// It prints the rows of the last statement, a JSON array each.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	_ "github.com/duckdb/duckdb-go/v2"
)

func main() {
	threads := flag.Int("threads", 2, "as SET threads")
	memory := flag.String("memory", "", "as SET memory_limit; empty: DuckDB's default")
	temp := flag.String("temp", "", "folder that is spilled to")
	flag.Parse()
	if err := run(context.Background(), *threads, *memory, *temp); err != nil {
		fmt.Fprintln(os.Stderr, "duck:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, threads int, memory, temp string) error {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return fmt.Errorf("read the statements: %w", err)
	}
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return fmt.Errorf("open DuckDB: %w", err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	set := fmt.Sprintf("SET threads = %d; SET temp_directory = '%s'; SET preserve_insertion_order = false;", threads, temp)
	if memory != "" {
		set += fmt.Sprintf("SET memory_limit = '%s';", memory)
	}
	if _, err := db.ExecContext(ctx, set); err != nil {
		return err
	}
	rows, err := db.QueryContext(ctx, string(text))
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	row, to := make([]any, len(columns)), make([]any, len(columns))
	for i := range row {
		to[i] = &row[i]
	}
	out := json.NewEncoder(os.Stdout)
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return err
		}
		if err := out.Encode(row); err != nil {
			return fmt.Errorf("write a row: %w", err)
		}
	}
	return rows.Err()
}
