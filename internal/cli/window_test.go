package cli

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hindcast/internal/blob/fileblob"
	"hindcast/internal/check"
	"hindcast/internal/job"
	"hindcast/internal/local"
	"hindcast/internal/plan"
	"hindcast/internal/source/parquetsrc"
	"hindcast/internal/spec"
	"hindcast/internal/testenv"
	"hindcast/internal/transform"
	accounts "hindcast/jobs/account-balance"
	revenue "hindcast/jobs/daily-country-revenue"
)

// year has all days of the sample.
const yearFrom, yearTo = "2010-12-01", "2011-12-10"

// days are the dates from, to before to.
func days(t *testing.T, from, to string) []string {
	t.Helper()
	var out []string
	for at := instant(t, from+"T00:00:00Z"); at.Format(time.DateOnly) < to; at = at.AddDate(0, 0, 1) {
		out = append(out, at.Format(time.DateOnly))
	}
	return out
}

func plusDays(t *testing.T, day string, n int) string {
	t.Helper()
	return instant(t, day+"T00:00:00Z").AddDate(0, 0, n).Format(time.DateOnly)
}

// watched is an event that a test wants to see.
type watched struct {
	ID      string    `row:"event_id,key"`
	At      time.Time `row:"occurred_at"`
	Country string    `row:"country"`
}

type watchedLine struct {
	ID      string    `event:"event_id"`
	At      time.Time `event:"occurred_at"`
	Country string    `event:"country"`
}

// Over the whole log: exactly the copies are left out. What came late reaches its day, and what merely looks like a copy is kept.
func TestWholeYearCountsEveryEventOnce(t *testing.T) {
	if !testenv.Full() {
		t.Skip("recomputes the whole year: part of the full counts")
	}
	log := retail(t)
	london := dates(t, "Europe/London")

	// The events to look at one by one, with the line that must come of each.
	type looks struct {
		invoice, stock, text, account, country string
		quantity, at, price                    int64
	}
	want := map[string]string{}
	alike := make(map[looks]bool, len(log))
	late, repeats := 0, 0
	for _, s := range log {
		if s.copied {
			continue
		}
		l := looks{s.invoice, s.stock, s.text, s.account, s.country, s.quantity, s.at, s.price}
		again := alike[l]
		alike[l] = true
		switch {
		case again:
			repeats++
		case s.late() > time.Hour:
			late++
		default:
			continue
		}
		want[s.id] = fmt.Sprintf("%s,%s,%s,%s", london(s.at), s.id, time.UnixMilli(s.at).UTC().Format(time.RFC3339), s.country)
	}
	if repeats != 5268 || late < 2600 {
		t.Fatalf("%d true repeats and %d other late events to look at", repeats, late)
	}

	watch := job.Map[watchedLine, watched]{
		Where: func(l *watchedLine) bool { return want[l.ID] != "" },
		Each:  func(l *watchedLine, emit func(watched)) { emit(watched(*l)) },
	}
	day := "  - table: daily-country-revenue\n    partition: { day: occurred_at, zone: Europe/London }\n"
	list := []job.Job{changedJob(t, revenue.Job(),
		map[string]string{day: day + strings.Replace(day, "daily-country-revenue", "watched", 1)},
		job.Outputs{"daily-country-revenue": revenue.Transform(), "watched": watch})}
	ws := filepath.Join(t.TempDir(), "ws")
	run := hindcastWith(t, list, "run", "daily-country-revenue", "--from", yearFrom, "--to", yearTo, "--promote", "--json", "--workspace", ws).ok(t).status(t)

	// Asked again, by another command.
	s := hindcastWith(t, list, "status", run.Run, "--json", "--workspace", ws).ok(t).status(t)
	sum := sumOf(s.Account, "daily-country-revenue")
	if sum.Offsets != 544_617 || sum.Applied != 541_909 || sum.Duplicate != 2708 || sum.Total() != sum.Offsets {
		t.Errorf("%+v", sum)
	}
	same(t, hindcastWith(t, list, "table", "cat", "daily-country-revenue", "--workspace", ws).ok(t).out, dailyRevenue(log, london, yearFrom, yearTo))

	rows := lines(tableRows(t, list, ws, "watched"))[1:]
	if len(rows) != len(want) {
		t.Errorf("%d of %d watched events", len(rows), len(want))
	}
	for _, r := range rows {
		if id := strings.Split(r, ",")[1]; r != want[id] {
			t.Fatalf("an event is %q, expected %q", r, want[id])
		}
	}
	checkAccount(t, s, log, span{demoBegin, yearTo}, london, "daily-country-revenue")
}

