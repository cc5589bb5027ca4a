package parquetfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"hindcast/internal/testenv"
)

// outcome is what became of reading a whole file.
type outcome struct {
	rows     int64
	batches  int
	columns  int     // read
	refused  []error // columns that are not read
	err      error   // that ends the reading of the others
	allocs   uint64  // bytes allocated in all: at least the peak
	duration time.Duration
}

func readWhole(data []byte, name string) (o outcome) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	defer func() {
		runtime.ReadMemStats(&after)
		o.allocs = after.TotalAlloc - before.TotalAlloc
		o.duration = time.Since(start)
	}()
	f, err := Open(bytes.NewReader(data), int64(len(data)), name)
	if err == nil {
		f, err = ruled(f)
	}
	if err != nil {
		o.err = err
		return o
	}
	for _, c := range f.Columns() {
		if _, err := f.Column(c); err != nil {
			o.refused = append(o.refused, err)
		} else {
			o.columns++
		}
	}
	if o.columns == 0 {
		return o
	}
	r := f.Read(ReadOptions{})
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			o.err = err
			return o
		}
		o.rows += int64(b.Len)
		o.batches++
	}
	if o.rows != f.Rows() {
		o.err = errors.New("it ended early without an error")
	}
	return o
}

// Each file of the corpus is read whole, or refused by an error that names
// file and reason; without a panic, without end and within bounds. Rules are declared for what needs them. (Values are compared in package peers.)
func TestCorpus(t *testing.T) {
	root := testenv.Shared(t, "HINDCAST_PARQUET_CORPUS", "parquet-corpus")
	counts := map[string]int{}
	var slowest, greatest string
	var longest time.Duration
	var most uint64
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), "LICENSE") || strings.HasSuffix(d.Name(), ".md") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		done := make(chan outcome, 1)
		go func() { done <- readWhole(data, name) }()
		var o outcome
		select {
		case o = <-done:
		case <-time.After(60 * time.Second):
			t.Fatalf("%s: no end after a minute", name)
		}
		if o.duration > longest {
			longest, slowest = o.duration, name
		}
		if o.allocs > most {
			most, greatest = o.allocs, name
		}
		if o.allocs > 3<<30/2 {
			t.Errorf("%s: %d MiB allocated", name, o.allocs>>20)
		}
		for _, err := range append(o.refused, o.err) {
			var e *Error
			switch {
			case err == nil:
			case !errors.As(err, &e) || e.File != name || e.Reason == "":
				t.Errorf("%s: the error names no file or reason: %v", name, err)
			case strings.Contains(err.Error(), "panic"):
				t.Errorf("%s: %v", name, err)
			}
		}
		verdict := "read whole"
		switch {
		case o.err != nil:
			verdict = "refused"
			t.Logf("refused: %v", o.err)
		case len(o.refused) > 0 && o.columns > 0:
			verdict = "read but for columns"
		case len(o.refused) > 0:
			verdict = "all columns refused"
		}
		for _, err := range o.refused {
			t.Logf("column refused: %v", err)
		}
		counts["total"]++
		counts[verdict]++
		counts[strings.SplitN(name, string(filepath.Separator), 2)[0]+": "+verdict]++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%4d %s", counts[k], k)
	}
	t.Logf("slowest: %s, %v; most allocated: %s, %d MiB", slowest, longest.Round(time.Millisecond), greatest, most>>20)
	if counts["read whole"] < 50 {
		t.Errorf("only %d files were read whole", counts["read whole"])
	}
}
