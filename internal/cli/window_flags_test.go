package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hindcast/internal/job"
)

// threeVisitDays is a log of one topic partition with an event every three hours of 2024-05-01 to 03, a segment a day.
func threeVisitDays(t *testing.T) *smallLog {
	t.Helper()
	l := newSmallLog(t)
	recs := visits(t, 0, 3*time.Hour, 24)
	for day := range 3 {
		l.segment(recs[8*day : 8*day+8]...)
	}
	return l
}

// A window that cannot be meant is refused before anything is begun, with what to write instead.
func TestWindowsThatAreRefused(t *testing.T) {
	l := threeVisitDays(t)
	days := []job.Job{l.job(smallJob{Tables: map[string]string{"events": "day America/New_York"}})}
	hours := []job.Job{l.job(smallJob{Tables: map[string]string{"events": "hour Asia/Kolkata"}})}
	both := []job.Job{l.job(smallJob{Tables: map[string]string{"events": "day America/New_York", "other": "day Asia/Kolkata"}})}
	buckets := []job.Job{l.job(smallJob{Tables: map[string]string{"events": "day UTC", "shops": "bucket id 2"}})}
	for _, c := range []struct {
		args string
		list []job.Job
		says string
	}{
		{"", days, "give --from and --to, or --last PT6H"},
		{"--from 2024-05-01", days, "give both, or --last PT6H"},
		{"--from 2024-05-01T06:00 --to 2024-05-03", days, "write 2024-05-01T06:00[America/New_York], or an instant with its offset, as 2024-05-01T06:00:00Z"},
		{"--from 2024-05-02 --to 2024-05-03T06:00:00", days, `"2024-05-03T06:00:00" does not say in which zone`},
		{"--from 2024-05-02 --to 2024-05-01", days, "swap --from and --to"},
		{"--from 2024-05-02 --to 2024-05-02", days, "for a single day, give the day after it"},
		{"--from 2024-05-02 --to 2024-05-03 --last 1d", days, "give one or the other"},
		{"--from 2024-05-01T00:00:00Z --to 2024-05-03", days, "give --align expand for --from 2024-04-30T04:00:00Z --to 2024-05-03T04:00:00Z"},
		{"--from 2024-05-02 --to 2024-05-03T03:59:59.999Z", days, "cuts a partition of events, by day in America/New_York"},
		{"--from 2024-05-02T06:00:00Z --to 2024-05-02T09:30:00Z", hours, "give --align expand for --from 2024-05-02T05:30:00Z --to 2024-05-02T09:30:00Z"},
		{"--from 2024-05-02 --to 2024-05-03", both, "write 2024-05-02[America/New_York], or give --zone"},
		{"--from 2024-05-02 --to 2024-05-03 --as-of 2024-05-02T12:00:00Z", days, "end it earlier, or give a later --as-of"},
		{"--from 2999-01-01 --to 2999-01-02", days, "its last events have not happened yet: end it earlier"},
		{"--last 1d --as-of 2999-01-01", days, "is in the future"},
		{"--last 6", hours, "--last"},
		{"--last PT6H --as-of 2024-05-03T12:00:00Z", hours, "the last partition that is complete ends at 2024-05-03T11:30:00Z"},
		{"--from 2024-05-02 --to 2024-05-03", buckets, "leave out --from, --to, --last, --as-of, --zone and --align"},
		{"--from 2024-05-02[Europe/Londn] --to 2024-05-03", days, `unknown zone "Europe/Londn"`},
	} {
		for _, verb := range []string{"plan", "run"} {
			ws := filepath.Join(t.TempDir(), "ws")
			r := hindcastWith(t, c.list, append([]string{verb, "visits", "--workspace", ws}, strings.Fields(c.args)...)...)
			if r.code != 2 {
				t.Errorf("%s %s: exit code %d\n%s%s", verb, c.args, r.code, r.out, r.err)
			}
			contains(t, verb+" "+c.args, r.err, c.says)
			if _, err := os.Stat(filepath.Join(ws, "runs")); err == nil {
				t.Errorf("%s %s: a run was begun", verb, c.args)
			}
		}
	}
}

