package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hindcast/internal/job"
	"hindcast/internal/testenv"
)

// An event of the future is no event of a window, and keeps none from being right; one that is in the window is counted.
func TestEventsOfTheFuture(t *testing.T) {
	future := []string{"2024-05-04T12:00:00Z", "2199-01-01T00:00:00Z", "9999-12-29T23:59:59.999Z"}
	for _, where := range []string{"segment", "tail"} {
		for _, at := range future {
			l := newSmallLog(t)
			recs := visits(t, 0, 6*time.Hour, 16) // to 05-04T18:00
			recs[5].At, recs[5].Time = at, recs[5].recordTime(t).Format(time.RFC3339Nano)
			recs[13].At, recs[13].Time = at, recs[13].recordTime(t).Format(time.RFC3339Nano)
			if where == "segment" {
				l.segment(recs...)
			} else {
				l.segment(recs[:3]...)
				l.tail(recs[3:]...)
			}
			tables := map[string]string{"events": "day UTC"}
			list := []job.Job{l.job(smallJob{Tables: tables})}
			ws := filepath.Join(t.TempDir(), "ws")
			hindcastWith(t, list, "run", "visits", "--from", "2024-05-02", "--to", "2024-05-03", "--promote", "--workspace", ws).ok(t)
			if got := ids(t, list, ws); got != "p0-04 p0-06 p0-07" {
				t.Errorf("%s, %s: the day has %s", where, at, got)
			}
		}
	}

	// Half an hour ahead is within what is declared, two days are not.
	for _, c := range []struct {
		ahead string
		tells string
	}{{"3d", ""}, {"1h", "source.event.ahead: 3d would do"}} {
		l := newSmallLog(t)
		recs := visits(t, 0, 6*time.Hour, 16)
		recs[1].At, recs[1].Time = "2024-05-03T11:00:00Z", recs[1].recordTime(t).Format(time.RFC3339Nano)
		l.segment(recs...)
		list := []job.Job{l.job(smallJob{Ahead: c.ahead, Tables: map[string]string{"events": "day UTC"}})}
		ws := filepath.Join(t.TempDir(), "ws")
		r := hindcastWith(t, list, "run", "visits", "--from", "2024-05-03", "--to", "2024-05-04", "--promote", "--workspace", ws)
		if c.tells != "" {
			contains(t, "ahead: "+c.ahead, r.exits(t, 3).err, c.tells, "visits+0+0000000000")
			continue
		}
		r.ok(t)
		if got := ids(t, list, ws); got != "p0-01 p0-08 p0-09 p0-10 p0-11" {
			t.Errorf("the day has %s", got)
		}
	}
}

// A run over the whole log has the months of stray events, too.
func TestStrayEventsOfAWholeLog(t *testing.T) {
	for _, where := range []string{"segment", "tail"} {
		for at, month := range map[string]string{"2199-01-01T00:00:00Z": "2199-01", "1970-01-01T00:00:00Z": "1970-01"} {
			l := newSmallLog(t)
			recs := visits(t, 0, time.Hour, 10)
			recs[7].At, recs[7].Time = at, recs[7].recordTime(t).Format(time.RFC3339Nano)
			if where == "segment" {
				l.segment(recs...)
			} else {
				l.segment(recs[:6]...)
				l.tail(recs[6:]...)
			}
			list := []job.Job{l.job(smallJob{Tables: map[string]string{"events": "month UTC", "shops": "bucket id 2"}})}
			ws := filepath.Join(t.TempDir(), "ws")
			r := hindcastWith(t, list, "run", "visits", "--promote", "--workspace", ws)
			r.ok(t)
			contains(t, where, r.out, "1 events that were read are not up to 1d late or 1h ahead", "partition 0, offset 7: event time "+at+", record time 2024-05-01T07:00:01Z")
			rows := lines(tableRows(t, list, ws, "events"))
			if want := month + ",p0-07," + at + ",x,1"; len(rows) != 11 || !slices.Contains(rows, want) {
				t.Errorf("%s: %v, expected 10 rows and %s", where, rows, want)
			}
		}
	}
}

