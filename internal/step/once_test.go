package step

import (
	"reflect"
	"testing"

	"hindcast/internal/blob/memblob"
)

// TestWriteOnceGivesWhatStands writes over an object that is there: the caller gets that one, whole, and no other value changes.
func TestWriteOnceGivesWhatStands(t *testing.T) {
	type shard struct {
		Tables []string `json:"tables"`
		Rows   int64    `json:"rows,omitempty"`
	}
	store := memblob.New()
	first := shard{Tables: []string{"a"}}
	if err := writeOnce(t.Context(), store, "shard.json", &first); err != nil {
		t.Fatal(err)
	}
	shared := []string{"b", "c"}
	second, other := shard{shared, 7}, shard{shared, 8}
	if err := writeOnce(t.Context(), store, "shard.json", &second); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(second, shard{Tables: []string{"a"}}) {
		t.Errorf("what stands is %+v", second)
	}
	if !reflect.DeepEqual(other, shard{[]string{"b", "c"}, 8}) {
		t.Errorf("a value that shares memory became %+v", other)
	}
}
