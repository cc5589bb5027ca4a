package peers

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"hindcast/internal/testenv"
)

// corpus is the folder of files that others wrote.
func corpus(t *testing.T) string {
	t.Helper()
	const env = "HINDCAST_PARQUET_CORPUS"
	if os.Getenv(env) == "" { // the module's root is not the project's
		t.Setenv(env, filepath.Join(testenv.Root(t), "..", "..", "..", "shared", "parquet-corpus"))
	}
	return testenv.Shared(t, env, "parquet-corpus")
}

// readings is what became of a file, by reader.
type readings map[string]result

// trio are the three readers' processes.
type trio map[string]*child

func newTrio(t *testing.T) trio {
	r := trio{}
	for name := range readers {
		r[name] = newChild(t, name)
	}
	return r
}

func (r trio) read(t *testing.T, req request) readings {
	t.Helper()
	type answer struct {
		name string
		res  result
		err  error
	}
	answers := make(chan answer)
	for name, c := range r {
		go func() {
			res, err := c.read(req)
			answers <- answer{name, res, err}
		}()
	}
	out := readings{}
	for range r {
		a := <-answers
		if a.err != nil {
			t.Error(a.err)
		}
		out[a.name] = a.res
	}
	return out
}

// verdict is how the readings of a file compare.
type verdict struct {
	one      string // the only one of DuckDB and arrow-go that reads all of it, where it is flat
	both     bool   // DuckDB and arrow-go read all of it, and it is flat
	read     bool   // Hindcast reads every column that they agree on, and each is equal
	refused  []column
	mismatch []string // columns that they agree on and Hindcast reads otherwise
	split    []string // columns that they read differently
	alone    []string // columns that only one of them reads, and Hindcast reads otherwise
	agreed   int      // columns that all three read alike
}

func same(a, b *column) bool {
	return a.Rows == b.Rows && a.Nulls == b.Nulls && slices.Equal(a.Blocks, b.Blocks)
}

func usable(c *column) bool { return c != nil && !c.Nested && c.Err == "" }

// compare holds the readings of a file against each other.
func compare(r readings) (v verdict) {
	own, duck, arrow := r["hindcast"], r["duckdb"], r["arrow"]
	peersOK := duck.Err == "" && duck.Died == "" && arrow.Err == "" && arrow.Died == ""
	v.both = peersOK && duck.Flat && arrow.Flat && len(duck.Columns) == len(arrow.Columns) && len(arrow.Columns) > 0
	for name, res := range map[string]result{"DuckDB": duck, "arrow-go": arrow} {
		whole := res.Err == "" && res.Died == "" && res.Flat && len(res.Columns) > 0
		for i := range res.Columns {
			whole = whole && usable(&res.Columns[i])
		}
		if whole {
			v.one = name
		}
	}
	v.read = own.Err == "" && own.Died == ""
	// Arrow has the names as they are; DuckDB renames those that are there twice, so its columns go by their place.
	lead := arrow.Columns
	if len(lead) == 0 {
		lead = duck.Columns
	}
	for i := range lead {
		name := lead[i].Name
		var d, a, h *column
		if len(duck.Columns) == len(lead) {
			d = &duck.Columns[i]
		}
		if len(arrow.Columns) == len(lead) {
			a = &arrow.Columns[i]
		}
		if j := slices.IndexFunc(own.Columns, func(c column) bool { return c.Name == name }); j >= 0 {
			h = &own.Columns[j]
		}
		v.both = v.both && usable(d) && usable(a)
		switch {
		case usable(d) && usable(a) && !same(d, a):
			v.split = append(v.split, name)
		case usable(d) && usable(a):
			switch {
			case !usable(h):
				v.read = false
				if h != nil {
					v.refused = append(v.refused, *h)
				}
			case !same(h, a):
				v.read = false
				v.mismatch = append(v.mismatch, name)
			default:
				v.agreed++
			}
		case usable(h) && (usable(d) && !same(h, d) || usable(a) && !same(h, a)):
			v.alone = append(v.alone, name)
		}
	}
	return v
}

// show gives a column's first value that the readers differ in, as each has it.
func (r trio) show(t *testing.T, path, name string, got readings) string {
	t.Helper()
	at := func(res result, name string) *column {
		if i := slices.IndexFunc(res.Columns, func(c column) bool { return c.Name == name }); i >= 0 {
			return &res.Columns[i]
		}
		return &column{}
	}
	block := 0
	for ; ; block++ {
		seen := map[uint64]bool{}
		ended := false
		for _, res := range got {
			if c := at(res, name); usable(c) {
				if block >= len(c.Blocks) {
					ended = true
				} else {
					seen[c.Blocks[block]] = true
				}
			}
		}
		if len(seen) > 1 || ended || len(seen) == 0 {
			break
		}
	}
	again := r.read(t, request{Path: path, Column: name, From: int64(block) * blockRows, To: int64(block+1) * blockRows})
	for row := range blockRows {
		seen := map[string]bool{}
		var text []string
		for _, reader := range slices.Sorted(maps.Keys(again)) {
			c, value := at(again[reader], name), "nothing"
			if row < len(c.Values) {
				value = c.Values[row]
			}
			if c.Err != "" {
				value = "refused (" + c.Err + ")"
			} else {
				seen[value] = true
			}
			text = append(text, fmt.Sprintf("%s %.90s", reader, value))
		}
		if len(seen) > 1 {
			return fmt.Sprintf("row %d: %s", block*blockRows+row, strings.Join(text, "; "))
		}
	}
	return "no single value differs"
}