// An event time that no table can be cut by makes a dead letter, with or without a window, in a segment or in the tail, among others
// or alone. Accepted, it changes nothing else.
func TestEventTimesOfNoPartitionAreDeadLetters(t *testing.T) {
	for _, where := range []string{"segment", "tail", "all of the log"} {
		for _, at := range []string{"0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T00:00:00Z"} {
			for _, window := range [][]string{nil, {"--from", "2024-05-01", "--to", "2024-05-02"}} {
				l := newSmallLog(t)
				recs := visits(t, 0, time.Hour, 10)
				for i := range recs {
					if i == 7 || where == "all of the log" {
						recs[i].At, recs[i].Time = at, recs[i].recordTime(t).Format(time.RFC3339Nano)
					}
				}
				if where == "tail" {
					l.segment(recs[:6]...)
					l.tail(recs[6:]...)
				} else {
					l.segment(recs...)
				}
				tables := map[string]string{"events": "day UTC", "shops": "bucket id 2"}
				if window != nil {
					tables = map[string]string{"events": "day UTC"}
				}
				list := []job.Job{l.job(smallJob{Tables: tables})}
				ws := filepath.Join(t.TempDir(), "ws")
				r := hindcastWith(t, list, append([]string{"run", "visits", "--promote", "--workspace", ws}, window...)...).exits(t, 4)
				n := map[bool]string{true: "10", false: "1"}[where == "all of the log"]
				contains(t, fmt.Sprint(where, at, window), r.out, "partition 0, offset 7", at+" is outside the dates that a table can be cut by", n+" events were unreadable; the job accepts 0")
			}
		}
	}
}

// An event whose time cannot be read blocks, and is named by partition and offset, in whatever row group or shard it is.
func TestUnreadableEventTimesBlock(t *testing.T) {
	t.Parallel()
	segment := func(change func(r *rec)) func(l *smallLog) {
		return func(l *smallLog) {
			recs := visits(l.t, 1, 3*time.Hour, 24)
			recs[9].Time = recs[9].recordTime(l.t).Format(time.RFC3339Nano)
			change(&recs[9])
			l.segment(visits(l.t, 0, 3*time.Hour, 24)...)
			l.segment(recs[:20]...)
			l.segment(recs[20:]...)
		}
	}
	tail := func(raw string) func(l *smallLog) {
		return func(l *smallLog) {
			for p := range int32(2) {
				l.segment(visits(l.t, p, 3*time.Hour, 24)[:5]...)
			}
			recs := visits(l.t, 1, 3*time.Hour, 24)
			recs[9].Raw = raw
			l.tail(append(visits(l.t, 0, 3*time.Hour, 24)[5:], recs[5:]...)...)
		}
	}
	for name, c := range map[string]struct {
		build func(l *smallLog)
		says  string
	}{
		"null in a segment":      {segment(func(r *rec) { r.At = "" }), "column at is null"},
		"no id in a segment":     {segment(func(r *rec) { r.ID = "" }), "column id is null or empty"},
		"no time in the tail":    {tail(`{"id":"p1-09","shop":"x","amount":1}`), "at"},
		"null in the tail":       {tail(`{"id":"p1-09","at":null,"shop":"x","amount":1}`), "at"},
		"words in the tail":      {tail(`{"id":"p1-09","at":"yesterday","shop":"x","amount":1}`), "yesterday"},
		"a number in the tail":   {tail(`{"id":"p1-09","at":1714629600000,"shop":"x","amount":1}`), "1714629600000"},
		"without zone":           {tail(`{"id":"p1-09","at":"2024-05-02T03:00:00","shop":"x","amount":1}`), "2024-05-02T03:00:00"},
		"no object in the tail":  {tail(`"garbage"`), "garbage"},
		"no value in the tail":   {tail(`null`), "no value"},
		"no number where needed": {tail(`{"id":"p1-09","at":"2024-05-02T03:00:00Z","shop":"x","amount":"many"}`), "many"},
	} {
		l := newSmallLog(t)
		c.build(l)
		ways := [][]string{nil}
		if name == "null in a segment" || name == "words in the tail" || testenv.Full() {
			ways = append(ways, []string{"--shard-rows", "1"})
		}
		for _, args := range ways {
			tables := map[string]string{"events": "day UTC", "sums": "day UTC"}
			list := []job.Job{l.job(smallJob{Tables: tables})}
			ws := filepath.Join(t.TempDir(), "ws")
			args = append([]string{"run", "visits", "--from", "2024-05-01", "--to", "2024-05-04", "--promote", "--workspace", ws}, args...)
			r := hindcastWith(t, list, args...).exits(t, 4)
			contains(t, name, r.out, "partition 1, offset 9", c.says, "1 events were unreadable; the job accepts 0")
			hindcastWith(t, list, "table", "cat", "events", "--workspace", ws).exits(t, 1)
			if len(ways) == 1 {
				continue
			}
			// Where it is accepted, the rest is right.
			list = []job.Job{l.job(smallJob{Tables: tables, Checks: "{ dead-letters: 1 }"})}
			hindcastWith(t, list, args...).ok(t)
			if rows := tableRows(t, list, ws, "events"); len(rows) != 1+47 {
				t.Errorf("%s: %d rows", name, len(rows)-1)
			}
		}
	}
}