func sumOf(accounts []check.Account, table string) check.Account {
	var sum check.Account
	for _, a := range accounts {
		if a.Table == table {
			sum.Offsets += a.Offsets
			sum.Skipped += a.Skipped
			sum.Applied += a.Applied
			sum.Filtered += a.Filtered
			sum.Duplicate += a.Duplicate
			sum.Conflict += a.Conflict
			sum.Stale += a.Stale
			sum.Outside += a.Outside
			sum.Dead += a.Dead
		}
	}
	return sum
}

// span is dates, from to before to.
type span struct{ from, to string }

func (s span) String() string { return s.from + ".." + s.to }

func (s span) flags() []string { return []string{"--from", s.from, "--to", s.to} }

// checkAccount holds a run's record against the log: for each topic partition and origin, every offset of the read range is
// accounted for, with as many events applied and as many copies as the log has of the window.
func checkAccount(t *testing.T, s local.Status, log []sale, window span, dayOf func(int64) string, tables ...string) {
	t.Helper()
	type key struct {
		partition int32
		origin    transform.Origin
	}
	type numbers struct{ all, applied, copies int64 }
	want := map[key]numbers{}
	seen := map[string]bool{}
	for _, r := range log {
		k := key{r.partition, transform.FromSegment}
		if r.tail {
			k.origin = transform.FromTail
		}
		n := want[k]
		n.all++
		if day := dayOf(r.at); day >= window.from && day < window.to {
			if seen[r.id] {
				n.copies++
			} else {
				n.applied++
			}
			seen[r.id] = true
		}
		want[k] = n
	}
	for _, table := range tables {
		rest := maps.Clone(want)
		for _, a := range s.Account {
			if a.Table != table {
				continue
			}
			k := key{a.Partition, a.Origin}
			n := rest[k]
			delete(rest, k)
			if a.Total()+a.Skipped != a.Offsets || a.Offsets > n.all {
				t.Errorf("%s, %s: partition %d, %s: of %d offsets %d are accounted for; the log has %d: %+v",
					window, table, a.Partition, a.Origin, a.Offsets, a.Total()+a.Skipped, n.all, a)
			}
			var reasons int64
			for _, n := range a.SkippedFor {
				reasons += n
			}
			if a.Applied != n.applied || a.Duplicate != n.copies || a.Filtered+a.Stale+a.Dead+a.Conflict != 0 || reasons != a.Skipped {
				t.Errorf("%s, %s: partition %d, %s: expected %d applied and %d duplicate: %+v", window, table, a.Partition, a.Origin, n.applied, n.copies, a)
			}
		}
		for k, n := range rest {
			if n.applied+n.copies > 0 {
				t.Errorf("%s, %s: %+v is not accounted for, which has %+v", window, table, k, n)
			}
		}
	}
}

