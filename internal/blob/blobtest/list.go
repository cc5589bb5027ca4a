package blobtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"hindcast/internal/blob"
)

// putAll puts empty objects under all keys.
func putAll(t *testing.T, s blob.Store, keys []string) {
	t.Helper()
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(16)
	for _, key := range keys {
		g.Go(func() error {
			_, err := blob.PutBytes(ctx, s, key, nil, blob.Condition{IfAbsent: true})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// list compares listings with a sorted slice. The keys are such that a folder
// sorts otherwise by its name than by its contents.
func list(t *testing.T, s blob.Store) {
	keys := []string{
		"a-b", "a/b", "a/b-c", "a/c/d", "a/c/e", "a/c-d", "a.b", "a0", "aa/a", "b", "B/x", "c d/e", "c+d/e", "c/e", "é/x", "e/x", "z/1/2/3", "z/1-", "z/10", "z/1/2-",
		"t/p=0/t+0+0000000000.parquet", "t/p=0/t+0+0000010000.parquet", "t/p=1/t+1+0000000000.parquet", "t/p=10/t+10+0000000000.parquet",
	}
	putAll(t, s, keys)
	slices.Sort(keys)
	prefixes := []string{"", "a", "a/", "a/c", "a/c/", "a-", "c", "c ", "t/p=1", "t/p=1/", "z/1", "z/1/", "none", "none/", "é", "b", "b/", "a/b/"}
	afters := slices.Concat([]string{"", "a", "a/", "a/c", "a/c0", "t/p=0/u", "zz", "é", "A"}, keys)
	for _, prefix := range prefixes {
		for i, after := range afters {
			limit := []int{1, 2, 5, 100}[i%4]
			var want []string
			for _, key := range keys {
				if strings.HasPrefix(key, prefix) && key > after && len(want) < limit {
					want = append(want, key)
				}
			}
			page, err := s.List(t.Context(), prefix, after, limit)
			if err != nil {
				t.Fatal(err)
			}
			got := names(page)
			// A page may be short, but not empty before the end.
			if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) || len(got) == 0 && len(want) > 0 {
				t.Fatalf("list(%q, after %q, %d) gives %q, want %q", prefix, after, limit, got, want)
			}
		}
		var all []string
		for info, err := range blob.All(t.Context(), s, prefix) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, info.Key)
		}
		want := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return !strings.HasPrefix(key, prefix) })
		if !slices.Equal(all, want) {
			t.Fatalf("all of %q gives %q, want %q", prefix, all, want)
		}
	}
}

func names(page []blob.Info) []string {
	var keys []string
	for _, info := range page {
		keys = append(keys, info.Key)
	}
	return keys
}

// pages lists one object more than S3 gives at once.
func pages(t *testing.T, s blob.Store) {
	var want []string
	for i := range 1001 {
		// A folder of 901, others of 10.
		folder := 0
		if i > 900 {
			folder = i / 10
		}
		want = append(want, fmt.Sprintf("many/%03d/%04d", folder, i))
	}
	putAll(t, s, want)
	for _, limit := range []int{1000, 5000, 99} {
		var got []string
		after := ""
		for {
			page, err := s.List(t.Context(), "many/", after, limit)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) > limit {
				t.Fatalf("a page of at most %d has %d", limit, len(page))
			}
			if len(page) == 0 {
				break
			}
			got = append(got, names(page)...)
			after = got[len(got)-1]
		}
		if !slices.Equal(got, want) {
			t.Fatalf("pages of %d give %d keys, want %d in order", limit, len(got), len(want))
		}
	}
	count := 0
	for _, err := range blob.All(t.Context(), s, "many/") {
		if err != nil {
			t.Fatal(err)
		}
		count++
	}
	if count != len(want) {
		t.Fatalf("all gives %d of %d", count, len(want))
	}
}
