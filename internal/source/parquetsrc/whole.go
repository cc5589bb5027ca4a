package parquetsrc

import (
	"fmt"

	"hindcast/internal/parquetfile"
	"hindcast/internal/plan"
)

// The keys under which an archived segment's footer tells what was copied into it.
const (
	RangeKey   = "hindcast.range"    // as [plan.Range]: first offset, and the one after the last; what has no row there has no record
	TopicKey   = "hindcast.topic"    // the topic's name
	TopicIDKey = "hindcast.topic-id" // empty for brokers that have none
	EpochKey   = "hindcast.epoch"    // see [plan.Tail.Epoch]: no record of the range is of a later one; -1 where it is not known
)

// whole takes in what an archived segment vouches for; see [plan.Segment.Whole].
func (s *described) whole(f *parquetfile.File, topic string) error {
	noted, ok := f.KeyValue(RangeKey)
	if !ok {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return &parquetfile.Error{File: s.Key, RowGroup: -1, Reason: fmt.Sprintf("its footer says that it was archived, and "+format, args...)}
	}
	copied, err := plan.ParseRange(noted)
	if err != nil {
		return refuse("%v; archive it again", err)
	}
	rows := plan.Range{First: s.First, Next: s.Next}
	of, _ := f.KeyValue(TopicKey)
	switch {
	case of != topic:
		return refuse("of the topic %s; move it away", of)
	case s.bare:
		return refuse("it has no column of offsets; archive it again")
	case s.Rows > 0 && rows.Clip(copied) != rows, s.Rows == 0 && s.hasEdge() && !copied.Contains(s.object.offset):
		return refuse("of the offsets %s, but it holds, or is named by, %s; it was renamed or written over: archive it again", copied, rows)
	}
	if s.Rows > 0 && s.Offsets == nil && rows != copied {
		s.Offsets = plan.Ranges{rows}
	}
	s.TopicID, _ = f.KeyValue(TopicIDKey)
	s.First, s.Next, s.Whole = copied.First, copied.Next, true
	return nil
}
