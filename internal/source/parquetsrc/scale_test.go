package parquetsrc_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hindcast/internal/blob/fileblob"
	"hindcast/internal/source/sourcetest"
	"hindcast/internal/spec"
	"hindcast/internal/testenv"
)

// An exporter that was told to flush at every record leaves a file a record: they are planned all the same, and the plan says what they cost.
func TestTwoThousandOneRowFilesArePlannedInSeconds(t *testing.T) {
	if !testenv.Full() {
		t.Skip("takes seconds: part of the full counts")
	}
	const files, within = 2000, 5 * time.Second
	dir := t.TempDir()
	one := sourcetest.NewTemplate(t, 1, 1)
	for i := range int64(files) {
		p, first := int32(i%2), i/2
		file := filepath.Join(dir, filepath.FromSlash(sourcetest.Key(p, first)))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(bytes.Clone(one.Data), one.Footer(p, first)...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	store, err := fileblob.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	listing, p, err := planned(t, store, sourceOf(spec.KafkaConnect))
	if err != nil {
		t.Fatal(err)
	}
	p.Listed = listing.Listed
	sum, err := p.Summary()
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)
	t.Logf("%d files in %v; %+v; %d requests to read", files, took, sum.Listed, sum.Requests)
	if took > within {
		t.Errorf("it took %v, more than %v", took, within)
	}
	if sum.Listed.Footers != files || sum.Listed.Requests < files || sum.Requests < files || !strings.Contains(strings.Join(p.Warnings, "\n"), "tiny segments: 2000 of") {
		t.Errorf("%+v, warnings %q", sum, p.Warnings)
	}
}
