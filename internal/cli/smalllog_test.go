package cli

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

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
	for i, c := range []struct {
		zone    string
		dates   []string // about which it goes
		repeats []string // labels that one clock hour has
	}{
		{"America/New_York", []string{"2024-03-10", "2024-11-03"}, []string{"2024-11-03T01-0400", "2024-11-03T01-0500"}},
		{"Pacific/Auckland", []string{"2024-04-07", "2024-09-29"}, []string{"2024-04-07T02+1300", "2024-04-07T02+1200"}},
		{"Asia/Kolkata", []string{"2024-03-10", "2024-12-31"}, nil},
		{"Australia/Lord_Howe", []string{"2024-04-07", "2024-10-06"}, []string{"2024-04-07T01+1100", "2024-04-07T01+1030"}},
	} {
		if !testenv.Full() && i%3 > 0 {
			continue // an hour and half an hour are what README's tests have time for
		}
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

// nanoSegment writes a segment whose times are in nanoseconds, as another program would: those of another unit, under another name.
func (l *smallLog) nanoSegment(recs ...rec) {
	l.t.Helper()
	data := l.encode(parquetfile.WriterOptions{RowGroupRows: 1}, time.Nanosecond, recs)
	m := metadata(l.t, data)
	for i := range m.Schema {
		if unit, ok := m.Schema[i].LogicalType.Value.(*format.TimestampType); ok {
			unit.Unit.Value = new(format.NanoSeconds)
			m.Schema[i].ConvertedType.Reset()
		}
	}
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), &m)
	if err != nil {
		l.t.Fatal(err)
	}
	data = append(data[:footerOf(data)], footer...)
	data = append(binary.LittleEndian.AppendUint32(data, uint32(len(footer))), "PAR1"...)
	l.put(l.segmentFile(recs[0].Partition, recs[0].Offset), data)
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

// Of a log at random, any days come out as a naive model has them, and every offset of the read range is accounted for. With a
// lateness that is not true they do, or are refused.
func TestRandomLogsAndWindows(t *testing.T) {
	t.Parallel()
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
