package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hindcast/internal/bench/generate"
)

// Who wrote the segments.
const (
	byHindcast = "hindcast"
	byDuckDB   = "duckdb"
)

// segments is the folder of the data that job.yaml names.
const segments = "segments"

// folder returns the folder of a log's segments, and makes it if there is none: what is half made bears another name.
func (b *bench) folder(ctx context.Context, written string) (string, error) {
	dir := filepath.Join(b.data, fmt.Sprintf("%d-%s", b.rows, written))
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	if err := os.MkdirAll(b.data, 0o755); err != nil {
		return "", err
	}
	made, err := os.MkdirTemp(b.data, "making-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(made) // where it was not given its name
	b.say("making %d events in %s", b.rows, dir)
	if written == byDuckDB {
		err = b.rewrite(ctx, made)
	} else {
		_, _, err = command{args: []string{b.self, "--only-data", "--rows", fmt.Sprint(b.rows), "--data", made}}.run(ctx)
	}
	if err != nil {
		return "", err
	}
	// Relative locations of a job.yaml start at the nearest folder above the working directory that has a go.mod: here.
	if err := os.WriteFile(filepath.Join(made, "go.mod"), []byte("module data\n"), 0o644); err != nil {
		return "", err
	}
	return dir, os.Rename(made, dir)
}

// rewrite has DuckDB write the segments anew: optional columns, timestamps in microseconds, one data page a chunk.
func (b *bench) rewrite(ctx context.Context, to string) error {
	from, err := b.folder(ctx, byHindcast)
	if err != nil {
		return err
	}
	var sql strings.Builder
	sql.WriteString("SET preserve_insertion_order = true;\n")
	err = generate.Each(b.rows, func(partition int, first, _ int64) error {
		name := filepath.FromSlash(generate.Path(partition, first))
		out := filepath.Join(to, segments, name)
		fmt.Fprintf(&sql, "COPY (SELECT * FROM read_parquet('%s', hive_partitioning = false)) TO '%s' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE %d);\n",
			filepath.Join(from, segments, name), out, generate.RowGroup)
		return os.MkdirAll(filepath.Dir(out), 0o755)
	})
	if err != nil {
		return err
	}
	_, _, err = b.duck(sql.String()).run(ctx)
	return err
}

// pattern matches the segments of a log.
func pattern(dir string) string {
	return filepath.Join(dir, segments, "topics", generate.Topic, "*", "*.parquet")
}
