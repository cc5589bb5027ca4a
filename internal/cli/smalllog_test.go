package cli

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"hindcast/internal/job"
	"hindcast/internal/parquetfile"
	"hindcast/internal/testenv"
)

// clockHour returns when the clock hour of one offset that an instant lies in begins, found minute by minute.
func clockHour(at time.Time, loc *time.Location) time.Time {
	start := at.Truncate(time.Minute)
	for {
		before := start.Add(-time.Minute)
		if before.In(loc).Format("2006-01-02T15-0700") != at.In(loc).Format("2006-01-02T15-0700") {
			return start
		}
		start = before
	}
}

// scatter makes a log of events that happened at the given instants: over three topic partitions, some of them late, some twice,
// in segments of various lengths and, for the last of each partition, in the tail.
func scatter(l *smallLog, rng *rand.Rand, instants []time.Time) (events []rec) {
	l.t.Helper()
	type arrival struct {
		at time.Time
		rec
	}
	var arrivals []arrival
	for i, at := range instants {
		r := rec{
			Partition: int32(rng.IntN(3)), ID: fmt.Sprintf("e%04d", i), At: at.Format(time.RFC3339Nano), Shop: fmt.Sprint("shop ", rng.IntN(4)),
			Amount: 1 << (i % 40),
		}
		events = append(events, r)
		came := at.Add(time.Duration(rng.IntN(5000)) * time.Millisecond)
		if rng.IntN(5) == 0 {
			came = at.Add(time.Duration(rng.IntN(20*3600)) * time.Second)
		}
		arrivals = append(arrivals, arrival{came, r})
		if rng.IntN(6) == 0 {
			arrivals = append(arrivals, arrival{came.Add(time.Duration(rng.IntN(3600)) * time.Second), r})
		}
	}
	slices.SortStableFunc(arrivals, func(a, b arrival) int { return a.at.Compare(b.at) })
	logs := make([][]rec, 3)
	for _, a := range arrivals {
		a.Time = a.at.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano)
		a.Offset = int64(len(logs[a.Partition]))
		logs[a.Partition] = append(logs[a.Partition], a.rec)
	}
	var tail []rec
	for _, log := range logs {
		keep := 1 + rng.IntN(len(log)/4+1)
		for len(log) > keep {
			n := min(1+rng.IntN(30), len(log)-keep)
			l.segment(log[:n]...)
			log = log[n:]
		}
		tail = append(tail, log...)
	}
	l.tail(tail...)
	return events
}

