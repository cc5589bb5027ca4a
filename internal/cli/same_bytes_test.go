package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hindcast/internal/check"
	"hindcast/internal/local"
	"hindcast/internal/table"
	"hindcast/internal/testenv"
	"hindcast/jobs"
)

// contents tells a served table by what its files hold, whatever they are called: by partition, the SHA-256 and rows of each.
func contents(t *testing.T, ws, name string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, f := range servedFiles(t, ws, name) {
		out[f.Partition] += fmt.Sprintf("%s with %d rows; ", f.SHA256, f.Rows)
	}
	return out
}

func servedFiles(t *testing.T, ws, name string, args ...string) []table.Served {
	t.Helper()
	var files []table.Served
	out := hindcast(t, append([]string{"table", "files", name, "--json", "--workspace", ws}, args...)...).ok(t).out
	if err := json.Unmarshal([]byte(out), &files); err != nil {
		t.Fatalf("%v in:\n%s", err, out)
	}
	if len(files) == 0 {
		t.Fatalf("%s has no files", name)
	}
	return files
}

// sameContents asks for equal partitions with equal files.
func sameContents(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	all := maps.Clone(want)
	maps.Copy(all, got)
	for _, p := range slices.Sorted(maps.Keys(all)) {
		if got[p] != want[p] {
			t.Errorf("%s, %s: %q, expected %q", what, p, got[p], want[p])
		}
	}
}

// versions lists the versions of a table's dataset, newest first.
func versions(t *testing.T, ws, name string) []table.Commit {
	t.Helper()
	var log []table.Commit
	out := hindcast(t, "table", "log", name, "--json", "--workspace", ws).ok(t).out
	if err := json.Unmarshal([]byte(out), &log); err != nil {
		t.Fatalf("%v in:\n%s", err, out)
	}
	return log
}

// fates tells what became of the events of a window, by table, origin and topic partition. How many rows beside the
// window are read, and so found to be outside it, depends on how the input is divided.
func fates(accounts []check.Account) map[string]string {
	out := map[string]string{}
	for _, a := range accounts {
		out[fmt.Sprintf("%s, %s, partition %d", a.Table, a.Origin, a.Partition)] = fmt.Sprintf(
			"%d applied, %d filtered, %d duplicate, %d conflict, %d stale, %d dead", a.Applied, a.Filtered, a.Duplicate, a.Conflict, a.Stale, a.Dead)
	}
	return out
}

// TestSameInputSameBytes divides the same work in other ways: between workers, into shards, into laps, between memory and disk.
func TestSameInputSameBytes(t *testing.T) {
	t.Parallel()
	window := []string{"--from", demoFrom, "--to", demoTo}
	for _, c := range []struct {
		job    string
		args   []string
		tables []string
		ways   []string // the first is compared with
		full   []string // further ways, of the full count
	}{{
		job: demoJob, args: window, tables: []string{demoTable},
		ways: []string{
			"--workers 1",
			"--workers 7 --shard-rows 1",
			"--workers 2 --shard-rows 20000 --lap-rows 10000",
		},
		full: []string{
			"--workers 7",
			"--workers 7 --shard-rows 40000 --lap-rows 1",
			"--workers 1 --shard-rows 1 --lap-rows 4097",
			"--workers 3 --no-prune --shard-rows 200000 --lap-rows 30000",
			"--workers process:3 --shard-rows 20000 --lap-rows 10000",
			"little memory --workers 2",
			"little memory --workers 2 --shard-rows 20000 --lap-rows 10000",
		},
	}, {
		job: "account-balance", tables: []string{"account-balance", "ledger-entry"},
		ways: []string{
			"--workers 1",
			"--workers 7 --shard-rows 150000 --lap-rows 50000",
		},
		full: []string{
			"--workers 7",
			"--workers 7 --shard-rows 1",
			"--workers 7 --shard-rows 60000 --lap-rows 10000",
			"--workers 2 --no-prune --lap-rows 100000",
			"little memory --workers 3 --lap-rows 40000",
		},
	}} {
		ways := c.ways
		if testenv.Full() {
			builtFunctions(t)
			ways = append(ways, c.full...)
		} else if c.job != demoJob {
			continue // each reads the whole log
		}
		t.Run(c.job, func(t *testing.T) {
			t.Parallel()
			type result struct {
				files  map[string]map[string]string
				fates  map[string]string
				digest string
			}
			var first result
			for i, way := range ways {
				ws := filepath.Join(t.TempDir(), "ws")
				opts := local.Options{Jobs: jobs.All()}
				flags, little := strings.CutPrefix(way, "little memory ")
				if little {
					opts.WorkerMemory = 300_000 // of which a half is for what the worker must remember
				}
				args := append([]string{"run", c.job, "--promote", "--json", "--workspace", ws}, append(c.args, strings.Fields(flags)...)...)
				s := hindcastUnder(t, opts, args...).ok(t).status(t)
				got := result{map[string]map[string]string{}, fates(s.Account), versions(t, ws, c.tables[0])[0].Provenance.Content}
				for _, name := range c.tables {
					got.files[name] = contents(t, ws, name)
					checkSums(t, servedFiles(t, ws, name))
				}
				if laps := checkpoints(t, ws, s.Run); strings.Contains(way, "--lap-rows") && laps < s.Shards {
					t.Errorf("%s: %d laps ended at a checkpoint, of %d shards", way, laps, s.Shards)
				}
				if i == 0 {
					first = got
					continue
				}
				for _, name := range c.tables {
					sameContents(t, name+" with "+way, got.files[name], first.files[name])
				}
				if got.digest != first.digest {
					t.Errorf("%s: the digest of all content is %s, expected %s", way, got.digest, first.digest)
				}
				if !maps.Equal(got.fates, first.fates) {
					t.Errorf("%s: the account is\n%v, expected\n%v", way, got.fates, first.fates)
				}
			}
		})
	}
}

// checkSums holds files against what is listed of them.
func checkSums(t *testing.T, files []table.Served) {
	t.Helper()
	for _, f := range files {
		b, err := os.ReadFile(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != f.SHA256 || int64(len(b)) != int64(f.Bytes) {
			t.Errorf("%s is not what is listed: %x, %d bytes", f.Path, sum, len(b))
		}
	}
}

// checkpoints counts the laps that did not finish their shard.
func checkpoints(t *testing.T, ws, run string) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(ws, "runs", run, "checkpoints", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

// TestChangedWindowsShareTheirDays computes overlapping windows: a day is the same file, whichever window it came from.
func TestChangedWindowsShareTheirDays(t *testing.T) {
	t.Parallel()
	days := map[string]string{}
	for i, w := range [][2]string{{"2011-11-01", "2011-11-22"}, {"2011-11-08", "2011-11-15"}, {"2011-11-14", "2011-11-30"}} {
		ws := filepath.Join(t.TempDir(), strconv.Itoa(i))
		hindcast(t, "run", demoJob, "--promote", "--workspace", ws, "--from", w[0], "--to", w[1]).ok(t)
		for day, files := range contents(t, ws, demoTable) {
			if was, ok := days[day]; ok && was != files {
				t.Errorf("%s: %s, with another window %s", day, files, was)
			}
			days[day] = files
		}
	}
}
