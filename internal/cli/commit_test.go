package cli

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hindcast/internal/blob"
	"hindcast/internal/job"
	"hindcast/internal/local"
	"hindcast/internal/record"
)

// takings are the rows of a partition of the table sums, in a Parquet file: of each shop its visits and their amount.
func takings(t *testing.T, rows ...Takings) string {
	t.Helper()
	schema := record.Schema{{Name: "shop", Kind: record.String}, {Name: "visits", Kind: record.Int64}, {Name: "amount", Kind: record.Int64}}
	b := &record.Batch{Len: len(rows), Columns: []record.Column{{Kind: record.String}, {Kind: record.Int64}, {Kind: record.Int64}}}
	for _, r := range rows {
		b.Columns[0].Strings.Append([]byte(r.Shop))
		b.Columns[1].Int64s = append(b.Columns[1].Int64s, r.Visits)
		b.Columns[2].Int64s = append(b.Columns[2].Int64s, r.Amount)
	}
	return fileOf(t, schema, b)
}

func fileOf(t *testing.T, schema record.Schema, b *record.Batch) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rows.parquet")
	if err := os.WriteFile(file, parquetOf(t, schema, b), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// commit has a live writer commit to the table sums.
func (a arena) commit(t *testing.T, name string, parent int, partitions ...string) result {
	t.Helper()
	return a.do(t, append([]string{"table", "commit", "sums", "--name", name, "--parent", fmt.Sprint(parent), "--code", "v1"}, partitions...)...)
}

// day gives the rows of a table that are served of a day, without the day.
func (a arena) day(t *testing.T, name, day string) string {
	t.Helper()
	var out []string
	for _, r := range tableRows(t, a.list, a.ws, name)[1:] {
		if r[0] == day {
			out = append(out, strings.Join(r[1:], ","))
		}
	}
	return strings.Join(out, " ")
}

func (a arena) wantHistory(t *testing.T, want ...string) {
	t.Helper()
	if got := a.history(t); !slices.Equal(got, want) {
		t.Errorf("the history is %v, expected %v", got, want)
	}
}

// TestLiveCommitsToOtherDays come between a run's plan and its promotion, after it, and before its rollback: they stay as they are.
func TestLiveCommitsToOtherDays(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	days := []string{"2024-05-01", "2024-05-02", "2024-05-03", "2024-05-04"}
	was := map[string]string{}
	for _, d := range days {
		was[d] = a.day(t, "sums", d) + "|" + a.day(t, "seen", d)
	}
	check := func(when, third, fourth string, corrected bool) {
		t.Helper()
		if got := a.day(t, "sums", "2024-05-03"); got != third {
			t.Errorf("%s, 2024-05-03 has %q, expected %q", when, got, third)
		}
		if got := a.day(t, "sums", "2024-05-04"); got != fourth {
			t.Errorf("%s, 2024-05-04 has %q, expected %q", when, got, fourth)
		}
		for _, d := range days[:2] {
			if got := a.day(t, "sums", d) + "|" + a.day(t, "seen", d); (got == was[d]) == (corrected && d == "2024-05-02") {
				t.Errorf("%s, %s has %q, before %q", when, d, got, was[d])
			}
		}
		if got := a.day(t, "seen", "2024-05-03"); !strings.HasSuffix(was["2024-05-03"], "|"+got) {
			t.Errorf("%s, the other table's 2024-05-03 has %q", when, got)
		}
	}
	live := []Takings{{"kiosk", 1, 5}, {"shop-0", 9, 99}}
	a.commit(t, "live-1", 1, "day=2024-05-03:"+takings(t, live...)).ok(t).has(t, "live-1: commit made version 2; version 2 is served")
	check("after a commit", "kiosk,1,5 shop-0,9,99", "", false)
	a.do(t, "promote", a.early).ok(t).has(t, "promote made version 3")
	check("after the promotion", "kiosk,1,5 shop-0,9,99", "", true)
	a.commit(t, "live-2", 3, "day=2024-05-04:"+takings(t, Takings{"kiosk", 2, 7}), "day=2024-05-03:").ok(t).has(t, "version 4 is served")
	check("after a second commit", "", "kiosk,2,7", true)
	a.do(t, "rollback", a.early).ok(t).has(t, "rollback made version 5")
	check("after the rollback", "", "kiosk,2,7", false)
	a.do(t, "promote", a.early).ok(t)
	check("forward again", "", "kiosk,2,7", true)
	a.wantHistory(t, "promote", "commit", "promote", "commit", "rollback", "promote")
	// Old versions are as they were.
	if rows := cells(t, a.do(t, "table", "cat", "sums", "--version", "2").ok(t).out); !slices.ContainsFunc(rows, func(r []string) bool { return r[0] == "2024-05-03" && r[1] == "kiosk" }) {
		t.Errorf("version 2 has the rows %q", rows)
	}
}

func TestALiveCommitInTheWindowRefusesPromotion(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	a.commit(t, "live-1", 1, "day=2024-05-02:"+takings(t, Takings{"kiosk", 1, 5}), "day=2024-05-03:").ok(t)
	served := fileSums(t, a.list, a.ws, "seen", "sums")
	for range 2 {
		r := a.do(t, "promote", a.early).exits(t, exitConflict)
		r.has(t, "the base moved", "sums day=2024-05-02 was written by live-1 in generation 2", "compute it again on what is served now")
		for _, other := range []string{"2024-05-01", "2024-05-03", "seen"} {
			if strings.Contains(r.err, other) {
				t.Errorf("it names %s: %s", other, r.err)
			}
		}
	}
	a.wantHistory(t, "promote", "commit")
	if got := fileSums(t, a.list, a.ws, "seen", "sums"); !maps.Equal(got, served) {
		t.Errorf("other files are served: %v", got)
	}
	if got := a.phase(t, a.early); got != local.Proven {
		t.Errorf("the run is %s", got)
	}
	wantANewRun(t, a, a.early, "day=2024-05-02 was written by live-1")
	// A run that is told to promote ends the same, and so does going on with it. A new one, on what is served now, does it.
	r := hookedBetween(t, a, "live-2", 2, "day=2024-05-01:")
	r.exits(t, exitConflict).has(t, "sums day=2024-05-01 was written by live-2 in generation 3")
	wantANewRun(t, a, runOf(t, r), "day=2024-05-01 was written by live-2")
	a.do(t, "resume", runOf(t, r)).exits(t, exitConflict).has(t, "sums day=2024-05-01 was written by live-2")
	a.do(t, "abort", a.early).ok(t)
	a.do(t, "run", "visits", "--from", "2024-05-01", "--to", "2024-05-03", "--promote").ok(t)
	a.wantHistory(t, "promote", "commit", "commit", "promote")
}

// wantANewRun wants status to say why a proven run can be promoted no more, and to recommend a new one instead of what must fail.
func wantANewRun(t *testing.T, a arena, run, why string) {
	t.Helper()
	r := a.do(t, "status", run).ok(t)
	r.has(t, "it can be promoted no more", why, "next: hindcast run visits --from ")
	if strings.Contains(r.out, "hindcast promote") {
		t.Errorf("it recommends what must fail:\n%s", r.out)
	}
}

// hookedBetween runs and promotes the first two days, and has a live writer commit after the plan is made.
func hookedBetween(t *testing.T, a arena, name string, parent int, partition string) result {
	t.Helper()
	return hooked(t, a.list, func(op blob.Op) error {
		if op.Done && path.Base(op.Key) == "plan.json" {
			a.commit(t, name, parent, partition).ok(t)
		}
		return nil
	}, "run", "visits", "--from", "2024-05-01", "--to", "2024-05-03", "--promote", "--workspace", a.ws)
}

func TestRollbackKeepsWhatOthersDidSince(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	a.do(t, "promote", a.early).ok(t)
	a.commit(t, "live-1", 2, "day=2024-05-02:"+takings(t, Takings{"kiosk", 1, 5})).ok(t)
	r := a.do(t, "rollback", a.early).exits(t, exitConflict)
	r.has(t, "it would be lost what was done since", "sums day=2024-05-02 was written by live-1 in generation 3", "correct them with a new run")
	if strings.Contains(r.err, "2024-05-01") {
		t.Errorf("it names a day that did not change: %s", r.err)
	}
	if got := a.day(t, "sums", "2024-05-02"); got != "kiosk,1,5" {
		t.Errorf("the day has %q", got)
	}
	a.wantHistory(t, "promote", "promote", "commit")
}

func TestACommitIsMadeOnce(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	rows := takings(t, Takings{"kiosk", 1, 5})
	other := takings(t, Takings{"kiosk", 1, 6})
	a.commit(t, "live-1", 1, "day=2024-05-03:"+rows).ok(t)
	var first, s swapped
	again := func(parent int, args ...string) result {
		return a.do(t, append([]string{"table", "commit", "sums", "day=2024-05-03:" + rows, "--name", "live-1", "--parent", fmt.Sprint(parent), "--code", "v1"}, args...)...)
	}
	decode(t, again(1, "--json").ok(t), &first)
	if first != (swapped{Run: "live-1", Op: "commit", Version: 2, Repeated: true, Served: 2}) {
		t.Errorf("%+v", first)
	}
	// Also for one who read another version before he came again, and after others moved on.
	again(2).ok(t).has(t, "commit made version 2 already; version 2 is served")
	a.commit(t, "live-2", 2, "day=2024-05-03:"+other).ok(t).has(t, "version 3")
	decode(t, again(1, "--json").ok(t), &s)
	if first.Served = 3; s != first {
		t.Errorf("%+v, expected %+v", s, first)
	}
	if got := a.day(t, "sums", "2024-05-03"); got != "kiosk,1,6" {
		t.Errorf("the day has %q", got)
	}
	for what, partition := range map[string]string{"other rows": "day=2024-05-03:" + other, "none": "day=2024-05-03:", "another day": "day=2024-05-04:" + rows} {
		a.commit(t, "live-1", 3, partition).exits(t, exitConflict).has(t, "the name was used for other", "take a new name")
		if got := a.history(t); len(got) != 3 {
			t.Errorf("%s: the history is %v", what, got)
		}
	}
	// Who computed on what is no longer served is refused, under any name.
	a.commit(t, "live-3", 1, "day=2024-05-03:"+rows).exits(t, exitConflict).has(t, "sums day=2024-05-03 was written by live-2 in generation 3")
	a.wantHistory(t, "promote", "commit", "commit")
}

// TestCommitsThatDoNotFit are refused, and leave the dataset as it was.
func TestCommitsThatDoNotFit(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	rows := takings(t, Takings{"kiosk", 1, 5})
	ints := []record.Column{{Kind: record.Int64, Int64s: []int64{1}}, {Kind: record.Int64, Int64s: []int64{1}}, {Kind: record.Int64, Int64s: []int64{1}}}
	schema := func(kind record.Kind) record.Schema {
		return record.Schema{{Name: "shop", Kind: kind}, {Name: "visits", Kind: record.Int64}, {Name: "amount", Kind: record.Int64, Nullable: true}}
	}
	withNull := []record.Column{{Kind: record.String}, ints[0], {Kind: record.Int64, Int64s: []int64{0}, Nulls: record.Bitmap{1}}}
	withNull[0].Strings.Append([]byte("kiosk"))
	withDay := slices.Clone(withNull)
	withDay[2] = ints[0]
	dated := append(schema(record.String), record.Field{Name: "day", Kind: record.Date})
	dayFile := func(day int64) string {
		return fileOf(t, dated, &record.Batch{Len: 1, Columns: append(slices.Clone(withDay), record.Column{Kind: record.Date, Int64s: []int64{day}})})
	}
	const may3 = 19_846 // days since 1970
	text := filepath.Join(t.TempDir(), "rows.csv")
	if err := os.WriteFile(text, []byte("shop,visits,amount\nkiosk,1,5\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	standard := []string{"--name", "live-1", "--parent", "1", "--code", "v1"}
	for _, c := range []struct {
		name string
		args []string
		says []string
	}{
		{"another kind", append(standard, "sums", "day=2024-05-03:"+fileOf(t, schema(record.Int64), &record.Batch{Len: 1, Columns: ints})), []string{"rows.parquet", "column shop holds int64, the table's string"}},
		{"a column less", append(standard, "sums", "day=2024-05-03:"+fileOf(t, schema(record.String)[:2], nil)), []string{"rows.parquet", `column "amount"`, "no such column"}},
		{"a null", append(standard, "sums", "day=2024-05-03:"+fileOf(t, schema(record.String), &record.Batch{Len: 1, Columns: withNull})), []string{"column amount is null in a row"}},
		{"not sorted", append(standard, "sums", "day=2024-05-03:"+takings(t, Takings{"b", 1, 1}, Takings{"a", 1, 1})), []string{"not sorted by key", `["b"] comes before ["a"]`}},
		{"of another day", append(standard, "sums", "day=2024-05-03:"+dayFile(may3+1)), []string{"rows.parquet", `a row whose day is "2024-05-04"`, "not of day=2024-05-03"}},
		{"no Parquet", append(standard, "sums", "day=2024-05-03:"+text), []string{"rows.csv", "not Parquet"}},
		{"no file", append(standard, "sums", "day=2024-05-03:/nonexistent"), []string{"/nonexistent", "no such file"}},
		{"no such table", append(standard, "sum", "day=2024-05-03:"+rows), []string{`no job writes a table "sum"`, "seen, sums"}},
		{"no such day", append(standard, "sums", "day=2024-05-32:"+rows), []string{`"day=2024-05-32" does not name a partition of a table cut by day`}},
		{"no day", append(standard, "sums", "hour=2024-05-03T01+0000:"+rows), []string{"does not name a partition of a table cut by day"}},
		{"a day twice", append(standard, "sums", "day=2024-05-03:", "day=2024-05-03:"+rows), []string{"day=2024-05-03 is given twice"}},
		{"no partition", append(standard, "sums"), []string{"at least one PARTITION:FILE"}},
		{"no file named", append(standard, "sums", "day=2024-05-03"), []string{"is not PARTITION:FILE"}},
		{"a version to come", []string{"sums", "day=2024-05-03:" + rows, "--name", "live-1", "--parent", "2", "--code", "v1"}, []string{"there is no version 2", "versions 1 to 1"}},
		{"no parent", []string{"sums", "day=2024-05-03:" + rows, "--name", "live-1", "--code", "v1"}, []string{"--name, --parent", "--code"}},
		{"no name", []string{"sums", "day=2024-05-03:" + rows, "--parent", "1", "--code", "v1"}, []string{"--name, --parent", "--code"}},
		{"no code", []string{"sums", "day=2024-05-03:" + rows, "--name", "live-1", "--parent", "1"}, []string{"--name, --parent", "--code"}},
		{"a name that cannot be", []string{"sums", "day=2024-05-03:" + rows, "--name", "live/1", "--parent", "1", "--code", "v1"}, []string{`"live/1" cannot name a live commit`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a.do(t, append([]string{"table", "commit"}, c.args...)...).exits(t, exitUsage).has(t, c.says...)
			a.wantHistory(t, "promote")
		})
	}
	// The name was not used up, and what names its own day, or says that there may be nulls and has none, fits.
	a.commit(t, "live-1", 1, "day=2024-05-03:"+dayFile(may3)).ok(t)
	a.commit(t, "live-2", 2, "day=2024-05-04:"+fileOf(t, schema(record.String), &record.Batch{Len: 1, Columns: withDay})).ok(t)
	if got := a.day(t, "sums", "2024-05-03") + " " + a.day(t, "sums", "2024-05-04"); got != "kiosk,1,1 kiosk,1,1" {
		t.Errorf("the days have %q", got)
	}
}

// TestCommitsToBuckets refuses rows whose keys belong to another bucket, where nobody would find them.
func TestCommitsToBuckets(t *testing.T) {
	t.Parallel()
	l := newSmallLog(t)
	l.segment(threeVisits(0, 0, 12)...)
	a := arena{list: []job.Job{l.job(smallJob{Tables: map[string]string{"sums": "bucket shop 4"}})}, ws: filepath.Join(t.TempDir(), "ws")}
	a.do(t, "run", "visits", "--promote").ok(t)
	rows, fits := takings(t, Takings{"shop-0", 1, 5}), 0
	for n := range 4 {
		r := a.commit(t, fmt.Sprintf("live-%d", n), 1, fmt.Sprintf("bucket=%04d:%s", n, rows))
		if r.code == 0 {
			fits++
		} else {
			r.exits(t, exitUsage).has(t, `a row with shop "shop-0" belongs to bucket=`)
		}
	}
	if got := tableRows(t, a.list, a.ws, "sums"); fits != 1 || len(got) != 4 && len(got) != 3 && len(got) != 2 {
		t.Errorf("%d buckets took the row; served are %q", fits, got)
	}
	a.commit(t, "live-9", 2, "bucket=0004:").exits(t, exitUsage).has(t, `"bucket=0004" does not name a partition`)
}