// However a window is written, it is echoed as instants, and the partitions that it means are computed, whole.
func TestWindowsAsTheyAreWritten(t *testing.T) {
	l := threeVisitDays(t)
	for _, c := range []struct {
		table, args, window, note string
		events                    string
	}{
		{"day UTC", "--from 2024-05-02 --to 2024-05-03", "2024-05-02T00:00:00Z/2024-05-03T00:00:00Z", "its last day is 2024-05-02", "08 09 10 11 12 13 14 15"},
		{"day UTC", "--from 2024-05-02[UTC] --to 2024-05-03T00:00:00+00:00", "2024-05-02T00:00:00Z/2024-05-03T00:00:00Z", "", "08 09 10 11 12 13 14 15"},
		{"day Asia/Kolkata", "--from 2024-05-02 --to 2024-05-03", "2024-05-01T18:30:00Z/2024-05-02T18:30:00Z", "", "07 08 09 10 11 12 13 14"},
		{
			"day UTC", "--from 2024-05-02T01:00:00Z --to 2024-05-02T23:00:00Z --align expand", "2024-05-02T00:00:00Z/2024-05-03T00:00:00Z",
			"the window was widened from 2024-05-02T01:00:00Z/2024-05-02T23:00:00Z to 2024-05-02T00:00:00Z/2024-05-03T00:00:00Z, so that it cuts no partition of events", "08 09 10 11 12 13 14 15",
		},
		{"hour Asia/Kolkata", "--from 2024-05-02T03:15:00Z --to 2024-05-02T03:45:00Z --align expand", "2024-05-02T02:30:00Z/2024-05-02T04:30:00Z", "was widened", "09"},
		{"hour UTC", "--last PT6H --as-of 2024-05-02T12:00:00Z", "2024-05-02T06:00:00Z/2024-05-02T12:00:00Z", "", "10 11"},
		{"hour UTC", "--last 6h --as-of 2024-05-02T12:30:00Z --align expand", "", "ends after", ""},
		{"day UTC", "--last 1d --as-of 2024-05-03", "2024-05-02T00:00:00Z/2024-05-03T00:00:00Z", "", "08 09 10 11 12 13 14 15"},
		{"hour America/New_York", "--from 2024-05-02T02:00[America/New_York] --to 2024-05-02T05:00[America/New_York]", "2024-05-02T06:00:00Z/2024-05-02T09:00:00Z", "", "10"},
		{"hour UTC", "--from 2024-05-02T03:00:00Z --to 2024-05-02T04:00:00Z --as-of 2024-05-02T04:00:00Z", "2024-05-02T03:00:00Z/2024-05-02T04:00:00Z", "", "09"},
	} {
		list := []job.Job{l.job(smallJob{Tables: map[string]string{"events": c.table}})}
		ws := filepath.Join(t.TempDir(), "ws")
		r := hindcastWith(t, list, append([]string{"run", "visits", "--promote", "--workspace", ws}, strings.Fields(c.args)...)...)
		if c.window == "" {
			contains(t, c.args, r.exits(t, 2).err, c.note)
			continue
		}
		r.ok(t)
		contains(t, c.args, r.err, "window   "+c.window, c.note)
		contains(t, c.args, r.out, c.window)
		if got, want := ids(t, list, ws), "p0-"+strings.ReplaceAll(c.events, " ", " p0-"); got != want {
			t.Errorf("%s %s: %s, expected %s", c.table, c.args, got, want)
		}
	}
}

// Where history is deleted, a window is refused that might have had events there, with what there is; a later one is not.
func TestWindowsWhereHistoryIsDeleted(t *testing.T) {
	recs := visits(t, 0, 3*time.Hour, 24)
	for i := range recs {
		recs[i].Offset += 100
	}
	l := newSmallLog(t)
	l.segment(recs[:8]...)
	l.segment(recs[8:16]...)
	l.tail(recs[16:]...)
	list := []job.Job{l.job(smallJob{Tables: map[string]string{"events": "hour UTC"}})}
	window := func(from, to string, more ...string) result {
		args := append([]string{"run", "visits", "--from", from, "--to", to, "--promote", "--workspace", filepath.Join(t.TempDir(), "ws")}, more...)
		return hindcastWith(t, list, args...)
	}
	for _, from := range []string{"2024-04-30T00:00:00Z", "2024-05-01T00:00:00Z", "2024-05-01T01:00:00Z"} {
		r := window(from, "2024-05-01T12:00:00Z").exits(t, 3)
		contains(t, from, r.err, "partition 0: history begins at offset 100, record time 2024-05-01T00:00:01Z", "visits+0+0000000100", "0-100 before it are deleted or were never exported",
			"accept them by name: 0:0-100")
	}
	// An hour before it began, by more than clocks may differ.
	window("2024-05-01T02:00:00Z", "2024-05-01T12:00:00Z").ok(t)
	window("2024-04-30T00:00:00Z", "2024-05-01T12:00:00Z", "--accept-gap", "0:0-100").ok(t)

	// Where nothing was exported, the brokers' log start counts.
	tail := newSmallLog(t)
	tail.tail(recs...)
	if err := os.MkdirAll(filepath.Join(tail.dir, "topics", smallTopic), 0o755); err != nil {
		t.Fatal(err)
	}
	list = []job.Job{tail.job(smallJob{Tables: map[string]string{"events": "hour UTC"}})}
	contains(t, "tail alone", window("2024-05-02T00:00:00Z", "2024-05-03T00:00:00Z").exits(t, 3).err, "the brokers begin at offset 100")

	// A table cut by key is of the whole log.
	list = []job.Job{l.job(smallJob{Tables: map[string]string{"events": "bucket id 2"}})}
	contains(t, "the whole log", hindcastWith(t, list, "run", "visits", "--workspace", filepath.Join(t.TempDir(), "ws")).exits(t, 3).err, "history begins at offset 100")
}

