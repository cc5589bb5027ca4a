package plan

import (
	"math"
	"slices"

	"hindcast/internal/partition"
	"hindcast/internal/spec"
	"hindcast/internal/unit"
)

// Summary is what a plan comes to. Of the tail it knows offsets, not yet what
// they hold: its share in shards and amplification is an estimate.
type Summary struct {
	Segments  int        `json:"segments"`   // that are read
	RowGroups int        `json:"row_groups"` // of these segments
	Rows      int64      `json:"rows"`       // of segments, in the read ranges
	Bytes     unit.Bytes `json:"bytes"`
	// TailRecords is how many offsets are captured from the brokers: at most so many records.
	TailRecords int64 `json:"tail_records"`
	// Stored is what is captured from tiered storage; nil where that is nothing.
	Stored *StoredSummary `json:"stored,omitempty"`
	// Pruned rows lie in the read ranges, but provably outside the window: they are not read.
	PrunedRows  int64      `json:"pruned_rows"`
	PrunedBytes unit.Bytes `json:"pruned_bytes"`
	// Shards is how many shares workers take, those of Divided slots among them.
	Shards  int       `json:"shards"`
	Divided []Divided `json:"divided,omitempty"`
	// Slots is how many partitions are replaced, of all tables. Where SlotsMayGrow, they are those that the segments show: a run
	// over the whole log replaces those of the tail's events, too.
	Slots        int  `json:"slots"`
	SlotsMayGrow bool `json:"slots_may_grow,omitempty"`
	// ReadRows and ReadBytes are what all shards read, the same row group as often as it is read. They include what is captured.
	ReadRows  int64      `json:"read_rows"`
	ReadBytes unit.Bytes `json:"read_bytes"`
	// Requests is about how many the store gets when the shards read: one an input for its footer, and one a row group where the segment
	// is not small enough to come with its footer.
	Requests int64 `json:"requests"`
	// Listed is what it took to make the plan.
	Listed Cost `json:"listed,omitzero"`
	// Amplification is how often a row is read, on average of those that are.
	Amplification float64            `json:"amplification"`
	Partitions    []PartitionSummary `json:"partitions"`
}

// StoredSummary is what is captured from tiered storage.
type StoredSummary struct {
	Segments int        `json:"segments"`
	Bytes    unit.Bytes `json:"bytes"`   // about, as the brokers had them
	Records  int64      `json:"records"` // offsets: at most so many records
}

// Divided is a partition of tables with too many rows for one worker.
type Divided struct {
	Slot    string   `json:"slot"`
	Tables  []string `json:"tables"`
	Rows    int64    `json:"rows"`
	Workers int      `json:"workers"`
	// ByKey says that each of the workers reads all rows, and takes some of the keys: not all of the tables can be merged of parts of the log.
	ByKey bool `json:"by_key,omitempty"`
}

// Captured is how many offsets are captured, from tiered storage and from the brokers.
func (s *Summary) Captured() int64 {
	if s.Stored == nil {
		return s.TailRecords
	}
	return s.TailRecords + s.Stored.Records
}

// PartitionSummary is the part of one topic partition.
type PartitionSummary struct {
	Partition int32  `json:"partition"`
	Read      Ranges `json:"read"`
	Segments  int    `json:"segments"`
	Rows      int64  `json:"rows"`
	Tail      Ranges `json:"tail,omitempty"`   // from the brokers
	Stored    Ranges `json:"stored,omitempty"` // from tiered storage
	// RecordTime bounds the record times of the row groups that are in the read range; nil where one is unknown.
	RecordTime *Span `json:"record_time,omitempty"`
}

