package fileblob

import (
	"context"
	"testing"

	"hindcast/internal/blob"
)

func TestRoundTrip(t *testing.T) {
	s, err := New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for _, n := range []int{0, 10, hashedSize, hashedSize + 1, 3 << 20} {
		info, err := blob.PutBytes(ctx, s, "a b/c", make([]byte, n), blob.Condition{})
		if err != nil {
			t.Fatal(err)
		}
		b, got, err := blob.ReadAll(ctx, s, "a b/c")
		if err != nil || len(b) != n || got != info {
			t.Fatal(len(b), err, got, info)
		}
	}
}
