package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"hindcast/internal/blob"
	"hindcast/internal/job"
	"hindcast/internal/local"
	"hindcast/internal/table"
)

// dataReads notes which data files are read of stores.
type dataReads struct {
	mu    sync.Mutex
	files []string
}

type watchedStore struct {
	blob.Store
	reads *dataReads
}

func (s watchedStore) Get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	if strings.HasSuffix(key, ".parquet") {
		s.reads.mu.Lock()
		s.reads.files = append(s.reads.files, filepath.Base(filepath.Dir(key)))
		s.reads.mu.Unlock()
	}
	return s.Store.Get(ctx, key, opts)
}

// Promotion reads of what was checked only what has another ETag since, or all where the checks' note of them is not there, damaged or of another candidate;
// and checks that are made again put the note right.
func TestPromotionReadsWhatMayHaveChanged(t *testing.T) {
	t.Parallel()
	list := []job.Job{threeDays(t).job(smallJob{Tables: map[string]string{"sums": "day UTC"}})}
	proven := filepath.Join(t.TempDir(), "ws")
	run := threeRun(t, list[0], proven, "--json").ok(t).status(t).Run
	days := []string{"day=2024-05-01", "day=2024-05-02", "day=2024-05-03"}
	note := filepath.Join("runs", run, "etags.json")
	whole := mustRead(t, filepath.Join(proven, note))
	candidate := table.Digest(mustRead(t, filepath.Join(proven, "runs", run, "candidate.json")))
	if !bytes.Contains(whole, []byte(candidate)) {
		t.Fatalf("the note does not name the candidate: %s", whole)
	}
	write := func(t *testing.T, file string, data []byte) {
		t.Helper()
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	becomes := func(text []byte) func(t *testing.T, ws string) {
		return func(t *testing.T, ws string) { write(t, filepath.Join(ws, note), text) }
	}
	ofFile := func(day string, change func([]byte) []byte) func(t *testing.T, ws string) {
		return func(t *testing.T, ws string) {
			files, err := filepath.Glob(filepath.Join(ws, "datasets", "*", "data", run, "sums", day, "*.parquet"))
			if err != nil || len(files) != 1 {
				t.Fatalf("%s: %v, %v", day, files, err)
			}
			write(t, files[0], change(mustRead(t, files[0])))
		}
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, ws string)
		read   []string
		code   int
	}{
		"nothing changed": {change: func(*testing.T, string) {}},
		"no note": {change: func(t *testing.T, ws string) {
			if err := os.Remove(filepath.Join(ws, note)); err != nil {
				t.Fatal(err)
			}
		}, read: days},
		"a note that was cut":       {change: becomes(whole[:len(whole)/2]), read: days},
		"an empty note":             {change: becomes(nil), read: days},
		"a note of another shape":   {change: becomes([]byte(`{"candidate": "` + candidate + `", "files": ["x"]}`)), read: days},
		"a note that has more":      {change: becomes(bytes.Replace(whole, []byte("{"), []byte(`{"more": 1,`), 1)), read: days},
		"one of another candidate":  {change: becomes(bytes.ReplaceAll(whole, []byte(candidate), []byte(table.Digest(nil)))), read: days},
		"one without a day's file":  {change: becomes(bytes.Replace(whole, []byte(days[1]), []byte("day=2024-05-31"), 1)), read: days[1:2]},
		"a file that was damaged":   {change: ofFile(days[2], func(b []byte) []byte { return flipped(b, len(b)/2) }), read: days[2:], code: exitChecks},
		"a file that was cut short": {change: ofFile(days[0], func(b []byte) []byte { return b[:len(b)-1] }), read: days[:1], code: exitChecks},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ws := filepath.Join(t.TempDir(), "ws")
			if err := os.CopyFS(ws, os.DirFS(proven)); err != nil {
				t.Fatal(err)
			}
			c.change(t, ws)
			var reads dataReads
			opts := local.Options{Jobs: list, Embedded: true, Wrap: func(s blob.Store) blob.Store { return watchedStore{s, &reads} }}
			r := hindcastUnder(t, opts, "promote", run, "--workspace", ws).exits(t, c.code)
			if slices.Sort(reads.files); !slices.Equal(reads.files, c.read) {
				t.Errorf("it read the files of %v, want %v", reads.files, c.read)
			}
			if c.code != 0 {
				r.has(t, "a file is not what was checked")
				return
			}
			if err := os.Remove(filepath.Join(ws, "runs", run, "verdict.json")); err != nil {
				t.Fatal(err)
			}
			hindcastWith(t, list, "resume", run, "--workspace", ws).ok(t)
			if got := mustRead(t, filepath.Join(ws, note)); !bytes.Equal(got, whole) {
				t.Errorf("checks that were made again noted %s\nwant %s", got, whole)
			}
		})
	}
}
