// Package plan turns what there is of a log into what a run reads: a cover of
// each topic partition by segments and the tail, the read range of a window,
// the shards. It owns promise 1: every offset of the read range is used once,
// and accounted for by one owner.
//
// It does no I/O, reads no clock, and gives the same plan for the same
// inventory in any order. It refuses rather than guesses: a hole, deleted
// history, a lateness that the segments contradict. Offsets are half-open ranges; times are
// microseconds since the epoch.
package plan

import (
	"hindcast/internal/blob"
	"hindcast/internal/partition"
	"hindcast/internal/spec"
	"hindcast/internal/unit"
)

// KafkaColumns names the columns of a segment that hold what Kafka knows of a record.
type KafkaColumns = spec.KafkaColumns

// Span is a range of times, both ends included, in microseconds.
type Span struct {
	Min int64 `json:"min"`
	Max int64 `json:"max"`
}

// RowGroup is the part of a segment that can be read by itself.
type RowGroup struct {
	Rows  int64      `json:"rows"`
	Bytes unit.Bytes `json:"bytes"` // as stored
	// First and Next span its rows' offsets, half-open. Those of a segment's groups ascend and do not overlap.
	First int64 `json:"first"`
	Next  int64 `json:"next"`
	// RecordTime bounds the record times; nil where unknown. A bound may be loose only if no row lies outside it.
	RecordTime *Span `json:"record_time,omitempty"`
	// EventTime has the least and greatest event time of the rows that have one: exact, or nil where unknown. Times that no table can be
	// cut by (see [partition.Placeable]) are left out where there are others.
	EventTime *Span `json:"event_time,omitempty"`
	// Timed says that every row is known to have an event time that a table can be cut by. A group without it
	// is never pruned: a row without such a time is a dead letter that must be seen.
	Timed bool `json:"timed,omitempty"`
	// Untimed says that every row is known to have none: that is why EventTime is nil.
	Untimed bool `json:"untimed,omitempty"`
}

// Quality says how well a segment's offsets are known.
type Quality string

// The qualities, the best first.
const (
	// Exact offsets are those of an offset column, or of the log itself.
	Exact Quality = ""
	// Derived offsets follow from the names of a partition's objects: as many rows lie in the segment as its name and its neighbour's leave room
	// for. It has no offset column: row n has the offset First+n.
	Derived Quality = "derived"
	// Unknown offsets cannot be told: the rows lie somewhere in First to Next, and Why says why no more is known. A plan does not use such a
	// segment, unless the inventory is one of [Inventory.AtLeastOnce].
	Unknown Quality = "unknown"
)

// String names the quality for people.
func (q Quality) String() string {
	if q == Exact {
		return "exact"
	}
	return string(q)
}

// Segment is an immutable piece of one topic partition's history.
type Segment struct {
	Key       string     `json:"key"`
	ETag      blob.ETag  `json:"etag"`
	Size      unit.Bytes `json:"size"`
	Partition int32      `json:"partition"`
	Quality   Quality    `json:"quality,omitempty"`
	Why       string     `json:"why,omitempty"` // of Unknown
	// First and Next span its offsets, half-open.
	//
	// Captured segments tile the range that was captured: the first begins where it begins, each begins where the one
	// before it ended, the last ends where it ends. So offsets without a record (transaction markers, compacted records)
	// lie inside a segment, and one that is lost is noticed. A range without any record gives one segment with no rows.
	First int64 `json:"first"`
	Next  int64 `json:"next"`
	Rows  int64 `json:"rows"`
	// Offsets are the rows' exact offsets, in ascending order in the file; nil where every offset from First to Next has its row.
	Offsets   Ranges     `json:"offsets,omitempty"`
	RowGroups []RowGroup `json:"row_groups"`
	// Captured says that the segment is a part of the tail, written by the run.
	Captured bool `json:"captured,omitempty"`
	// Whole says that First to Next is what was copied of the log into it, as its writer vouches: an offset between them without a row is one
	// without a record. Such segments need not begin and end with a row; captured ones are like that, too.
	Whole bool `json:"whole,omitempty"`
	// TopicID is that of the topic that it was copied of, where that is known: another's offsets are others.
	TopicID string `json:"topic_id,omitempty"`
}