var varying = regexp.MustCompile(`"[^"]*"|[0-9]+`)

// TestCorpusAgainstPeers holds what Hindcast reads of each file of a folder against what DuckDB and arrow-go read. Where those two
// agree on a column, Hindcast has the same values or refuses with file, column and reason; of the flat files that both read, it reads at
// least 95%; and no file makes it panic, hang, or pass its limit of memory.
func TestCorpusAgainstPeers(t *testing.T) {
	root := corpus(t)
	all := newTrio(t)
	counts, reasons := map[string]int{}, map[string]int{}
	var unread, onlyOne, splits, alone, died, whole []string
	var peak int64
	var peakFile string
	start := time.Now()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), "LICENSE") || strings.HasSuffix(d.Name(), ".md") {
			return err
		}
		name, _ := filepath.Rel(root, path)
		got := all.read(t, request{Path: path})
		counts["total"]++
		for reader, res := range got {
			if res.Died == "" {
				continue
			}
			died = append(died, fmt.Sprintf("%s: %s %s", name, reader, res.Died))
			if reader == "hindcast" {
				t.Errorf("%s: Hindcast %s", name, res.Died)
				counts["panics, hangs, over the limit"]++
			}
		}
		own := got["hindcast"]
		if own.Peak > peak {
			peak, peakFile = own.Peak, name
		}
		for _, r := range append([]column{{Err: own.Err, Reason: own.Reason}}, own.Columns...) {
			if r.Reason == badRefusal {
				t.Errorf("%s, column %q: %s: %s", name, r.Name, badRefusal, r.Err)
			}
			if r.Text && r.Err == "" {
				counts["columns of numbers that only text holds"]++
			}
			if r.Err != "" {
				reasons[varying.ReplaceAllString(r.Reason, "…")]++
			}
		}
		v := compare(got)
		counts["columns that all three read alike"] += v.agreed
		switch {
		case own.Err != "":
			counts["refused whole"]++
			whole = append(whole, own.Err)
		case slices.ContainsFunc(own.Columns, func(c column) bool { return c.Err != "" }):
			counts["read but for columns that are refused"]++
		default:
			counts["read whole"]++
		}
		if v.both {
			counts["flat, read by DuckDB and arrow-go"]++
			if v.read {
				counts["of these read by Hindcast"]++
			} else {
				why := own.Err
				for _, c := range v.refused {
					why = cmp.Or(why, c.Err)
				}
				unread = append(unread, name+": "+why)
			}
		}
		if all := own.Err == "" && !slices.ContainsFunc(own.Columns, func(c column) bool { return c.Err != "" }); v.one != "" && !v.both && !all {
			why := own.Err
			for _, c := range own.Columns {
				why = cmp.Or(why, c.Err)
			}
			onlyOne = append(onlyOne, fmt.Sprintf("%s, by %s: %s", name, v.one, why))
		}
		for _, c := range v.mismatch {
			counts["mismatches"]++
			t.Errorf("%s, column %q: DuckDB and arrow-go agree, Hindcast does not: %s", name, c, all.show(t, path, c, got))
		}
		for _, c := range v.split {
			counts["columns that DuckDB and arrow-go read differently"]++
			splits = append(splits, fmt.Sprintf("%s, column %q, %s", name, c, all.show(t, path, c, got)))
		}
		for _, c := range v.alone {
			alone = append(alone, fmt.Sprintf("%s, column %q, %s", name, c, all.show(t, path, c, got)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	list := func(title string, lines []string) {
		t.Logf("%s: %d", title, len(lines))
		for _, l := range lines {
			t.Logf("    %.400s", l)
		}
	}
	list("flat files that DuckDB and arrow-go read and Hindcast does not", unread)
	list("flat files that only one of the two reads, and Hindcast does not", onlyOne)
	list("columns that DuckDB and arrow-go read differently", splits)
	list("columns that only one of the two reads, and Hindcast otherwise", alone)
	list("processes that died", died)
	list("files refused whole", whole)
	t.Logf("refusals by reason, files and columns:")
	for _, r := range slices.SortedFunc(maps.Keys(reasons), func(a, b string) int { return cmp.Or(reasons[b]-reasons[a], strings.Compare(a, b)) }) {
		t.Logf("%5d %.200s", reasons[r], r)
	}
	both, read := counts["flat, read by DuckDB and arrow-go"], counts["of these read by Hindcast"]
	t.Logf("counts, decimals read at their own scale, clocks taken for UTC's, INT96 for UTC instants:")
	for _, k := range []string{
		"total", "read whole", "read but for columns that are refused", "refused whole",
		"flat, read by DuckDB and arrow-go", "of these read by Hindcast",
		"columns that all three read alike", "columns of numbers that only text holds", "columns that DuckDB and arrow-go read differently", "mismatches", "panics, hangs, over the limit",
	} {
		t.Logf("%5d %s", counts[k], k)
	}
	if both == 0 {
		t.Fatal("no file of the folder is flat and read by both peers: nothing was compared")
	}
	t.Logf("%5.1f%% of the flat files that both peers read are read right; at least 95%% must be", 100*float64(read)/float64(both))
	if 100*read < 95*both {
		t.Errorf("only %d of %d are read", read, both)
	}
	t.Logf("most memory of Hindcast's process: %d MiB of the %d that it may have, by %s; all in %v",
		peak>>20, ownMemory>>20, peakFile, time.Since(start).Round(time.Second))
}
