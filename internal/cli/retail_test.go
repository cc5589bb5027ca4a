package cli

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	_ "time/tzdata" // the model's zones

	"github.com/klauspost/compress/zstd"

	"hindcast/internal/testenv"
)

// sale is a record of the retail sample, reckoned with by nothing that the program has, and with the tag full read by nothing that it has.
type sale struct {
	partition  int32
	offset     int64
	tail       bool
	logged, at int64 // record time and event time, in milliseconds
	id         string
	version    int64
	kind       string
	invoice    string
	stock      string
	text       string
	quantity   int64
	price      int64
	account    string // empty: none
	country    string
	copied     bool // its id stands before it in the log
}

func (s sale) late() time.Duration { return time.Duration(s.logged-s.at) * time.Millisecond }

// retailLog is the whole log, by partition, then offset.
var retailLog = sync.OnceValues(func() ([]sale, error) {
	wd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(wd, "..", "..", "samples", "retail")
	files, err := filepath.Glob(filepath.Join(dir, "topics", "*", "*", "*.parquet"))
	if err != nil {
		return nil, err
	}
	log := make([]sale, 0, 550_000)
	for _, f := range files {
		if log, err = appendSegment(log, f); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
	}
	if log, err = appendTail(log, filepath.Join(dir, "tail.jsonl.zst")); err != nil {
		return nil, err
	}
	slices.SortFunc(log, func(a, b sale) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.offset, b.offset))
	})
	seen := map[string]bool{}
	for i := range log {
		log[i].copied = seen[log[i].id]
		seen[log[i].id] = true
	}
	return log, nil
})

func retail(t *testing.T) []sale {
	t.Helper()
	log, err := retailLog()
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func appendTail(log []sale, file string) ([]sale, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	for in := bufio.NewScanner(z); in.Scan(); {
		var l struct {
			Partition         int32
			Offset, Timestamp int64
			Value             struct {
				ID         string    `json:"event_id"`
				OccurredAt time.Time `json:"occurred_at"`
				Version    int64     `json:"version"`
				Kind       string    `json:"kind"`
				Invoice    string    `json:"invoice_no"`
				Stock      string    `json:"stock_code"`
				Text       string    `json:"description"`
				Quantity   int64     `json:"quantity"`
				Price      int64     `json:"unit_price_mills"`
				Account    string    `json:"account_id"`
				Country    string    `json:"country"`
			}
		}
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			return nil, err
		}
		v := l.Value
		log = append(log, sale{
			partition: l.Partition, offset: l.Offset, tail: true, logged: l.Timestamp, at: v.OccurredAt.UnixMilli(), id: v.ID, version: v.Version, kind: v.Kind,
			invoice: v.Invoice, stock: v.Stock, text: v.Text, quantity: v.Quantity, price: v.Price, account: v.Account, country: v.Country,
		})
	}
	return log, nil
}

// dates tells which date the zone's clocks show at an instant.
func dates(t *testing.T, zone string) func(millis int64) string {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	const quarter = 15 * 60 * 1000 // no zone here changes its date within one
	known := map[int64]string{}
	return func(millis int64) string {
		day, ok := known[millis/quarter]
		if !ok {
			day = time.UnixMilli(millis).In(loc).Format(time.DateOnly)
			known[millis/quarter] = day
		}
		return day
	}
}

// dailyRevenue is what the table of daily revenue must be, for the dates from, to before to.
func dailyRevenue(log []sale, dayOf func(int64) string, from, to string) string {
	type key struct{ day, country string }
	type sum struct {
		lines, cancelled, sold, returned, gross, refunds int64
		invoices                                         map[string]bool
	}
	sums := map[key]*sum{}
	var keys []key
	for _, s := range log {
		k := key{dayOf(s.at), s.country}
		if s.copied || k.day < from || k.day >= to {
			continue
		}
		d := sums[k]
		if d == nil {
			d = &sum{invoices: map[string]bool{}}
			sums[k] = d
			keys = append(keys, k)
		}
		d.lines++
		d.invoices[s.invoice] = true
		if s.kind == "cancellation" {
			d.cancelled++
			d.returned -= s.quantity
			d.refunds -= s.quantity * s.price
		} else {
			d.sold += s.quantity
			d.gross += s.quantity * s.price
		}
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(strings.Compare(a.day, b.day), strings.Compare(a.country, b.country))
	})
	var out strings.Builder
	out.WriteString("day,country,lines,cancelled_lines,invoices,units_sold,units_returned,gross_mills,refunds_mills,net_mills\n")
	for _, k := range keys {
		d := sums[k]
		fmt.Fprintf(&out, "%s,%s,%d,%d,%d,%d,%d,%d,%d,%d\n",
			k.day, k.country, d.lines, d.cancelled, len(d.invoices), d.sold, d.returned, d.gross, d.refunds, d.gross-d.refunds)
	}
	return out.String()
}

// The model is right where other programs have said what is right.
func TestTheModelOfRetailAgreesWithTheGoldenFiles(t *testing.T) {
	log := retail(t)
	copies, late, tail := 0, 0, 0
	for _, s := range log {
		switch {
		case s.copied:
			copies++
		case s.late() > time.Hour:
			late++
		}
		if s.tail {
			tail++
		}
	}
	if len(log) != 544_617 || copies != 2708 || late != 2700 || tail != 9110 {
		t.Errorf("%d records, %d copies, %d late, %d in the tail", len(log), copies, late, tail)
	}
	testenv.Shared(t, "HINDCAST_RETAIL", "retail")
	same(t, dailyRevenue(log, dates(t, "Europe/London"), demoFrom, demoTo), golden(t, "daily_2011-11-01_2011-11-22_corrected.csv"))
	same(t, dailyRevenue(log, dates(t, "Pacific/Auckland"), demoFrom, demoTo), golden(t, "daily_auckland_2011-11-01_2011-11-22_corrected.csv"))
}
