package fileblob_test

import (
	"testing"

	"hindcast/internal/blob"
	"hindcast/internal/blob/blobtest"
	"hindcast/internal/blob/fileblob"
)

func open(t *testing.T, dir string) *fileblob.Store {
	t.Helper()
	s, err := fileblob.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Store { return open(t, t.TempDir()) })
}
