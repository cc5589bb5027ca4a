//go:build servers

package cli

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"hindcast/internal/blob"
	"hindcast/internal/blob/openblob"
	"hindcast/internal/job"
	"hindcast/internal/testenv"
	"hindcast/internal/testenv/s3env"
	revenue "hindcast/jobs/daily-country-revenue"
)

// The three weeks, with segments and dataset on a real S3 server: right, promoted, rolled back, and in keys of S3's.
func TestTheCorrectionOverS3(t *testing.T) {
	s3env.Start(t)
	lake, err := openblob.Open(t.Context(), "s3://bucket")
	if err != nil {
		t.Fatal(err)
	}
	samples := os.DirFS(filepath.Join(testenv.Root(t), "samples/retail"))
	err = fs.WalkDir(samples, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".parquet") {
			return err
		}
		b, err := fs.ReadFile(samples, name)
		if err != nil {
			return err
		}
		_, err = lake.Put(t.Context(), "exports/"+name, bytes.NewReader(b), blob.Condition{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	yaml, err := fs.ReadFile(revenue.Files, "job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(
		"parquet: samples/retail,", "parquet: s3://bucket/exports,", ", sums: samples/retail/SHA256SUMS", "", "dataset: retail", "dataset: s3://bucket/lake/retail",
	).Replace(string(yaml))
	canaries, err := fs.ReadFile(revenue.Files, "canaries.csv")
	if err != nil {
		t.Fatal(err)
	}
	list := []job.Job{job.New(fstest.MapFS{
		"job.yaml": {Data: []byte(text)}, "canaries.csv": {Data: canaries}, "job.go": {Data: []byte("package s3")},
	}, job.Outputs{demoTable: revenue.Transform()})}

	ws := filepath.Join(t.TempDir(), "ws")
	s := hindcastWith(t, list, "run", demoJob, "--from", demoFrom, "--to", demoTo, "--promote", "--json", "--workspace", ws).ok(t).status(t)
	same(t, hindcastWith(t, list, "table", "cat", demoTable, "--workspace", ws).ok(t).out, golden(t, "daily_2011-11-01_2011-11-22_corrected.csv"))
	if out := hindcastWith(t, list, "table", "files", demoTable, "--as", "athena", "--workspace", ws).ok(t).out; !strings.Contains(out, "s3://bucket/lake/retail/data/") {
		t.Errorf("the query names no file of the dataset:\n%s", out)
	}
	hindcastWith(t, list, "rollback", s.Run, "--workspace", ws).ok(t)
	if r := hindcastWith(t, list, "table", "cat", demoTable, "--workspace", ws).exits(t, exitError); !strings.Contains(r.err, "version 2 has no table") {
		t.Errorf("after the rollback of the first version: %s", r.err)
	}
	hindcastWith(t, list, "promote", s.Run, "--workspace", ws).ok(t)
}
