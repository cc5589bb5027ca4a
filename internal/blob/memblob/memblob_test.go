package memblob_test

import (
	"testing"

	"hindcast/internal/blob"
	"hindcast/internal/blob/blobtest"
	"hindcast/internal/blob/memblob"
)

func TestStore(t *testing.T) {
	blobtest.Run(t, func(*testing.T) blob.Store { return memblob.New() })
}

func TestFoldersAreNoObjects(t *testing.T) {
	s := memblob.New()
	put := func(key string) error {
		_, err := blob.PutBytes(t.Context(), s, key, nil, blob.Condition{})
		return err
	}
	if err := put("a/b"); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "a/b/c", "a/b/c/d"} {
		if put(key) == nil {
			t.Errorf("%s is accepted beside a/b", key)
		}
	}
	if err := put("a/b-c"); err != nil {
		t.Error(err)
	}
}
