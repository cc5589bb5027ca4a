package sample

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hindcast/internal/parquetfile"
	"hindcast/internal/testenv"
)

func load(t *testing.T) []Event {
	t.Helper()
	f, err := os.Open(filepath.Join(testenv.Shared(t, "HINDCAST_RETAIL", "retail"), "online-retail.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	events, err := Read(z)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// TestRetail proves the sample's figures, and that the generator makes the files that are committed.
func TestRetail(t *testing.T) {
	if !testenv.Full() {
		t.Skip("makes the whole sample: part of the full counts")
	}
	events := load(t)
	log := Log(events)
	t.Run("figures", func(t *testing.T) { figures(t, events, log) })
	t.Run("segments", func(t *testing.T) { segments(t, log) })
	t.Run("files", func(t *testing.T) {
		dir := t.TempDir()
		if err := Write(dir, log); err != nil {
			t.Fatal(err)
		}
		made, committed := files(t, dir), files(t, filepath.Join(testenv.Root(t), "samples", "retail"))
		for name, data := range made {
			if !bytes.Equal(data, committed[name]) {
				t.Errorf("%s: the generator makes %d bytes, %d other ones are committed; to replace them: "+
					"go run ./samples/retail/generate CSV.GZ samples/retail", name, len(data), len(committed[name]))
			}
		}
		for name := range committed {
			if _, ok := made[name]; !ok && name != "ATTRIBUTION.md" && !strings.HasPrefix(name, "generate/") {
				t.Errorf("%s is committed, but the generator does not make it", name)
			}
		}
	})
}

// segments holds the committed segments to the log, value by value: names, order, row groups and columns.
func segments(t *testing.T, log [Partitions][]Record) {
	committed := files(t, filepath.Join(testenv.Root(t), "samples", "retail"))
	for p, records := range log {
		n := Exported(records)
		for at := 0; at < n; at += segmentRows {
			name := fmt.Sprintf("topics/retail.invoice-lines/partition=%d/retail.invoice-lines+%d+%010d.zstd.parquet", p, p, at)
			data := committed[name]
			f, err := parquetfile.Open(bytes.NewReader(data), int64(len(data)), name)
			if err != nil {
				t.Fatal(err)
			}
			if !f.Schema().Equal(Schema()) {
				t.Fatalf("%s has the columns %v", name, f.Schema())
			}
			in := f.Read(parquetfile.ReadOptions{})
			row := at
			for {
				b, err := in.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				for i := range b.Len {
					r := records[row]
					row++
					c := b.Columns
					got := Record{Offset: c[1].Int64s[i], Time: c[2].Int64s[i], Event: &Event{
						Key: r.Key, EventID: string(c[3].Strings.At(i)), OccurredAt: c[4].Int64s[i], Version: c[5].Int64s[i], Kind: string(c[6].Strings.At(i)),
						InvoiceNo: string(c[7].Strings.At(i)), StockCode: string(c[8].Strings.At(i)), Description: string(c[9].Strings.At(i)),
						Quantity: c[10].Int64s[i], PriceMills: c[11].Int64s[i], Country: string(c[13].Strings.At(i)),
					}}
					if !c[12].Nulls.Get(i) {
						got.AccountID = string(c[12].Strings.At(i))
					}
					if c[0].Int64s[i] != int64(p) || got.Offset != r.Offset || got.Time != r.Time || *got.Event != *r.Event || c[12].Nulls.Get(i) != (r.AccountID == "") {
						t.Fatalf("%s, row %d: %+v, want %+v", name, i, *got.Event, *r.Event)
					}
				}
			}
			if want := min(n, at+segmentRows); row != want {
				t.Errorf("%s ends before offset %d, want %d", name, row, want)
			}
		}
	}
}

func figures(t *testing.T, events []Event, log [Partitions][]Record) {
	type lineKey struct {
		invoice, stock, description, account, country string
		quantity, price, at                           int64
	}
	seen := map[lineKey]bool{}
	counts := map[string]int64{}
	for _, e := range events {
		k := lineKey{e.InvoiceNo, e.StockCode, e.Description, e.AccountID, e.Country, e.Quantity, e.PriceMills, e.OccurredAt}
		if seen[k] {
			counts["true repeats"]++
		}
		seen[k] = true
		counts[e.Kind]++
		if e.AccountID == "" {
			counts["without account"]++
		}
	}
	from := time.Date(2011, 11, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	to := time.Date(2011, 11, 22, 0, 0, 0, 0, time.UTC).UnixMicro()
	ids := map[string]*Event{}
	for p, records := range log {
		n := Exported(records)
		counts["records"] += int64(len(records))
		counts["exported"] += int64(n)
		counts["tail"] += int64(len(records) - n)
		versions := map[string]int64{}
		var last int64
		for i, r := range records {
			if r.Offset != int64(i) || r.Time < last || r.Time < r.OccurredAt+2e6 {
				t.Fatalf("partition %d: record %d has offset %d and time %d after %d", p, i, r.Offset, r.Time, last)
			}
			last = r.Time
			switch first, again := ids[r.EventID]; {
			case again && (!r.Copy || first != r.Event):
				t.Fatalf("partition %d, offset %d: %s is here twice and no copy", p, i, r.EventID)
			case again:
				counts["copies"]++
				continue
			case r.Copy:
				t.Fatalf("partition %d, offset %d: a copy of %s before itself", p, i, r.EventID)
			}
			ids[r.EventID] = r.Event
			if r.Late {
				counts["late"]++
				if late := r.Time - r.OccurredAt; late > 21*86400e6 {
					t.Errorf("partition %d, offset %d is %d s late: more than the 21 days that the jobs declare", p, i, late/1e6)
				}
			}
			if r.AccountID != "" {
				if r.Version != versions[r.Key]+1 {
					t.Fatalf("partition %d, offset %d: version %d of account %s after %d", p, i, r.Version, r.Key, versions[r.Key])
				}
				versions[r.Key] = r.Version
			}
			if r.OccurredAt >= from && r.OccurredAt < to {
				counts["net mills of the three weeks"] += r.Quantity * r.PriceMills
			}
		}
	}
	counts["events"] = int64(len(ids))
	for what, want := range map[string]int64{
		"events": 541_909, "true repeats": 5_268, "cancellation": 9_288, "adjustment": 3, "without account": 135_080,
		"records": 544_617, "copies": 2_708, "late": 2_700, "exported": 535_507, "tail": 9_110,
		"net mills of the three weeks": 1_015_061_530,
	} {
		if counts[what] != want {
			t.Errorf("%s: %d, want %d", what, counts[what], want)
		}
	}
}

// TestCommitted holds without the CSV: the committed files are those that the sums name, and small.
func TestCommitted(t *testing.T) {
	committed := files(t, filepath.Join(testenv.Root(t), "samples", "retail"))
	sums := string(committed[SumsFile])
	var total, named int
	for name, data := range committed {
		total += len(data)
		if !strings.HasPrefix(name, topics+"/") && name != TailFile {
			continue
		}
		named++
		if !strings.Contains(sums, fmt.Sprintf("%x  %s\n", sha256.Sum256(data), name)) {
			t.Errorf("%s is not the file that %s names", name, SumsFile)
		}
	}
	if n := strings.Count(sums, "\n"); n != named || n != 58 {
		t.Errorf("%s names %d files, there are %d, want 57 segments and the tail", SumsFile, n, named)
	}
	if total > 8_000_000 {
		t.Errorf("the sample takes %d bytes, more than 8 MB", total)
	}
}

func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		out[filepath.ToSlash(name)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDelay compares with the rule read literally: each event has a place, a late one right after the place of the 2,000th that follows.
func TestDelay(t *testing.T) {
	for _, n := range []int{0, 49, 50, 2000, 2049, 2050, 2051, 5000} {
		events := make([]*Event, n)
		var places [][2]*Event // who stands there, who comes right after
		var end []*Event
		for i := range events {
			events[i] = &Event{EventID: fmt.Sprint(i)}
			if i%3 == 0 {
				events[i].AccountID = "1"
			}
		}
		places = make([][2]*Event, n)
		without := 0
		for i, e := range events {
			if e.AccountID == "" {
				without++
			}
			switch {
			case e.AccountID != "" || without%50 != 0:
				places[i][0] = e
			case i+2000 < n:
				places[i+2000][1] = e
			default:
				end = append(end, e)
			}
		}
		var want []*Event
		for _, p := range places {
			for _, e := range p {
				if e != nil {
					want = append(want, e)
				}
			}
		}
		want = append(want, end...)
		got := delay(events)
		if len(got) != n || len(want) != n {
			t.Fatalf("of %d events %d are left, by the rule %d", n, len(got), len(want))
		}
		for i := range got {
			if got[i].Event != want[i] {
				t.Fatalf("of %d events place %d has %s, want %s", n, i, got[i].EventID, want[i].EventID)
			}
		}
	}
}

func TestRedeliver(t *testing.T) {
	for n, want := range map[int]string{249: "", 250: "250:200", 449: "250:200", 450: "250:200 451:400", 650: "250:200 451:400 652:600"} {
		records := make([]Record, n)
		for i := range records {
			records[i].Event = &Event{Version: int64(i + 1)}
		}
		var got []string
		for i, r := range redeliver(records) {
			if r.Copy {
				got = append(got, fmt.Sprintf("%d:%d", i, r.Version))
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("of %d records copies are at %q, want %q", n, s, want)
		}
	}
}

// TestPartition has hashes from the tests of Kafka's own partitioner (murmur2).
func TestPartition(t *testing.T) {
	for key, hash := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		want := hash & 0x7fffffff % Partitions
		log := Log([]Event{{Key: key}})
		if len(log[want]) != 1 {
			t.Errorf("the key %q is not in partition %d", key, want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	head := strings.Join(header, ",") + "\n"
	for name, in := range map[string]string{
		"empty":           "",
		"other columns":   "a,b,c,d,e,f,g,h\n",
		"a missing field": head + "1,2,3\n",
		"a bad time":      head + "1,s,d,1,2011-13-01 00:00:00,1.0,,UK\n",
		"a bad quantity":  head + "1,s,d,1.5,2011-12-01 00:00:00,1.0,,UK\n",
		"a fine price":    head + "1,s,d,1,2011-12-01 00:00:00,1.0001,,UK\n",
	} {
		if _, err := Read(strings.NewReader(in)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	events, err := Read(strings.NewReader(head + "A1,s,\"d, e\",-3,2011-07-01 00:30:00,-11062.06,17850.0,UK\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Event{
		Key: "17850", EventID: "A1-1", OccurredAt: time.Date(2011, 6, 30, 23, 30, 0, 0, time.UTC).UnixMicro(), Version: 1, Kind: "adjustment",
		InvoiceNo: "A1", StockCode: "s", Description: "d, e", Quantity: -3, PriceMills: -11062060, AccountID: "17850", Country: "UK",
	}
	if len(events) != 1 || events[0] != want {
		t.Errorf("read %+v, want %+v", events, want)
	}
}
