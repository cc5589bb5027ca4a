// Package generate makes the log that is measured with: payments of one day, exported as Kafka Connect's S3 sink names its objects, and
// written by the product's own writer. The same rows and seed give the same bytes.
package generate

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"hindcast/internal/parquetfile"
	"hindcast/internal/record"
)

// What the log is like.
const (
	Topic      = "payments"
	Partitions = 4
	Segments   = 4 // of a partition
	// RowGroup is the rows of a row group.
	RowGroup = 524_288
	// Accounts are those of a partition; an account's events are all in one.
	Accounts = 50_000

	seed = 42
	day  = int64(24 * time.Hour / time.Millisecond)
	// No event enters the log later than this after it happened, in milliseconds.
	lateness = int64(4 * time.Minute / time.Millisecond)
	batch    = 8192
)

// Start is when the first event enters the log.
var Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Schema returns the columns of a segment.
func Schema() record.Schema {
	return record.Schema{
		{Name: "kafka_partition", Kind: record.Int64},
		{Name: "kafka_offset", Kind: record.Int64},
		{Name: "kafka_timestamp", Kind: record.Timestamp},
		{Name: "event_id", Kind: record.String},
		{Name: "event_time", Kind: record.Timestamp},
		{Name: "account_id", Kind: record.String},
		{Name: "event_type", Kind: record.String},
		{Name: "amount_cents", Kind: record.Int64},
		{Name: "version", Kind: record.Int64},
		{Name: "currency", Kind: record.String},
		{Name: "note", Kind: record.String},
	}
}

// Path is where the segment of a partition that begins with an offset lies.
func Path(partition int, offset int64) string {
	return fmt.Sprintf("topics/%s/partition=%d/%s+%d+%010d.zstd.parquet", Topic, partition, Topic, partition, offset)
}

// Each calls f with every segment's partition and first offset.
func Each(rows int64, f func(partition int, first, next int64) error) error {
	for p := range Partitions {
		for s := range int64(Segments) {
			per := rows / Partitions
			if err := f(p, per*s/Segments, per*(s+1)/Segments); err != nil {
				return err
			}
		}
	}
	return nil
}

// Write fills dir with the segments of a log of so many events. It holds two row groups in memory, compressed.
func Write(dir string, rows int64) error {
	if rows < Partitions*Segments {
		return fmt.Errorf("generate %d events: there is at least one in each of %d segments", rows, Partitions*Segments)
	}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for p := range Partitions {
		g.Go(func() error {
			l := newLog(p, rows/Partitions)
			return Each(rows, func(of int, first, next int64) error {
				if of != p {
					return nil
				}
				name := filepath.Join(dir, filepath.FromSlash(Path(p, first)))
				if err := l.segment(name, next); err != nil {
					return fmt.Errorf("generate %s: %w", name, err)
				}
				return nil
			})
		})
	}
	return g.Wait()
}

type event struct {
	id       [16]byte
	time     int64 // milliseconds since the epoch, as are all times here
	account  int
	kind     int
	amount   int64
	version  int64
	currency int
	note     uint64
}

// log makes a partition's events one by one.
type log struct {
	partition int
	rows      int64
	rng       *rand.Rand
	popular   *rand.Zipf
	accounts  []int // the most popular first
	versions  []int64
	offset    int64
	made      int64   // new events
	recent    []event // a ring
	delayed   []delayed
	out       *record.Batch
}

// delayed is an event that enters the log behind its successors.
type delayed struct {
	at int64 // offset
	event
}

func newLog(partition int, rows int64) *log {
	rng := rand.New(rand.NewPCG(seed, uint64(partition)))
	minute := max(1, int(rows*60_000/day))
	l := &log{
		partition: partition, rows: rows, rng: rng, popular: rand.NewZipf(rng, 1.1, 20, Accounts-1), accounts: rng.Perm(Accounts),
		versions: make([]int64, Accounts), recent: make([]event, min(20_000, minute)),
		out: &record.Batch{Columns: make([]record.Column, len(Schema()))},
	}
	for i, f := range Schema() {
		l.out.Columns[i].Kind = f.Kind
	}
	return l
}

// arrival is when the record of the log's offset enters it.
func (l *log) arrival() int64 { return Start.UnixMilli() + l.offset*day/l.rows }

