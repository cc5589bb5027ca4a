// Package sample turns the Online Retail data set into the event log that the
// sample jobs run on: Kafka Connect segments for the exported part and one
// compressed file for the live tail. The rules of that log stand in [Log].
//
// It owns the files of samples/retail, which [Write] makes to the byte, whatever
// machine it runs on. It reads the original CSV only; nothing of Hindcast's
// engine is used to make what the engine is later measured against.
package sample

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	_ "time/tzdata" // London's rules, on machines without a tz database too

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// Topic is the name of the log.
	Topic = "retail.invoice-lines"
	// Partitions is the number of its partitions.
	Partitions = 4
)

const (
	lateEvery   = 50    // each 50th event without an account is late …
	lateBy      = 2000  // … by 2,000 events of its partition
	copyEvery   = 200   // each 200th record is delivered again …
	copyAfter   = 50    // … after 50 more
	arrival     = 2e6   // µs between the latest event so far and the record's time
	segmentRows = 10000 // records of an exported segment
)

// Event is one invoice line.
type Event struct {
	Key         string // of the Kafka record: the account, or else the invoice
	EventID     string
	OccurredAt  int64 // µs since the epoch
	Version     int64 // 1, 2, 3 … of the key, in file order
	Kind        string
	InvoiceNo   string
	StockCode   string
	Description string
	Quantity    int64
	PriceMills  int64
	AccountID   string // empty where there is none
	Country     string
}

// Record is an event's place in the log.
type Record struct {
	*Event
	Offset int64
	Time   int64 // record time, µs since the epoch
	Late   bool  // left its place
	Copy   bool  // was delivered before
}

var header = []string{"InvoiceNo", "StockCode", "Description", "Quantity", "InvoiceDate", "UnitPrice", "CustomerID", "Country"}

// Read reads the original CSV: one event a row, in file order.
func Read(r io.Reader) ([]Event, error) {
	london, err := time.LoadLocation("Europe/London")
	if err != nil {
		return nil, fmt.Errorf("read the retail CSV: %w", err)
	}
	in := csv.NewReader(r)
	in.FieldsPerRecord = len(header)
	in.ReuseRecord = true
	first, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("read the retail CSV: %w", err)
	}
	if !slices.Equal(first, header) {
		return nil, fmt.Errorf("read the retail CSV: its columns are %q, expected %q", first, header)
	}
	var events []Event
	lines := map[string]int64{}    // rows of an invoice so far
	versions := map[string]int64{} // versions of a key so far
	names := map[string]string{}   // one copy of each name that repeats
	intern := func(s string) string {
		if v, ok := names[s]; ok {
			return v
		}
		s = strings.Clone(s)
		names[s] = s
		return s
	}
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the retail CSV: %w", err)
		}
		e := Event{
			InvoiceNo:   intern(row[0]),
			StockCode:   intern(row[1]),
			Description: intern(row[2]),
			Kind:        kind(row[0]),
			AccountID:   intern(strings.TrimSuffix(row[6], ".0")),
			Country:     intern(row[7]),
		}
		line, _ := in.FieldPos(0)
		at, err := time.ParseInLocation(time.DateTime, row[4], london)
		if err != nil {
			return nil, fmt.Errorf("read the retail CSV: line %d: InvoiceDate: %w", line, err)
		}
		if e.Quantity, err = strconv.ParseInt(row[3], 10, 64); err != nil {
			return nil, fmt.Errorf("read the retail CSV: line %d: Quantity: %w", line, err)
		}
		if e.PriceMills, err = mills(row[5]); err != nil {
			return nil, fmt.Errorf("read the retail CSV: line %d: UnitPrice: %w", line, err)
		}
		e.OccurredAt = at.UnixMicro()
		e.Key = e.AccountID
		if e.Key == "" {
			e.Key = e.InvoiceNo
		}
		lines[e.InvoiceNo]++
		versions[e.Key]++
		e.EventID = e.InvoiceNo + "-" + strconv.FormatInt(lines[e.InvoiceNo], 10)
		e.Version = versions[e.Key]
		events = append(events, e)
	}
}

func kind(invoice string) string {
	switch {
	case strings.HasPrefix(invoice, "C"):
		return "cancellation"
	case strings.HasPrefix(invoice, "A"):
		return "adjustment"
	default:
		return "sale"
	}
}

// mills reads a decimal with at most three places as thousandths, exactly.
func mills(s string) (int64, error) {
	whole, frac, _ := strings.Cut(s, ".")
	if len(frac) > 3 {
		return 0, fmt.Errorf("%q has more than three decimals", s)
	}
	return strconv.ParseInt(whole+frac+"000"[len(frac):], 10, 64)
}

// Log places the events, given in file order, in the partitions of a log as
// real logs are, late and repeating themselves:
//
//   - A key's partition is the one that Kafka's default partitioner gives it.
//   - Late: of a partition's events without an account each 50th leaves its place and comes right
//     after the place, in file order, of the 2,000th event that follows; at the end, in order, where
//     fewer follow.
//   - Redelivered: a copy of the 200th, 400th, 600th … of the outcome comes 50 records later, where
//     there are as many.
//   - Offsets number the outcome from 0. A record's time is the latest event time of the partition so
//     far, plus two seconds.
func Log(events []Event) [Partitions][]Record {
	byPartition := [Partitions][]*Event{}
	partitioner := kgo.StickyKeyPartitioner(nil).ForTopic(Topic)
	for i := range events {
		p := partitioner.Partition(&kgo.Record{Key: []byte(events[i].Key)}, Partitions)
		byPartition[p] = append(byPartition[p], &events[i])
	}
	var log [Partitions][]Record
	for p, events := range byPartition {
		log[p] = stamp(redeliver(delay(events)))
	}
	return log
}

func delay(events []*Event) []Record {
	late := make([]bool, len(events))
	for i, n := 0, 0; i < len(events); i++ {
		if events[i].AccountID == "" {
			n++
			late[i] = n%lateEvery == 0
		}
	}
	out := make([]Record, 0, len(events))
	for i, e := range events {
		if !late[i] {
			out = append(out, Record{Event: e})
		}
		if j := i - lateBy; j >= 0 && late[j] {
			out = append(out, Record{Event: events[j], Late: true})
		}
	}
	for j := max(0, len(events)-lateBy); j < len(events); j++ {
		if late[j] {
			out = append(out, Record{Event: events[j], Late: true})
		}
	}
	return out
}

func redeliver(records []Record) []Record {
	out := make([]Record, 0, len(records)+len(records)/copyEvery)
	for i, r := range records {
		out = append(out, r)
		if n := i + 1 - copyAfter; n > 0 && n%copyEvery == 0 {
			out = append(out, Record{Event: records[n-1].Event, Copy: true})
		}
	}
	return out
}

func stamp(records []Record) []Record {
	var latest int64
	for i := range records {
		latest = max(latest, records[i].OccurredAt)
		records[i].Offset = int64(i)
		records[i].Time = latest + arrival
	}
	return records
}

// exportEnd is where the export ends: record times from then on are the tail's. It is London's midnight, and UTC's.
var exportEnd = time.Date(2011, 12, 7, 0, 0, 0, 0, time.UTC).UnixMicro()

// Exported returns how many of a partition's first records lie in segments; the rest is the tail.
func Exported(records []Record) int {
	n, _ := slices.BinarySearchFunc(records, exportEnd, func(r Record, end int64) int {
		if r.Time < end {
			return -1
		}
		return 1
	})
	return n
}
