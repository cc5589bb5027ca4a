// Package partition cuts tables: by hour, day or month of a named zone, or by
// key bucket. It is pure; zones come from the tz database embedded in the binary.
package partition

// Unit is the calendar length of a time partition.
type Unit string

// The units of time partitions.
const (
	Hour  Unit = "hour"
	Day   Unit = "day"
	Month Unit = "month"
)

// Scheme says how a table is cut. It belongs to the table and never changes:
// either Unit, Column and Zone are set, or Buckets is.
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
// Labels sort as time does and read "2011-11-01" (day), "2011-11" (month) and
// "2024-11-03T01-0400" (hour, always with the zone's offset, so that a repeated
// hour has two labels). In paths and manifests the label stands behind the unit: "day=2011-11-01".
type Slot struct {
	Label string `json:"label"`
	From  int64  `json:"from"`
	To    int64  `json:"to"`
}