// Tail is what the brokers have of a topic partition.
type Tail struct {
	Partition int32 `json:"partition"`
	Start     int64 `json:"start"` // the log start: the first offset that can be read
	End       int64 `json:"end"`   // pinned: one past the last offset that the run may read
	// Epoch is the leader's when End was pinned: no record before End is of a later one. -1 where the brokers do not say.
	Epoch int32 `json:"epoch,omitempty"`
}

// Stored is what the store of Kafka's tiered storage has of a topic partition, as the brokers copied it there. It is captured as the tail is, and
// the brokers are asked only for what the store does not have.
type Stored struct {
	Partition int32 `json:"partition"`
	// Offsets are those whose committed records the store has, each decided by it.
	Offsets Ranges `json:"offsets"`
	// Segments are those that are read, ascending. They may reach past Offsets, where a transaction is not decided yet.
	Segments []StoredSegment `json:"segments"`
	// Lacking says of offsets between segments, or past Offsets, why they cannot be read.
	Lacking []Lack `json:"lacking,omitempty"`
	// Epochs are the leaders' epochs of its records, ascending.
	Epochs []Epoch `json:"epochs,omitempty"`
}

// StoredSegment is a segment of tiered storage.
type StoredSegment struct {
	Key     string `json:"key"`     // of its log
	Offsets Range  `json:"offsets"` // that are read from it
	// Latest bounds the record times, in microseconds: none is later. Nil where that is not known.
	Latest *int64     `json:"latest,omitempty"`
	Bytes  unit.Bytes `json:"bytes"` // as the broker had it
}

// Lack is offsets that a store does not give.
type Lack struct {
	Offsets Range  `json:"offsets"`
	Why     string `json:"why"`
}

// Epoch is the first offset of a leader's epoch.
type Epoch struct {
	Epoch int32 `json:"epoch"`
	First int64 `json:"first"`
}

// Listing is what a source found in object storage.
type Listing struct {
	Segments []Segment `json:"segments"` // in any order
	Ignored  int       `json:"ignored"`  // objects that are not segments by their name (_SUCCESS, .crc, folders)
	// Passed counts those by why they were passed over.
	Passed map[string]int `json:"passed,omitempty"`
	// AtLeastOnce: see [Inventory.AtLeastOnce].
	AtLeastOnce bool `json:"at_least_once,omitempty"`
	// Notes are sentences for the user about what was found.
	Notes  []string `json:"notes,omitempty"`
	Listed Cost     `json:"listed,omitzero"`
}

// Cost is what it took to list and describe segments.
type Cost struct {
	Requests int64 `json:"requests"` // to the store
	Footers  int   `json:"footers"`  // that were read, one a segment
	// Scanned counts segments of which a column had to be read, since their footers do not prove their offsets, partition or times.
	Scanned int        `json:"scanned,omitempty"`
	Bytes   unit.Bytes `json:"bytes"` // that were asked for
}

// Inventory is all that is known of a topic when a plan is made.
type Inventory struct {
	Topic    string    `json:"topic"`
	TopicID  string    `json:"topic_id,omitempty"` // as the brokers have it
	Segments []Segment `json:"segments"`
	// Tails has one entry a topic partition where HasTail is set.
	Tails   []Tail `json:"tails,omitempty"`
	HasTail bool   `json:"has_tail"`
	// Stored has the topic partitions that tiered storage has a segment of, where the job reads that in place of Segments.
	Stored []Stored `json:"stored,omitempty"`
	// AsOf is the instant that the plan is made for, in microseconds: no window ends after it.
	AsOf    int64 `json:"as_of"`
	Ignored int   `json:"ignored"`
	// AtLeastOnce says that the log's offsets are not known at all: those of the segments, all of Quality Unknown and of partition 0, number their
	// rows, one after the other. The rows are cut by time and deduped by id; whether any is missing, or there twice without an id, cannot be told.
	AtLeastOnce bool           `json:"at_least_once,omitempty"`
	Passed      map[string]int `json:"passed,omitempty"` // of the listing
	Notes       []string       `json:"notes,omitempty"`  // of the listing
	Listed      Cost           `json:"listed,omitzero"`
}

