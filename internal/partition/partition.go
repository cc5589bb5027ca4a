// Package partition cuts tables: by hour, day or month of a named zone, or by
// key bucket. It is pure; zones come from the machine's tz database, and where
// it has none from the one embedded in the binary. What a run depends on are the
// instants of its slots, which its shards carry.
package partition

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // so that zones are known on machines without a tz database

	"hindcast/internal/record"

	"github.com/zeebo/xxh3"
)

// Unit is the calendar length of a time partition.
type Unit string

// The units of time partitions.
const (
	Hour  Unit = "hour"
	Day   Unit = "day"
	Month Unit = "month"
)

// MaxBuckets is the greatest bucket count: labels have four digits.
const MaxBuckets = 10_000

// Scheme says how a table is cut. It belongs to the table and never changes:
// either Unit, Column and Zone are set, or Buckets is. Its methods may be called
// concurrently; those that concern time load the zone, which takes some microseconds.
type Scheme struct {
	Unit Unit `json:"unit,omitempty"`
	// Column is the event's timestamp that decides, as the job's source names it.
	Column string `json:"column,omitempty"`
	// Zone is an IANA name.
	Zone string `json:"zone,omitempty"`
	// Buckets is the number of key buckets: a row's bucket is hash(key) modulo Buckets.
	Buckets int `json:"buckets,omitempty"`
}

// Slot is one time partition: the half-open span of instants [From, To), in
// microseconds since the epoch, and its label.
//
// Labels read "2011-11-01" (day), "2011-11" (month) and "2024-11-03T01-0400" (hour, always with
// the zone's offset, so that a repeated hour has two labels). They sort as time does, but for
// the two labels of a repeated hour: see [Scheme.Compare]. In paths and manifests the label
// stands behind the unit: "day=2011-11-01".
//
// A day begins when its zone's clocks first show its midnight or, where they skip that, a later time; a
// date that they skip altogether has no slot. An hour is a clock hour of one offset: where the offset
// changes within it, there are two slots.
type Slot struct {
	Label string `json:"label"`
	From  int64  `json:"from"`
	To    int64  `json:"to"`
}

// Contains reports whether an instant lies in the slot.
func (s Slot) Contains(t int64) bool { return s.From <= t && t < s.To }

// ByTime reports whether the scheme cuts by time, not by key bucket.
func (s Scheme) ByTime() bool { return s.Buckets == 0 }

// String describes the scheme: "day of occurred_at in Europe/London" or "16 buckets".
func (s Scheme) String() string {
	if !s.ByTime() {
		return fmt.Sprintf("%d buckets", s.Buckets)
	}
	return fmt.Sprintf("%s of %s in %s", s.Unit, s.Column, s.Zone)
}

// Validate says what is wrong with the scheme.
func (s Scheme) Validate() error {
	if s.Buckets != 0 {
		if s.Buckets < 0 || s.Buckets > MaxBuckets {
			return fmt.Errorf("%d buckets: there must be 1 to %d", s.Buckets, MaxBuckets)
		}
		if s.Unit != "" || s.Zone != "" || s.Column != "" {
			return fmt.Errorf("a scheme cuts by time or by bucket, not both")
		}
		return nil
	}
	switch s.Unit {
	case Hour, Day, Month:
	default:
		return fmt.Errorf("unknown partition unit %q: units are hour, day and month", s.Unit)
	}
	if s.Column == "" {
		return fmt.Errorf("a scheme by %s needs the column that decides", s.Unit)
	}
	_, err := LoadZone(s.Zone)
	return err
}

// LoadZone finds an IANA zone. The machine's own zone ("", "Local") is refused: it differs between machines.
func LoadZone(name string) (*time.Location, error) {
	if name == "" || name == "Local" {
		return nil, fmt.Errorf("%q names no zone: write an IANA name, as Europe/London or UTC", name)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("unknown zone %q: write an IANA name, as Europe/London or UTC", name)
	}
	return loc, nil
}

// Field returns the column that tells a row's partition, which stands first in
// the table's files; false for buckets, which are not a column. A day is a date, an
// hour the instant of its start, a month its label.
func (s Scheme) Field() (record.Field, bool) {
	kind := map[Unit]record.Kind{Hour: record.Timestamp, Day: record.Date, Month: record.String}[s.Unit]
	if kind == 0 {
		return record.Field{}, false
	}
	return record.Field{Name: string(s.Unit), Kind: kind}, true
}

// Value returns what the column of [Scheme.Field] holds for a label: days since the epoch
// for a day, microseconds for an hour. That of a month is the label itself, and value is 0.
func (s Scheme) Value(label string) (value int64, err error) {
	slot, err := s.Parse(label)
	if err != nil {
		return 0, err
	}
	switch s.Unit {
	case Day:
		t, err := time.Parse(dayLayout, label)
		return t.Unix() / (24 * 60 * 60), err
	case Hour:
		return slot.From, nil
	}
	return 0, nil
}

// Dir returns the name of a partition in paths and manifests: "day=2011-11-01", "bucket=0007".
func (s Scheme) Dir(label string) string {
	if !s.ByTime() {
		return "bucket=" + label
	}
	return string(s.Unit) + "=" + label
}

// Bucket returns the bucket of a key.
func (s Scheme) Bucket(key []byte) int { return int(xxh3.Hash(key) % uint64(s.Buckets)) }

// BucketLabel returns the label of a bucket: "0007".
func BucketLabel(bucket int) string { return fmt.Sprintf("%04d", bucket) }

// ParseBucket reads a bucket's label.
func (s Scheme) ParseBucket(label string) (int, error) {
	n, err := strconv.Atoi(label)
	if err != nil || n < 0 || n >= s.Buckets || BucketLabel(n) != label {
		return 0, fmt.Errorf("%q is not one of %d buckets", label, s.Buckets)
	}
	return n, nil
}

// Compare orders labels as their partitions lie in time, or by bucket. Labels
// that are not of the scheme are ordered as strings.
func (s Scheme) Compare(a, b string) int {
	const hour = len("2006-01-02T15")
	if s.Unit == Hour && a != b && len(a) > hour && len(b) > hour && a[:hour] == b[:hour] {
		// One clock hour, twice: what has the greater offset came first.
		ia, errA := hourInstant(a)
		ib, errB := hourInstant(b)
		if errA == nil && errB == nil && ia != ib {
			if ia < ib {
				return -1
			}
			return 1
		}
	}
	return strings.Compare(a, b)
}