// windows of the year: the days of both clock changes, the tail alone, days without trade, the ends, and some at random.
func windows(t *testing.T) []span {
	list := []span{
		{"2011-03-27", "2011-03-28"}, // 23 hours
		{"2011-10-30", "2011-10-31"}, // 25 hours
		{"2011-12-07", "2011-12-10"}, // what was not exported
		{"2011-12-09", "2011-12-10"},
		{"2011-11-05", "2011-11-06"}, // a Saturday
		{"2010-12-24", "2011-01-04"}, // holidays
		{"2010-12-01", "2010-12-02"},
		{"2010-11-01", "2010-12-01"}, // before all
		{"2011-12-10", "2011-12-20"}, // after all
	}
	random := 1
	if testenv.Full() {
		random = 60
	}
	rng := rand.New(rand.NewPCG(2011, 12))
	all := days(t, yearFrom, yearTo)
	for range random {
		from := rng.IntN(len(all))
		length := 1 + rng.IntN(1<<rng.IntN(8))
		list = append(list, span{all[from], plusDays(t, all[from], min(length, len(all)-from))})
	}
	return list
}

// Any window of a new dataset has exactly the rows of its days, and its record accounts for every offset.
func TestAnyWindowIsRight(t *testing.T) {
	t.Parallel()
	log := retail(t)
	london := dates(t, "Europe/London")
	for i, w := range windows(t) {
		if i%3 > 0 && !testenv.Full() {
			continue
		}
		ws := filepath.Join(t.TempDir(), "ws")
		args := append([]string{"run", "daily-country-revenue", "--promote", "--json", "--workspace", ws}, w.flags()...)
		if i%2 == 1 {
			args = append(args, "--shard-rows", "10000")
		}
		s := hindcast(t, args...).ok(t).status(t)
		got := hindcast(t, "table", "cat", "daily-country-revenue", "--workspace", ws).ok(t).out
		want := dailyRevenue(log, london, w.from, w.to)
		if got != want {
			t.Errorf("window %s", w)
			same(t, got, want)
		}
		checkAccount(t, s, log, w, london, "daily-country-revenue")
	}
}

// A window within a version that is served replaces its days, and no others.
func TestAnyWindowOfAServedTableIsRight(t *testing.T) {
	t.Parallel()
	if !testenv.Full() {
		t.Skip("each run reads the whole log: HINDCAST_TEST_FULL=1 runs it")
	}
	log := retail(t)
	ws := demoCopy(t)
	want := dailyRevenue(log, dates(t, "Europe/London"), yearFrom, yearTo)
	list := []span{{"2011-10-29", "2011-11-01"}, {"2011-12-08", "2011-12-10"}, {"2011-11-05", "2011-11-06"}}
	for _, w := range list {
		hindcast(t, append([]string{"run", "daily-country-revenue", "--promote", "--workspace", ws}, w.flags()...)...).ok(t)
		same(t, hindcast(t, "table", "cat", "daily-country-revenue", "--workspace", ws).ok(t).out, want)
	}
}

// accountLines are what the table of balances must be, sorted by account.
func accountLines(log []sale) string {
	type account struct {
		lines, balance, version, at int64
	}
	byID := map[string]account{}
	for _, s := range log {
		if s.copied || s.account == "" {
			continue
		}
		a := byID[s.account]
		a.lines++
		a.balance += s.quantity * s.price
		if s.version > a.version {
			a.version, a.at = s.version, s.at
		}
		byID[s.account] = a
	}
	var out strings.Builder
	out.WriteString("account_id,lines,balance_mills,last_version,last_occurred_at\n")
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		a := byID[id]
		fmt.Fprintf(&out, "%s,%d,%d,%d,%s\n", id, a.lines, a.balance, a.version, time.UnixMilli(a.at).UTC().Format(time.RFC3339))
	}
	return out.String()
}