// Options are what the user may set of a plan. The zero value is right.
type Options struct {
	// ShardRows is the number of rows at which a shard takes no further slot; 0 means DefaultShardRows.
	ShardRows int64
	// Merges are the tables whose transforms can merge what comes of parts of the log.
	Merges []string
	// AcceptGaps names holes that the user accepts: together they are, exactly, holes that the plan finds. One with an open end
	// accepts every hole of its partition from there on. One that names something else is refused.
	AcceptGaps []Gap
	// NoPrune does without the segments' time bounds: the whole log is read.
	NoPrune bool
	// Code is the digest of the job's code.
	Code string
}

// DefaultShardRows is the number of rows at which a shard takes no further slot.
const DefaultShardRows = 2_000_000

const (
	// partShards is how many times that a part of a slot has, at least, before the slot is divided: it costs its results being written and read once more.
	partShards = 8
	// MaxReadings is how often the same rows are read at most because keys are divided.
	MaxReadings = 4
)

// Plan is what a run reads, decided before the first event is read. It is
// written once; see [Plan.Digest].
type Plan struct {
	Format int    `json:"format"`
	Code   string `json:"code"`
	// SpecDigest is that of Spec, so that two plans are easily compared.
	SpecDigest string     `json:"spec_digest"`
	Spec       *spec.Spec `json:"spec"`
	Topic      string     `json:"topic"`
	TopicID    string     `json:"topic_id,omitempty"`
	AsOf       int64      `json:"as_of"`
	// Window is nil for a run over the whole log.
	Window    *spec.Window `json:"window"`
	ShardRows int64        `json:"shard_rows"`
	// Merges are the tables of which parts can be merged.
	Merges     []string    `json:"merges,omitempty"`
	NoPrune    bool        `json:"no_prune,omitempty"`
	Partitions []Partition `json:"partitions"` // of the topic, ascending
	// AcceptedGaps are the holes in the read ranges that the user accepted.
	AcceptedGaps []Gap `json:"accepted_gaps,omitempty"`
	// Warnings are sentences for the user: what was decided, and what is not proven.
	Warnings []string `json:"warnings,omitempty"`
	Ignored  int      `json:"ignored,omitempty"`
	// AtLeastOnce: see [Inventory.AtLeastOnce].
	AtLeastOnce bool `json:"at_least_once,omitempty"`
	Listed      Cost `json:"listed,omitzero"`
}

// Partition is what a run reads of one topic partition. Its read range is
// the union of what it reads of segments, Tail, Absent and Empty, which do not overlap.
type Partition struct {
	Partition int32 `json:"partition"`
	// Read is the read range: every one of its offsets is accounted for.
	Read Ranges `json:"read"`
	// Segments are those that the run reads, by their first offset.
	Segments []Use `json:"segments"`
	// Tail is what must be captured: those of Stored from tiered storage, all others from the brokers.
	Tail Ranges `json:"tail,omitempty"`
	// Stored are the parts of Tail that tiered storage has, ascending.
	Stored []StoredRange `json:"stored,omitempty"`
	// Absent are the offsets of accepted gaps.
	Absent Ranges `json:"absent,omitempty"`
	// Empty are offsets that hold no record, as segments prove; see [Segment.Whole].
	Empty Ranges `json:"empty,omitempty"`
	// Broker is what the brokers had when the ends were pinned; nil without a tail.
	Broker *Tail `json:"broker,omitempty"`
}

// StoredRange is what is captured from tiered storage in one read.
type StoredRange struct {
	Offsets  Range      `json:"offsets"`
	Segments int        `json:"segments"`
	Bytes    unit.Bytes `json:"bytes"` // about, as the broker had them
	// Epoch is that of the leader that took in the last of the offsets: the brokers' log is still this one if they have the epoch up to Offsets.Next.
	// Negative where it is not known.
	Epoch int32 `json:"epoch"`
	// Objects are all that is read, and nothing else is: what is under their keys must still be what was there when the plan was made. Whoever
	// listed the store fills them in.
	Objects []StoredObject `json:"objects"`
}

