package openblob_test

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"hindcast/internal/blob"
	"hindcast/internal/blob/openblob"
)

func TestOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "with space+#%")
	byPath, err := openblob.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := blob.PutBytes(t.Context(), byPath, "x", []byte("body"), blob.Condition{}); err != nil {
		t.Fatal(err)
	}
	byURL, err := openblob.Open(t.Context(), (&url.URL{Scheme: "file", Path: dir}).String())
	if err != nil {
		t.Fatal(err)
	}
	if b, _, err := blob.ReadAll(t.Context(), byURL, "x"); err != nil || string(b) != "body" {
		t.Errorf("reads %q, %v", b, err)
	}
	t.Setenv("AWS_REGION", "eu-west-1")
	if _, err := openblob.Open(t.Context(), "s3://bucket/prefix"); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "relative/path", "file://host/path", "file://relative", "file:///a?b", "gs://bucket/x", "s3:bucket", "s3://"} {
		if _, err := openblob.Open(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
