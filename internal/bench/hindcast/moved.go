package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"

	"hindcast/internal/job"
)

// moved returns the job with its segments and dataset where the environment says, if it does: a job.yaml has them in a folder, and they are
// measured on S3, too.
func moved(j job.Job) (job.Job, error) {
	segments, datasets := os.Getenv("HINDCAST_BENCH_SEGMENTS"), os.Getenv("HINDCAST_BENCH_DATASETS")
	if segments == "" && datasets == "" {
		return j, nil
	}
	yaml, err := fs.ReadFile(j.Files(), "job.yaml")
	if err != nil {
		return j, err
	}
	for _, r := range []struct{ old, new string }{{"parquet: segments", "parquet: " + segments}, {"\ndataset: ", "\ndataset: " + datasets + "/"}} {
		if !bytes.Contains(yaml, []byte(r.old)) {
			return j, fmt.Errorf("jobs/%s/job.yaml: there is no %q to move", j.Folder(), r.old)
		}
		yaml = bytes.Replace(yaml, []byte(r.old), []byte(r.new), 1)
	}
	return job.New(files{j.Files(), yaml}, j.Outputs()), nil
}

// files are a job's, but for job.yaml.
type files struct {
	fs.FS
	yaml []byte
}

func (f files) ReadFile(name string) ([]byte, error) {
	if name == "job.yaml" {
		return f.yaml, nil
	}
	return fs.ReadFile(f.FS, name)
}