// StoredObject is an object of tiered storage.
type StoredObject struct {
	Key  string     `json:"key"`
	ETag blob.ETag  `json:"etag"`
	Size unit.Bytes `json:"size"`
}

// StoredOffsets are the offsets that are captured from tiered storage.
func (p *Partition) StoredOffsets() Ranges {
	var out Ranges
	for _, r := range p.Stored {
		out = out.add(r.Offsets)
	}
	return out
}

// FromBrokers are the offsets that are captured from the brokers.
func (p *Partition) FromBrokers() Ranges { return p.Tail.Minus(p.StoredOffsets()) }

// Use is a segment and what a run uses of it.
type Use struct {
	Segment
	// Keep are the offsets that are read from this segment and from no other; nil means all of its rows.
	Keep Ranges `json:"keep,omitempty"`
}

// Input is what one shard reads of one segment.
type Input struct {
	Partition int32      `json:"partition"`
	Segment   string     `json:"segment"` // the key: in the run's store if Captured, else in the source's
	ETag      blob.ETag  `json:"etag"`
	Size      unit.Bytes `json:"size"`
	Captured  bool       `json:"captured,omitempty"`
	// FirstOffset is set where the segment has no offset column: it is the offset of the segment's first row, and each row of the
	// segment, read or not, has the offset after the one before.
	FirstOffset *int64 `json:"first_offset,omitempty"`
	// RowGroups are read, ascending; of their rows, those of Keep (nil: all). Rows is how many these are.
	RowGroups []int  `json:"row_groups"`
	Keep      Ranges `json:"keep,omitempty"`
	Rows      int64  `json:"rows"`
	// Owned are the offsets that this shard accounts for where a row belongs to no slot: its event lies outside the
	// window, or its event time cannot be read. Every offset read is owned by one shard of each scheme.
	// A row of a slot is always accounted for by the shard that has the slot, owned or not.
	Owned Ranges `json:"owned,omitempty"`
}

// Shard is one worker's share of a run: some slots of tables cut by time, or
// one topic partition of tables cut by key bucket.
type Shard struct {
	ID     string   `json:"id"`
	Tables []string `json:"tables"`
	// Scheme is that of each of the tables.
	Scheme partition.Scheme `json:"scheme"`
	// Slots are contiguous and ascending; nil for bucket tables. A shard may have no inputs: its slots have no rows.
	Slots []partition.Slot `json:"slots,omitempty"`
	// TopicPartition is set for bucket tables.
	TopicPartition *int32 `json:"topic_partition,omitempty"`
	// Inputs are sorted by topic partition, then first offset.
	Inputs []Input    `json:"inputs"`
	Rows   int64      `json:"rows"` // that are read
	Bytes  unit.Bytes `json:"bytes"`

	// Parts are what workers take of a shard that is too much for one, whose results it gathers; else it is one worker's.
	Parts []Shard `json:"-"`
	// Slice says that the shard is a part of another: its inputs are a stretch of that one's, in the order of the log.
	Slice bool `json:"slice,omitempty"`
	// Keys say, where Of is set, that the shard is a part of another by its keys: it reads all of the inputs.
	Keys Share `json:"keys,omitzero"`
}

// Share is some of the keys, divided by their hashes: those of number Number of Of.
type Share struct {
	Number int `json:"number"`
	Of     int `json:"of"`
}

// SkipReason says why no shard accounts for offsets of the read range.
type SkipReason string

// The reasons.
const (
	Pruned SkipReason = "pruned" // the row group's bounds prove that no event lies in the window
	NoData SkipReason = "empty"  // there is no record: transaction markers, compaction
	Absent SkipReason = "gap"    // missing, and accepted by name
)

// Skip is offsets of the read range that no shard reads.
type Skip struct {
	Partition int32      `json:"partition"`
	Captured  bool       `json:"captured,omitempty"` // of the tail, not of segments
	Reason    SkipReason `json:"reason"`
	Offsets   Ranges     `json:"offsets"`
	Bytes     unit.Bytes `json:"bytes,omitempty"`
}

// Skipped is everything that no shard reads, by topic partition. Together with what
// the shards of any one scheme own it is the read range, exactly.
type Skipped []Skip