func (l *log) segment(name string, next int64) (err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buffered := bufio.NewWriterSize(f, 1<<20)
	w, err := parquetfile.NewWriter(buffered, Schema(), parquetfile.WriterOptions{
		RowGroupRows: RowGroup,
		Millis:       []string{"kafka_timestamp", "event_time"},
		Encodings:    map[string]parquetfile.Encoding{"kafka_offset": parquetfile.Delta}, // as archived segments
	})
	if err != nil {
		return err
	}
	for l.offset < next {
		l.fill(int(min(batch, next-l.offset)))
		if err := w.Write(l.out); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return buffered.Flush()
}

var (
	kinds      = []string{"order_placed", "payment_captured", "payment_refunded", "payment_failed"}
	currencies = []string{"USD", "EUR", "GBP", "JPY", "SEK", "INR"}
	sources    = []string{"web", "ios", "android", "pos"}
)

// fill makes the batch of the next n records.
func (l *log) fill(n int) {
	c := l.out.Columns
	for i := range c {
		c[i].Int64s = c[i].Int64s[:0]
		c[i].Strings.Offsets, c[i].Strings.Data = c[i].Strings.Offsets[:0], c[i].Strings.Data[:0]
	}
	var text []byte
	for range n {
		arrival := l.arrival()
		e := l.next(arrival)
		c[0].Int64s = append(c[0].Int64s, int64(l.partition))
		c[1].Int64s = append(c[1].Int64s, l.offset)
		c[2].Int64s = append(c[2].Int64s, arrival*1000)
		c[3].Strings.Append(e.id[:])
		c[4].Int64s = append(c[4].Int64s, e.time*1000)
		text = append(text[:0], "acct-"...)
		for number, place := e.account*Partitions+l.partition, 10_000_000; place > 0; place /= 10 {
			text = append(text, byte('0'+number/place%10))
		}
		c[5].Strings.Append(text)
		c[6].Strings.Append([]byte(kinds[e.kind]))
		c[7].Int64s = append(c[7].Int64s, e.amount)
		c[8].Int64s = append(c[8].Int64s, e.version)
		c[9].Strings.Append([]byte(currencies[e.currency]))
		text = note(text[:0], e.note)
		c[10].Strings.Append(text)
		l.recent[l.offset%int64(len(l.recent))] = e
		l.offset++
	}
	l.out.Len = n
}

// note is a small document, as producers attach them.
func note(b []byte, x uint64) []byte {
	b = append(append(b, `{"src":"`...), sources[x&3]...)
	b = append(b, `","ip":"10`...)
	for shift := 8; shift <= 24; shift += 8 {
		b = strconv.AppendUint(append(b, '.'), x>>shift&255, 10)
	}
	b = append(b, `","ref":"`...)
	for shift := 60; shift >= 40; shift -= 4 {
		b = append(b, "0123456789abcdef"[x>>shift&15])
	}
	return append(strconv.AppendBool(append(b, `","ok":`...), x&16 != 0), '}')
}

// next is what enters the log at arrival: one event in two hundred is a copy of one of the last minute, one in a hundred comes after some
// that happened, and were counted, after it.
func (l *log) next(arrival int64) event {
	if len(l.delayed) > 0 && l.delayed[0].at <= l.offset {
		e := l.delayed[0].event
		l.delayed = l.delayed[1:]
		return e
	}
	if n := int64(len(l.recent)); l.rng.IntN(200) == 0 && l.offset > n {
		if e := l.recent[l.rng.Int64N(n)]; arrival-e.time <= lateness {
			return e
		}
	}
	for {
		e := l.event(arrival)
		if l.rng.IntN(100) != 0 {
			return e
		}
		wait := min(100+l.rng.Int64N(20), int64(len(l.recent)/2))
		at := l.offset + wait
		if n := len(l.delayed); n > 0 {
			at = max(at, l.delayed[n-1].at)
		}
		if arrival+(at-l.offset)*day/l.rows-e.time > lateness {
			return e
		}
		l.delayed = append(l.delayed, delayed{at, e})
	}
}

// event happens some seconds before it arrives; one in a hundred, up to three minutes.
func (l *log) event(arrival int64) event {
	late := min(int64(l.rng.ExpFloat64()*3000), lateness/2)
	if l.rng.IntN(100) == 0 {
		late = l.rng.Int64N(lateness * 3 / 4)
	}
	e := event{
		time: arrival - late, account: l.accounts[l.popular.Uint64()], amount: 100 + int64(l.rng.ExpFloat64()*5000),
		currency: min(l.rng.IntN(12), len(currencies)-1), note: l.rng.Uint64(),
	}
	switch k := l.rng.IntN(100); {
	case k < 45:
	case k < 85:
		e.kind = 1
	case k < 90:
		e.kind = 2
	default:
		e.kind = 3
	}
	l.versions[e.account]++
	e.version = l.versions[e.account]
	var words [16]byte
	x := mix(uint64(l.partition)<<40 | uint64(l.made))
	binary.LittleEndian.PutUint64(words[:8], x)
	binary.LittleEndian.PutUint64(words[8:], mix(x^0x9e3779b97f4a7c15))
	for i, b := range words {
		e.id[i] = "0123456789abcdefghijklmnopqrstuv"[b&31]
	}
	l.made++
	return e
}

// mix is the finalizer of splitmix64, a bijection.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