// A day without events is fine where it had none. Where it had some, a missing segment does not make it so.
func TestEmptyDays(t *testing.T) {
	build := func() *smallLog {
		l := newSmallLog(t)
		recs := visits(t, 0, 3*time.Hour, 24)
		for i := range recs[16:] { // 05-03 is 05-04
			recs[16+i].At = instant(t, recs[16+i].At).AddDate(0, 0, 1).Format(time.RFC3339)
		}
		l.segment(recs[:8]...)
		l.segment(recs[8:16]...)
		l.segment(recs[16:]...)
		return l
	}
	tables := map[string]string{"events": "day UTC"}
	// The two logs are of one job, so that the second sees what the first served.
	ws := filepath.Join(t.TempDir(), "ws")
	whole := build()
	list := []job.Job{whole.job(smallJob{Lateness: "2h", Tables: tables})}
	all := hindcastWith(t, list, "run", "visits", "--from", "2024-05-01", "--to", "2024-05-05", "--promote", "--workspace", ws).ok(t)
	contains(t, "all days", all.out, "promoted, version 1")
	served := ids(t, list, ws)

	r := hindcastWith(t, list, "run", "visits", "--from", "2024-05-03", "--to", "2024-05-04", "--promote", "--workspace", ws).ok(t)
	contains(t, "a day without trade", r.out, "No partition that had rows is empty now.", "promoted, version 2")

	for name, c := range map[string]struct {
		missing int64 // the first offset of the segment
		day, to string
		args    []string
		tail    bool
		code    int
		says    []string
	}{
		"between others":  {8, "2024-05-02", "2024-05-03", nil, false, 3, []string{"no record with the offsets 8-16, between the segments", "visits+0+0000000000", "visits+0+0000000016"}},
		"accepted":        {8, "2024-05-02", "2024-05-03", []string{"--accept-gap", "0:8-16"}, false, 4, []string{"1 partitions that had rows are empty now", "events day=2024-05-02 has 8 rows in the base"}},
		"the last":        {16, "2024-05-04", "2024-05-05", nil, false, 4, []string{"events day=2024-05-04 has 8 rows in the base", "the job has no tail"}},
		"before the tail": {16, "2024-05-04", "2024-05-05", nil, true, 3, []string{"the segments end at offset 16", "the brokers begin at 24"}},
		"the first":       {0, "2024-05-01", "2024-05-02", nil, false, 3, []string{"history begins at offset 8"}},
	} {
		l := build()
		if err := os.Remove(l.segmentFile(0, c.missing)); err != nil {
			t.Fatal(err)
		}
		if c.tail {
			l.tail(inOrder(0, 24, rec{ID: "tail", At: "2024-05-05T00:00:00Z", Shop: "x"})...)
		}
		list := []job.Job{l.job(smallJob{Lateness: "2h", Tables: tables})}
		r := hindcastWith(t, list, append([]string{"run", "visits", "--from", c.day, "--to", c.to, "--promote", "--workspace", ws}, c.args...)...)
		contains(t, name, r.exits(t, c.code).out+r.err, c.says...)
		if got := ids(t, list, ws); got != served {
			t.Errorf("%s: served is %s", name, got)
		}
	}
}

// A window within the tail alone needs no segment but for what clocks may differ by.
func TestWindowWithinTheTail(t *testing.T) {
	recs := visits(t, 0, 3*time.Hour, 24)
	l := newSmallLog(t)
	l.segment(recs[:8]...)
	l.tail(recs[8:]...)
	list := []job.Job{l.job(smallJob{Tables: map[string]string{"events": "day UTC"}})}
	ws := filepath.Join(t.TempDir(), "ws")
	s := hindcastWith(t, list, "run", "visits", "--from", "2024-05-03", "--to", "2024-05-04", "--promote", "--json", "--workspace", ws).ok(t).status(t)
	if got := ids(t, list, ws); got != "p0-16 p0-17 p0-18 p0-19 p0-20 p0-21 p0-22 p0-23" {
		t.Errorf("the day has %s", got)
	}
	if sum := sumOf(s.Account, "events"); sum.Offsets != 16 || sum.Applied != 8 || sum.Total()+sum.Skipped != 16 {
		t.Errorf("%+v", sum)
	}
}