// Hours and days around midnight and around the clocks' changes are what the zone's clocks show, in a table and in the log alike.
func TestHoursAndDaysAcrossClockChanges(t *testing.T) {
	for _, c := range []struct {
		zone    string
		dates   []string // about which it goes
		repeats []string // labels that one clock hour has
	}{
		{"America/New_York", []string{"2024-03-10", "2024-11-03"}, []string{"2024-11-03T01-0400", "2024-11-03T01-0500"}},
		{"Pacific/Auckland", []string{"2024-04-07", "2024-09-29"}, []string{"2024-04-07T02+1300", "2024-04-07T02+1200"}},
		{"Asia/Kolkata", []string{"2024-03-10", "2024-12-31"}, nil},
		{"Australia/Lord_Howe", []string{"2024-04-07", "2024-10-06"}, []string{"2024-04-07T01+1100", "2024-04-07T01+1030"}},
	} {
		t.Run(strings.ReplaceAll(c.zone, "/", "-"), func(t *testing.T) {
			loc, err := time.LoadLocation(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			var labels []string
			for i, date := range c.dates {
				labels = append(labels, aroundDate(t, loc, date, uint64(i))...)
			}
			for _, want := range c.repeats {
				if !slices.Contains(labels, want) {
					t.Errorf("no hour %s in %v", want, labels)
				}
			}
		})
	}
}

// aroundDate computes hours and days of a log whose events lie close together about a date. It returns the labels of its hours.
func aroundDate(t *testing.T, loc *time.Location, date string, seed uint64) []string {
	t.Helper()
	day, err := time.ParseInLocation(time.DateOnly, date, loc)
	if err != nil {
		t.Fatal(err)
	}
	from, to := day.AddDate(0, 0, -1), day.AddDate(0, 0, 2)
	var instants []time.Time
	for at := from.Add(-5 * time.Hour); at.Before(to.Add(5 * time.Hour)); at = at.Add(23 * time.Minute) {
		instants = append(instants, at.UTC())
	}
	// At the edges of every half hour, so of every hour and day of each zone here.
	for at := from.Add(-time.Hour).Truncate(30 * time.Minute); at.Before(to.Add(time.Hour)); at = at.Add(30 * time.Minute) {
		instants = append(instants, at.Add(-time.Millisecond).UTC(), at.UTC(), at.Add(time.Millisecond).UTC())
	}
	l := newSmallLog(t)
	events := scatter(l, rand.New(rand.NewPCG(seed, 5)), instants)

	run := func(from, to time.Time, tables map[string]string, args ...string) (list []job.Job, workspace string) {
		list = []job.Job{l.job(smallJob{Tables: tables})}
		workspace = filepath.Join(t.TempDir(), "ws")
		args = append([]string{"run", "visits", "--promote", "--workspace", workspace, "--from", from.Format(time.RFC3339), "--to", to.Format(time.RFC3339)}, args...)
		hindcastWith(t, list, args...).ok(t)

		want := map[string]map[string][2]int64{"days": {}, "hours": {}, "sum-days": {}, "sum-hours": {}}
		add := func(table, key string, amount int64) {
			want[table][key] = [2]int64{want[table][key][0] + 1, want[table][key][1] + amount}
		}
		for _, e := range events {
			at := instant(t, e.At)
			if at.Before(from) || !at.Before(to) {
				continue
			}
			rest := fmt.Sprintf(",%s,%s,%s,%d", e.ID, e.At, e.Shop, e.Amount)
			hour, date := clockHour(at, loc).UTC().Format(time.RFC3339), at.In(loc).Format(time.DateOnly)
			add("hours", hour+rest, e.Amount)
			add("days", date+rest, e.Amount)
			add("sum-hours", hour+","+e.Shop, e.Amount)
			add("sum-days", date+","+e.Shop, e.Amount)
		}
		for table := range tables {
			var rows []string
			for row, sum := range want[table] {
				if strings.HasPrefix(table, "sum") {
					row += fmt.Sprintf(",%d,%d", sum[0], sum[1])
				}
				rows = append(rows, row)
			}
			slices.Sort(rows) // by partition, then key, is in order as text, too
			if got := lines(tableRows(t, list, workspace, table))[1:]; !slices.Equal(got, rows) {
				t.Errorf("%s of %s, seed %d", table, date, seed)
				same(t, strings.Join(got, "\n"), strings.Join(rows, "\n"))
			}
		}
		return list, workspace
	}
	zone := loc.String()
	run(from, to, map[string]string{"days": "day " + zone, "sum-days": "day " + zone}, "--shard-rows", "100")

	// From before midnight to after the clocks' change.
	y, m, d := day.Date()
	first, last := time.Date(y, m, d-1, 22, 0, 0, 0, loc), time.Date(y, m, d, 5, 0, 0, 0, loc)
	list, ws := run(first, last, map[string]string{"hours": "hour " + zone, "sum-hours": "hour " + zone})
	var labels, want []string
	for _, f := range strings.Split(hindcastWith(t, list, "table", "files", "hours", "--workspace", ws).ok(t).out, "\n")[1:] {
		if label, ok := strings.CutPrefix(f, "hour="); ok {
			labels = append(labels, strings.Fields(label)[0])
		}
	}
	// As clocks show them, each once, in the order of time.
	for at := first; at.Before(last); at = at.Add(time.Minute) {
		if label := at.Format("2006-01-02T15-0700"); len(want) == 0 || want[len(want)-1] != label {
			want = append(want, label)
		}
	}
	if !slices.Equal(labels, want) {
		t.Errorf("hours of %s are\n%v, expected\n%v", date, labels, want)
	}
	return labels
}

// nanoSegment writes a segment whose times are in nanoseconds, as another program would.
func (l *smallLog) nanoSegment(recs ...rec) {
	l.t.Helper()
	type row struct {
		Partition int32  `parquet:"kafka_partition"`
		Offset    int64  `parquet:"kafka_offset"`
		Time      int64  `parquet:"kafka_timestamp,timestamp(nanosecond)"`
		ID        string `parquet:"id"`
		At        *int64 `parquet:"at,optional,timestamp(nanosecond)"`
		Shop      string `parquet:"shop"`
		Amount    int64  `parquet:"amount"`
	}
	var buf bytes.Buffer
	w := parquet.NewGenericWriter[row](&buf, parquet.MaxRowsPerRowGroup(1))
	for _, r := range recs {
		out := row{Partition: r.Partition, Offset: r.Offset, Time: r.recordTime(l.t).UnixNano(), ID: r.ID, Shop: r.Shop, Amount: r.Amount}
		if r.At != "" {
			at := instant(l.t, r.At).UnixNano()
			out.At = &at
		}
		if _, err := w.Write([]row{out}); err != nil {
			l.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		l.t.Fatal(err)
	}
	l.put(l.segmentFile(recs[0].Partition, recs[0].Offset), buf.Bytes())
}

// Events at the edges of a window are in it or not by the last digit that their times have, in segments of each unit and in the tail.
func TestEventsAtTheEdgesOfAWindow(t *testing.T) {
	for _, day := range []string{"2024-05-02", "1970-01-01", "1969-12-31"} {
		from := instant(t, day+"T00:00:00Z")
		to := from.AddDate(0, 0, 1)
		l := newSmallLog(t)
		var events []rec
		offset := map[int32]int64{}
		at := func(partition int32, steps ...time.Duration) []rec {
			var recs []rec
			for _, edge := range []time.Time{from, to} {
				for _, d := range steps {
					at := edge.Add(d)
					recs = append(recs, rec{
						Partition: partition, Offset: offset[partition], ID: fmt.Sprintf("%d-%d", partition, offset[partition]),
						At: at.Format(time.RFC3339Nano), Time: edge.Add(time.Second).Format(time.RFC3339Nano), Shop: "x",
					})
					offset[partition]++
				}
			}
			events = append(events, recs...)
			return recs
		}
		each := parquetfile.WriterOptions{RowGroupRows: 1, Millis: []string{"kafka_timestamp", "at"}}
		l.segmentWith(each, at(0, -time.Millisecond, 0, time.Millisecond)...)
		l.segment(at(0, -time.Millisecond, 0, time.Millisecond)...)
		l.segmentWith(parquetfile.WriterOptions{RowGroupRows: 1}, at(1, -time.Millisecond, -time.Microsecond, 0, time.Microsecond, time.Millisecond)...)
		l.nanoSegment(at(2, -time.Millisecond, -time.Microsecond, -1, 0, 1, 999, time.Microsecond, time.Millisecond)...)
		var tail []rec
		for p := range int32(3) {
			tail = append(tail, at(p, -time.Millisecond, -time.Microsecond, -1, 0, 1, time.Microsecond, time.Millisecond)...)
		}
		if from.Unix() >= 0 { // brokers have no times before 1970
			l.tail(tail...)
		} else {
			events = events[:len(events)-len(tail)]
		}

		list := []job.Job{l.job(smallJob{Tables: map[string]string{"events": "day UTC"}})}
		ws := filepath.Join(t.TempDir(), "ws")
		hindcastWith(t, list, "run", "visits", "--from", day, "--to", to.Format(time.DateOnly), "--promote", "--workspace", ws).ok(t)
		var want []string
		for _, e := range events {
			if at := instant(t, e.At); !at.Before(from) && at.Before(to) {
				// A microsecond is the finest there is: what is finer is cut off.
				want = append(want, fmt.Sprintf("%s,%s,%s,x,0", day, e.ID, time.UnixMicro(floorMicro(at)).UTC().Format(time.RFC3339Nano)))
			}
		}
		slices.Sort(want)
		got := lines(tableRows(t, list, ws, "events"))[1:]
		same(t, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func floorMicro(at time.Time) int64 {
	micros := at.Unix() * 1e6
	return micros + int64(at.Nanosecond())/1000
}

// visits makes n records that came right when they happened, a step apart from 2024-05-01 on, numbered from 0 in their partition.
func visits(t *testing.T, partition int32, step time.Duration, n int) []rec {
	t.Helper()
	var recs []rec
	for i := range n {
		at := instant(t, "2024-05-01T00:00:00Z").Add(time.Duration(i) * step)
		recs = append(recs, rec{ID: fmt.Sprintf("p%d-%02d", partition, i), At: at.Format(time.RFC3339Nano), Shop: "x", Amount: 1})
	}
	return inOrder(partition, 0, recs...)
}

// contains asks that a text has all parts.
func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s: no %q in:\n%s", what, part, text)
		}
	}
}

// ids are the events of a table that shows them, in its order.
func ids(t *testing.T, list []job.Job, workspace string) string {
	t.Helper()
	var out []string
	rows := tableRows(t, list, workspace, "events")
	for _, r := range rows[1:] {
		out = append(out, r[column(t, rows, "id")])
	}
	return strings.Join(out, " ")
}

// The declared lateness holds to the millisecond, as does how far times may be ahead.
func TestLatenessHoldsToTheMillisecond(t *testing.T) {
	const day = 24 * time.Hour
	at := func(event string, entered time.Duration) rec {
		return rec{ID: event, At: event, Time: instant(t, event).Add(entered).Format(time.RFC3339Nano), Shop: "x"}
	}
	old, young := at("2024-04-01T12:00:00Z", 0), at("2024-05-09T12:00:00Z", 0)
	within, last := "2024-05-02T00:00:00Z", "2024-05-02T23:59:59.999Z"
	for name, c := range map[string]struct {
		recs    []rec
		refused string // what the refusal says
	}{
		"as late as declared":      {[]rec{old, at(last, day), young}, ""},
		"a millisecond later":      {[]rec{old, at(last, day+time.Millisecond), young}, "lateness: 1d is too small; source.event.lateness: 2d would do"},
		"as early as declared":     {[]rec{old, at(within, -time.Hour), young}, ""},
		"two milliseconds earlier": {[]rec{old, at(within, -time.Hour-2*time.Millisecond), young}, "ahead: 1h is too small; source.event.ahead: 1h1m would do"},
	} {
		l := newSmallLog(t)
		l.segmentWith(parquetfile.WriterOptions{RowGroupRows: 1}, inOrder(0, 0, c.recs...)...)
		list := []job.Job{l.job(smallJob{Tables: map[string]string{"events": "day UTC"}})}
		ws := filepath.Join(t.TempDir(), "ws")
		r := hindcastWith(t, list, "run", "visits", "--from", "2024-05-02", "--to", "2024-05-03", "--promote", "--workspace", ws)
		if c.refused != "" {
			contains(t, name, r.exits(t, 3).err, c.refused, "visits+0+0000000000", "row group 1", "offsets 1-2")
			continue
		}
		r.ok(t)
		if got := ids(t, list, ws); got != c.recs[1].ID {
			t.Errorf("%s: the day has %q", name, got)
		}
	}
}

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
			func(logs [2][]rec) { logs[1][6].ID, logs[1][6].Shop = logs[0][2].ID, "another" }, map[string]string{"sums": "bucket shop 4", "months": "month UTC"},
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

// Of a log at random, any days come out as a naive model has them, and every offset of the read range is accounted for. With a
// lateness that is not true they do, or are refused.
func TestRandomLogsAndWindows(t *testing.T) {
	logs, perLog := 2, 3
	if testenv.Full() {
		logs, perLog = 30, 8
	}
	refused, right := 0, 0
	for seed := range uint64(logs) {
		rng := rand.New(rand.NewPCG(seed, 11))
		begin := instant(t, "2024-10-31T00:00:00Z")
		var instants []time.Time
		for range 150 + rng.IntN(150) {
			instants = append(instants, begin.Add(time.Duration(rng.Int64N(8*24*3600*1000))*time.Millisecond))
		}
		l := newSmallLog(t)
		events := scatter(l, rng, instants)
		zone := []string{"America/New_York", "Europe/London", "Pacific/Auckland"}[rng.IntN(3)]
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 2 * perLog {
			lateness := []string{"22h", "2h"}[n%2]
			list := []job.Job{l.job(smallJob{Lateness: lateness, Tables: map[string]string{"events": "day " + zone}})}
			first := begin.AddDate(0, 0, rng.IntN(9)-1)
			from, to := first.Format(time.DateOnly), first.AddDate(0, 0, 1+rng.IntN(4)).Format(time.DateOnly)
			args := []string{"run", "visits", "--from", from, "--to", to, "--promote", "--json", "--shard-rows", fmt.Sprint(1 + rng.IntN(200))}
			if rng.IntN(4) == 0 {
				args = append(args, "--no-prune")
			}
			ws := filepath.Join(t.TempDir(), "ws")
			r := hindcastWith(t, list, append(args, "--workspace", ws)...)
			if lateness == "2h" && r.code == 3 {
				contains(t, from, r.err, "lateness: 2h is too small; source.event.lateness: ")
				refused++
				continue
			}
			right++
			s := r.ok(t).status(t)
			var want []string
			for _, e := range events {
				if day := instant(t, e.At).In(loc).Format(time.DateOnly); day >= from && day < to {
					want = append(want, fmt.Sprintf("%s,%s,%s,%s,%d", day, e.ID, e.At, e.Shop, e.Amount))
				}
			}
			slices.Sort(want)
			got := lines(tableRows(t, list, ws, "events"))[1:]
			if !slices.Equal(got, want) {
				t.Errorf("seed %d, lateness %s, %q", seed, lateness, args)
				same(t, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			for _, a := range s.Account {
				if a.Total()+a.Skipped != a.Offsets {
					t.Errorf("seed %d, %q: %+v", seed, args, a)
				}
			}
			if sum := sumOf(s.Account, "events"); sum.Applied != int64(len(want)) {
				t.Errorf("seed %d, %q: %+v, expected %d applied", seed, args, sum, len(want))
			}
		}
	}
	t.Logf("%d windows are right, %d are refused", right, refused)
}