// Summary adds the plan up.
func (p *Plan) Summary() (Summary, error) {
	var s Summary
	for i := range p.Partitions {
		part := &p.Partitions[i]
		ps := PartitionSummary{Partition: part.Partition, Read: part.Read, Segments: len(part.Segments), Tail: part.FromBrokers(), Stored: part.StoredOffsets()}
		for j := range part.Segments {
			use := &part.Segments[j]
			for _, c := range use.pieces(use.Keep, nil) {
				s.RowGroups++
				s.Bytes += c.bytes()
				ps.Rows += c.rows
				if t := use.RowGroups[c.group].RecordTime; ps.Rows == c.rows {
					ps.RecordTime = t
				} else {
					ps.RecordTime = hull(ps.RecordTime, t)
				}
			}
		}
		s.Segments += ps.Segments
		s.Rows += ps.Rows
		s.TailRecords += ps.Tail.Len()
		for _, r := range part.Stored {
			if s.Stored == nil {
				s.Stored = &StoredSummary{}
			}
			s.Stored.Segments, s.Stored.Bytes, s.Stored.Records = s.Stored.Segments+r.Segments, s.Stored.Bytes+r.Bytes, s.Stored.Records+r.Offsets.Len()
		}
		s.Partitions = append(s.Partitions, ps)
	}
	shards, skipped, err := p.shards(p.expectTail(s))
	if err != nil {
		return Summary{}, err
	}
	for _, k := range skipped {
		if k.Reason == Pruned {
			s.PrunedRows, s.PrunedBytes = s.PrunedRows+k.Offsets.Len(), s.PrunedBytes+k.Bytes
		}
	}
	s.Listed = p.Listed
	s.SlotsMayGrow = p.Window == nil && s.Captured() > 0 && slices.ContainsFunc(p.Spec.Outputs, spec.Output.ByTime)
	for _, o := range p.Spec.Outputs {
		s.Slots += o.Scheme.Buckets
	}
	for _, sh := range shards {
		s.Slots += len(sh.Slots) * len(sh.Tables)
		workers := sh.Parts
		if workers == nil {
			workers = []Shard{sh}
		} else {
			s.Divided = append(s.Divided, Divided{sh.Slots[0].Label, sh.Tables, sh.Rows, len(workers), workers[0].Keys.Of > 0})
		}
		s.Shards += len(workers)
		for _, sh := range workers {
			s.ReadRows, s.ReadBytes = s.ReadRows+sh.Rows, s.ReadBytes+sh.Bytes
			for _, in := range sh.Inputs {
				if s.Requests++; in.Size > tinySegment {
					s.Requests += int64(len(in.RowGroups))
				}
			}
		}
	}
	if once := s.Rows + s.Captured() - s.PrunedRows; once > 0 {
		s.Amplification = float64(s.ReadRows) / float64(once)
	}
	return s, nil
}

// expectTail describes the captured segments that are likely: one for each range of the
// tail, of records as large as the segments' are. Their events happened after those of the segments, in the window; over the whole log
// when the last one did, so that no partition is counted that may never be.
func (p *Plan) expectTail(s Summary) []Segment {
	var last *Span
	for _, c := range p.pieces(nil) {
		if t := c.event; p.Window == nil && t != nil && partition.Placeable(t.Max) && (last == nil || t.Max > last.Max) {
			last = &Span{t.Max, t.Max}
		}
	}
	perRow := 0.0
	if s.Rows > 0 {
		perRow = float64(s.Bytes) / float64(s.Rows)
	} else if s.Stored != nil {
		perRow = float64(s.Stored.Bytes) / float64(s.Stored.Records)
	}
	var out []Segment
	for i, part := range p.Partitions {
		event := last
		if t := s.Partitions[i].RecordTime; p.Window != nil {
			event = &Span{p.Window.To - 1, p.Window.To - 1}
			if t != nil {
				event.Min = min(event.Min, t.Max)
			}
		}
		for _, r := range part.Tail {
			size := unit.Bytes(math.Round(perRow * float64(r.Len())))
			out = append(out, Segment{
				Partition: part.Partition, First: r.First, Next: r.Next, Rows: r.Len(), Size: size, Captured: true,
				RowGroups: []RowGroup{{Rows: r.Len(), Bytes: size, First: r.First, Next: r.Next, EventTime: event}},
			})
		}
	}
	return out
}