// Dedupe and the version guard each suffice to count a redelivered event of an account once.
func TestDedupeAndVersionGuardEachSuffice(t *testing.T) {
	t.Parallel()
	if !testenv.Full() {
		t.Skip("each run reads the whole log: HINDCAST_TEST_FULL=1 runs it")
	}
	log := retail(t)
	want := accountLines(log)
	copies := map[bool]int64{} // those with an account or not
	for _, s := range log {
		if s.copied {
			copies[s.account != ""]++
		}
	}
	ledger := "  - table: ledger-entry\n    partition: { month: occurred_at, zone: Europe/London }\n"
	event := "lateness: 21d, ahead: 1h }"
	noDedupe := strings.Replace(event, " }", ", dedupe: false }", 1)
	guarded, ok := accounts.Balances().(job.Fold[accounts.Line, accounts.Account])
	if !ok {
		t.Fatalf("the balances are a %T", accounts.Balances())
	}
	unguarded := guarded
	unguarded.Version = nil

	for _, c := range []struct {
		name             string
		words            map[string]string
		fold             job.Transform
		duplicate, stale int64
		right            bool
	}{
		{"the version guard alone", map[string]string{ledger: "", event: noDedupe}, guarded, 0, copies[true], true},
		{"dedupe alone", map[string]string{ledger: ""}, unguarded, copies[true] + copies[false], 0, true},
		{"neither", map[string]string{ledger: "", event: noDedupe, "  canaries: canaries.csv\n": ""}, unguarded, 0, 0, false},
	} {
		list := []job.Job{changedJob(t, accounts.Job(), c.words, job.Outputs{"account-balance": c.fold})}
		ws := filepath.Join(t.TempDir(), "ws")
		s := hindcastWith(t, list, "run", "account-balance", "--promote", "--json", "--workspace", ws).ok(t).status(t)
		rows := tableRows(t, list, ws, "account-balance")
		if got := sorted(rows); c.right {
			same(t, got, want)
		} else if got == want {
			t.Errorf("%s: the balances are right, so the test shows nothing", c.name)
		}
		sum := sumOf(s.Account, "account-balance")
		if sum.Duplicate != c.duplicate || sum.Stale != c.stale || sum.Offsets != 544_617 || sum.Total() != sum.Offsets {
			t.Errorf("%s: %+v, expected %d duplicate and %d stale", c.name, sum, c.duplicate, c.stale)
		}
	}
}

// weekLate is the job with a lateness of 7 days, which is not true.
func weekLate(t *testing.T) job.Job {
	t.Helper()
	return changedJob(t, revenue.Job(), map[string]string{"lateness: 21d": "lateness: 7d"}, nil)
}

// retailInventory is what a plan of a retail job knows: the listing of its segments, and the brokers' offsets by the model.
func retailInventory(t *testing.T, s *spec.Spec, log []sale) plan.Inventory {
	t.Helper()
	store, err := fileblob.New(filepath.Join(testenv.Root(t), s.Source.Segments.Parquet))
	if err != nil {
		t.Fatal(err)
	}
	listing, err := parquetsrc.List(t.Context(), store, s.Source)
	if err != nil {
		t.Fatal(err)
	}
	inv := plan.Inventory{Topic: s.Source.Topic, Segments: listing.Segments, HasTail: true, AsOf: time.Now().UnixMicro()}
	for _, r := range log {
		for int(r.partition) >= len(inv.Tails) {
			inv.Tails = append(inv.Tails, plan.Tail{Partition: int32(len(inv.Tails)), Start: -1})
		}
		if tail := &inv.Tails[r.partition]; r.tail {
			if tail.Start < 0 {
				tail.Start = r.offset
			}
			tail.End = r.offset + 1
		}
	}
	return inv
}