// Nor does a row group without any event time keep the rest of a whole log from being computed, where it is accepted.
func TestUnreadableRowGroupsOfAWholeLog(t *testing.T) {
	for name, n := range map[string]int{"a row group": 12, "all there is": 4} {
		l := newSmallLog(t)
		recs := visits(t, 0, 3*time.Hour, n)
		none := recs[:4]
		for i := range none {
			none[i].Time = none[i].recordTime(t).Format(time.RFC3339)
			none[i].At = ""
		}
		l.segment(recs...)
		tables := map[string]string{"events": "month UTC", "shops": "bucket id 2"}
		ws := filepath.Join(t.TempDir(), "ws")
		r := hindcastWith(t, []job.Job{l.job(smallJob{Tables: tables})}, "run", "visits", "--workspace", ws).exits(t, 4)
		contains(t, name, r.out, "4 events were unreadable; the job accepts 0", "partition 0, offset 0: column at is null", "partition 0, offset 3: column at is null")
		list := []job.Job{l.job(smallJob{Tables: tables, Checks: "{ dead-letters: 4 }"})}
		hindcastWith(t, list, "run", "visits", "--promote", "--workspace", ws).ok(t)
		if rows := tableRows(t, list, ws, "events"); len(rows) != 1+n-4 {
			t.Errorf("%s: %d rows", name, len(rows)-1)
		}
	}
}

// One id with two contents blocks, and both places are named: in one topic partition, in two, and with two event times in shards apart.
func TestOneIDWithTwoContentsBlocks(t *testing.T) {
	days := map[string]string{"events": "day UTC", "sums": "day UTC"}
	for name, c := range map[string]struct {
		change func(logs [2][]rec) // partition 0, offset 2 and another are of one id
		tables map[string]string
		says   []string
	}{
		"in one topic partition": {
			func(logs [2][]rec) { logs[0][5].ID, logs[0][5].At = logs[0][2].ID, logs[0][2].At }, days,
			[]string{`"p0-02"`, "partition 0, offset 2", "partition 0, offset 5", "they differ in amount"},
		},
		"in two topic partitions": {
			func(logs [2][]rec) { logs[1][6].ID, logs[1][6].At = logs[0][2].ID, logs[0][2].At }, days,
			[]string{`"p0-02"`, "partition 0, offset 2", "partition 1, offset 6", "they differ in shop"},
		},
		"on two days": {
			func(logs [2][]rec) { logs[0][20].ID, logs[0][20].Amount = logs[0][2].ID, logs[0][2].Amount }, days,
			[]string{`"p0-02"`, "partition 0, offset 2", "partition 0, offset 20", "they differ in at"},
		},
		"on two days, in two topic partitions": {
			func(logs [2][]rec) { logs[1][20].ID, logs[1][20].Amount = logs[0][2].ID, logs[0][2].Amount }, days,
			[]string{`"p0-02"`, "partition 0, offset 2", "partition 1, offset 20", "they differ in at"},
		},
		"of a table cut by key": {
			func(logs [2][]rec) { logs[1][6].ID, logs[1][6].Shop = logs[0][2].ID, "another" },
			map[string]string{"sums": "bucket shop 4"},
			[]string{`"p0-02"`, "partition 0, offset 2", "partition 1, offset 6", "they differ in at"},
		},
		"of tables cut both ways": {
			func(logs [2][]rec) { logs[1][6].ID, logs[1][6].Shop = logs[0][2].ID, "another" },
			map[string]string{"sums": "bucket shop 4", "months": "month UTC"},
			[]string{`"p0-02"`, "partition 0, offset 2", "partition 1, offset 6", "they differ in at"},
		},
	} {
		ways := [][]string{nil, {"--shard-rows", "1"}}
		if c.tables["events"] == "" {
			ways = ways[:1]
		}
		for _, args := range ways {
			l := newSmallLog(t)
			var logs [2][]rec
			for p := range logs {
				logs[p] = visits(t, int32(p), 3*time.Hour, 24)
				for i := range logs[p] {
					logs[p][i].Time = logs[p][i].recordTime(t).Format(time.RFC3339)
					logs[p][i].Shop, logs[p][i].Amount = fmt.Sprint("shop of partition ", p), int64(i)
				}
			}
			c.change(logs)
			l.segment(logs[0][:12]...)
			l.segment(logs[1][:10]...)
			l.tail(append(logs[0][12:], logs[1][10:]...)...)
			list := []job.Job{l.job(smallJob{Lateness: "3d", Tables: c.tables})}
			ws := filepath.Join(t.TempDir(), "ws")
			args = append([]string{"run", "visits", "--promote", "--workspace", ws}, args...)
			if len(ways) > 1 {
				args = append(args, "--from", "2024-05-01", "--to", "2024-05-04")
			}
			r := hindcastWith(t, list, args...)
			if r.code != 4 {
				t.Errorf("%s: exit %d\n%s", name, r.code, r.out)
				continue
			}
			contains(t, fmt.Sprint(name, args), r.out, append(c.says, "1 event ids came with two contents")...)
			hindcastWith(t, list, "table", "cat", "sums", "--workspace", ws).exits(t, 1)
		}
	}
}

// A copy with other offsets and record times, in whatever partition, is the same event.
func TestCopiesInOtherPartitionsAreOneEvent(t *testing.T) {
	l := newSmallLog(t)
	a, b := visits(t, 0, 3*time.Hour, 24), visits(t, 1, 3*time.Hour, 24)
	for i := range b {
		if i%5 == 0 {
			entered := b[i].recordTime(t).Format(time.RFC3339)
			b[i].ID, b[i].At, b[i].Time = a[i].ID, a[i].At, entered
		}
	}
	l.segment(a...)
	l.segment(b[:7]...)
	l.tail(append(inOrder(0, 24, rec{ID: a[3].ID, At: a[3].At, Time: "2024-05-04T00:00:00Z", Shop: "x", Amount: 1}), b[7:]...)...)
	list := []job.Job{l.job(smallJob{Lateness: "5d", Tables: map[string]string{"events": "day UTC", "sums": "day UTC"}})}
	ws := filepath.Join(t.TempDir(), "ws")
	hindcastWith(t, list, "run", "visits", "--from", "2024-05-01", "--to", "2024-05-04", "--promote", "--shard-rows", "1", "--workspace", ws).ok(t)
	same(t, strings.Join(lines(tableRows(t, list, ws, "sums"))[1:], " "), "2024-05-01,x,14,14 2024-05-02,x,14,14 2024-05-03,x,15,15")
}

// A table cut by key is computed a topic partition at a time: a copy in another one is no conflict, as long as it comes to nothing.
func TestCopiesThatAKeyedTableFilters(t *testing.T) {
	for shop, code := range map[string]int{"none": 0, "x": 4} {
		l := newSmallLog(t)
		a, b := visits(t, 0, time.Hour, 8), visits(t, 1, time.Hour, 8)
		a[2].Shop = shop
		for i := range b {
			b[i].Shop = "y"
		}
		again := a[2]
		again.Partition, again.Offset, again.Time = 1, 5, b[5].recordTime(t).Format(time.RFC3339)
		b[5] = again
		l.segment(a...)
		l.segment(b...)
		fold, ok := adding().(job.Fold[Visit, Takings])
		if !ok {
			t.Fatalf("a %T", adding())
		}
		fold.Where = func(v *Visit) bool { return v.Shop != "none" }
		list := []job.Job{changedJob(t, l.job(smallJob{Tables: map[string]string{"sums": "bucket shop 4"}}), nil, job.Outputs{"sums": fold})}
		ws := filepath.Join(t.TempDir(), "ws")
		r := hindcastWith(t, list, "run", "visits", "--promote", "--workspace", ws).exits(t, code)
		contains(t, shop, r.out, "No event id came with two contents.")
		if code == 0 {
			same(t, sorted(tableRows(t, list, ws, "sums")), "shop,visits,amount\nx,7,7\ny,7,7\n")
		}
	}
}