// With a lateness that is too small, a plan refuses every window that would come out wrong, and none without an event that came later.
func TestTooSmallLatenessIsRefusedWhereItMatters(t *testing.T) {
	t.Parallel()
	if !testenv.Full() {
		t.Skip("plans every day of the year: part of the full counts")
	}
	log := retail(t)
	london := dates(t, "Europe/London")
	list := []job.Job{weekLate(t)}
	s, err := list[0].Spec()
	if err != nil {
		t.Fatal(err)
	}
	inv := retailInventory(t, s, log)
	all := days(t, yearFrom, yearTo)
	byDay := map[string][]sale{}
	for _, r := range log {
		day := london(r.at)
		byDay[day] = append(byDay[day], r)
	}
	const lateness = 7 * 24 * time.Hour

	var refused, planned []span
	for _, length := range []int{1, 7, 21} {
		for i := 0; i+length <= len(all); i++ {
			if length > 1 && i%8 != 0 && !testenv.Full() {
				continue
			}
			w := span{all[i], plusDays(t, all[i], length)}
			window, _, err := spec.ParseWindow(spec.WindowFlags{From: w.from, To: w.to}, time.Now(), s.Outputs)
			if err != nil {
				t.Fatal(err)
			}
			p, err := plan.Build(s, window, inv, plan.Options{})
			if err == nil {
				planned = append(planned, w)
				read := map[int32]plan.Ranges{}
				for _, tp := range p.Partitions {
					read[tp.Partition] = tp.Read
				}
				checkNothingMissed(t, w, byDay, all[i:i+length], read)
				continue
			}
			refused = append(refused, w)
			var late *plan.LatenessError
			if !errors.As(err, &late) || late.NeedLateness <= late.Lateness || len(late.Found) == 0 {
				t.Fatalf("window %s: %v", w, err)
			}
			for _, c := range late.Found {
				if !slices.ContainsFunc(log, func(r sale) bool {
					return r.partition == c.Partition && c.Offsets.Contains(r.offset) && london(r.at) >= w.from && london(r.at) < w.to && r.late() > lateness
				}) {
					t.Errorf("window %s: segment %s is named, and has no event of it that came more than 7 days late in %s", w, c.Segment, c.Offsets)
				}
			}
			enough := *s
			enough.Source.Event.Lateness = late.NeedLateness
			if _, err := plan.Build(&enough, window, inv, plan.Options{}); err != nil {
				t.Errorf("window %s: with the lateness of %s that would do: %v", w, late.NeedLateness, err)
			}
		}
	}
	t.Logf("%d windows are refused, %d are not", len(refused), len(planned))
	if len(refused) == 0 || len(planned) == 0 {
		t.Fatal("there must be both")
	}

	rng := rand.New(rand.NewPCG(7, 21))
	for range 2 {
		w := refused[rng.IntN(len(refused))]
		ws := filepath.Join(t.TempDir(), "ws")
		for _, verb := range []string{"plan", "run"} {
			r := hindcastWith(t, list, append([]string{verb, "daily-country-revenue", "--workspace", ws}, w.flags()...)...).exits(t, 3)
			for _, part := range []string{"topics/retail.invoice-lines/partition=", "source.event.lateness: ", "lateness: 7d is too small", "record times from", "event times from"} {
				if !strings.Contains(r.err, part) {
					t.Errorf("%s: no %q in %s", verb, part, r.err)
				}
			}
		}
		hindcastWith(t, list, "table", "cat", "daily-country-revenue", "--workspace", ws).exits(t, 1)

		w = planned[rng.IntN(len(planned))]
		hindcastWith(t, list, append([]string{"run", "daily-country-revenue", "--promote", "--workspace", ws}, w.flags()...)...).ok(t)
		same(t, hindcastWith(t, list, "table", "cat", "daily-country-revenue", "--workspace", ws).ok(t).out, dailyRevenue(log, london, w.from, w.to))
	}
}

// checkNothingMissed asks that every event of the days, or a copy of it, lies in the read ranges.
func checkNothingMissed(t *testing.T, w span, byDay map[string][]sale, days []string, read map[int32]plan.Ranges) {
	t.Helper()
	missed := map[string]sale{}
	for _, day := range days {
		for _, r := range byDay[day] {
			if !read[r.partition].Contains(r.offset) {
				missed[r.id] = r
			}
		}
	}
	for _, day := range days {
		for _, r := range byDay[day] {
			if _, ok := missed[r.id]; ok && read[r.partition].Contains(r.offset) {
				delete(missed, r.id)
			}
		}
	}
	for _, r := range missed {
		t.Errorf("window %s is planned, and misses %d events, as %+v", w, len(missed), r)
		return
	}
}
