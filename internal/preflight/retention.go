package preflight

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"hindcast/internal/plan"
	"hindcast/internal/spec"
	"hindcast/internal/unit"
)

// margin is how long what is read should be kept at least: a run that fails is repeated by a person.
const margin = spec.Day

// limit is when brokers may begin to delete what is read of a partition, by one of their settings.
type limit struct {
	setting   string
	partition int32
	offset    int64 // the first that is read
	at        int64 // µs; math.MaxInt64: never
	unknown   string
}

// retention asks whether what the run reads from the brokers will be there until it has been read. Brokers delete segments whose last record is
// past retention, so a record is there for at least that long; how much longer is up to the size of their segments.
func (c *checker) retention() Finding {
	if !c.captures() && !c.tiered() {
		return Finding{Rule: Retention, State: OK, Text: "nothing is read from the brokers"}
	}
	if _, ok := c.Facts.Config["cleanup.policy"]; !ok {
		return c.unknown(Retention, AskConfig, "how long the log is kept is not known")
	}
	if !strings.Contains(c.Facts.Config["cleanup.policy"], "delete") {
		return Finding{Rule: Retention, State: OK, Text: "the topic's log has no retention (cleanup.policy=" + c.Facts.Config["cleanup.policy"] + ")"}
	}
	tail := int64(0)
	for _, p := range c.Plan.Partitions {
		tail += p.Tail.Len()
	}
	takes := Estimate(tail, c.Rows)
	done := c.Now + int64(takes)
	first, unknown := c.earliest("retention.ms", "retention.bytes")
	f := Finding{Rule: Retention, Fix: "keep the log longer until the run has ended (retention.ms, retention.bytes), or archive it first (hindcast archive)"}
	switch {
	case first.at <= c.Now:
		f.State = Refuse
		f.Text = fmt.Sprintf("%s has passed what is to be read: partition %d, offset %d, may be deleted at any moment", first.setting, first.partition, first.offset)
		f.Fix += "; if a run that fails for it is no harm, accept it: --accept retention"
	case first.at <= done:
		f.State = Refuse
		f.Text = fmt.Sprintf("%s reaches partition %d, offset %d, at %s, but the run will take about %s, until %s",
			first.setting, first.partition, first.offset, stamp(first.at), takes, stamp(done))
		f.Fix += "; if a run that fails for it is no harm, accept it: --accept retention"
	case unknown != "":
		return Finding{Rule: Retention, State: Unknown, Text: "when retention reaches what is to be read is not known", Why: unknown, Fix: f.Fix}
	case first.at <= c.Now+int64(margin):
		f.State = Warn
		f.Text = fmt.Sprintf("%s reaches partition %d, offset %d, at %s: a run that has to be repeated later may find it gone",
			first.setting, first.partition, first.offset, stamp(first.at))
	default:
		return c.local(takes, first)
	}
	return f
}

// local is the finding of a log that is kept for long enough: brokers with tiered storage may keep only a part of it on their own disks.
func (c *checker) local(takes spec.Duration, first limit) Finding {
	f := Finding{Rule: Retention, State: OK}
	f.Text = "the log is kept for ever"
	if first.at != math.MaxInt64 {
		f.Text = fmt.Sprintf("%s reaches what is to be read at %s; the run takes about %s", first.setting, stamp(first.at), takes)
	}
	if c.Facts.Config["remote.storage.enable"] != "true" {
		return f
	}
	near, _ := c.earliest("local.retention.ms", "local.retention.bytes")
	if near.at <= c.Now+int64(takes) {
		f.State = Warn
		f.Text = fmt.Sprintf("%s has moved partition %d, offset %d, to tiered storage: the brokers fetch it from there for the run, slowly; ", near.setting, near.partition, near.offset) + f.Text
		f.Fix = "read the tiered segments from the bucket itself (source.segments.tiered)"
	}
	return f
}

// earliest is when brokers may begin to delete what is read, by a limit of age or of size. Where one is not known for a partition, unknown says why.
func (c *checker) earliest(age, size string) (first limit, unknown string) {
	first = limit{setting: age, at: math.MaxInt64}
	for _, p := range c.Plan.Partitions {
		facts, _ := c.Facts.partition(p.Partition)
		var limits []limit
		if from := stored(p); len(from) > 0 && !strings.HasPrefix(age, "local.") {
			at, timed := c.storedAt(p.Partition, from[0].First)
			limits = append(limits, c.byAge(age, from[0].First, at, timed))
		}
		if from := served(p); len(from) > 0 {
			at, timed := c.timeOf(p.Partition, from[0].First, facts)
			limits = append(limits, c.byAge(age, from[0].First, at, timed), c.bySize(size, from[0].First, p, facts, at, timed))
		}
		for _, l := range limits {
			l.partition = p.Partition
			if l.unknown != "" && unknown == "" {
				unknown = fmt.Sprintf("partition %d: %s", p.Partition, l.unknown)
			}
			if l.unknown == "" && l.at < first.at {
				first = l
			}
		}
	}
	return first, unknown
}

// value returns a limit of the topic's settings: negative for none. A local one of -2 is that of the whole log.
func (c *checker) value(setting string) int64 {
	n, ok := c.Facts.setting(setting)
	if whole, isLocal := strings.CutPrefix(setting, "local."); isLocal && (n == -2 || !ok) {
		return c.value(whole)
	}
	if !ok {
		return -1
	}
	return n
}

func (c *checker) byAge(setting string, offset, at int64, timed bool) limit {
	ms := c.value(setting)
	l := limit{setting: fmt.Sprintf("%s=%d (%s)", setting, ms, spec.Duration(min(ms, math.MaxInt64/1000))*spec.Millisecond), offset: offset, at: math.MaxInt64}
	switch {
	case ms < 0:
	case !timed:
		l.unknown = "the record time of what is read first is not known"
	case ms < (math.MaxInt64-max(at, 0))/1000:
		l.at = at + ms*1000
	}
	return l
}

// bySize estimates when so much will have been written behind an offset that a log of the size limit no longer has it: from
// the size of the log, and from how fast records came since.
func (c *checker) bySize(setting string, offset int64, p plan.Partition, facts PartitionFacts, at int64, timed bool) limit {
	most := c.value(setting)
	l := limit{setting: fmt.Sprintf("%s=%d (%s)", setting, most, unit.Bytes(max(most, 0))), offset: offset, at: math.MaxInt64}
	end := p.Tail.Hull().Next
	switch {
	case most < 0:
		return l
	case facts.Bytes == 0 || end <= facts.Start:
		l.unknown = "the size of its log is not known, and " + l.setting
		return l
	}
	behind := end - offset
	perRecord := float64(facts.Bytes) / float64(end-facts.Start)
	left := float64(most)/perRecord - float64(behind) // records
	switch {
	case left <= 0:
		l.at = math.MinInt64
	case !timed || at >= c.Now:
		l.unknown = "how fast it is written to is not known, and " + l.setting
	default:
		if d := left / float64(behind) * float64(c.Now-at); d < float64(math.MaxInt64-c.Now)/2 {
			l.at = c.Now + int64(d)
		}
	}
	return l
}

// timeOf is a record time that the record at an offset is not much older than: its own, where the brokers were asked for it, or that of the last exported
// row group before it, or that of the first record that the log has.
func (c *checker) timeOf(partition int32, offset int64, facts PartitionFacts) (at int64, ok bool) {
	if n := facts.Needed; n != nil && n.Offset == offset {
		return n.Time, true
	}
	before := int64(-1)
	for _, s := range c.Inventory.Segments {
		if s.Partition != partition || s.Quality == plan.Unknown {
			continue
		}
		for _, g := range s.RowGroups {
			if g.Rows > 0 && g.RecordTime != nil && g.First < offset && min(g.Next, offset) > before {
				before, at, ok = min(g.Next, offset), g.RecordTime.Max, true
			}
		}
	}
	for _, s := range c.storedSegments(partition) {
		if s.Latest != nil && s.Offsets.First < offset && min(s.Offsets.Next, offset) > before {
			before, at, ok = min(s.Offsets.Next, offset), *s.Latest, true
		}
	}
	if f := facts.First; f != nil && f.Offset <= offset && (!ok || f.Offset >= before) {
		return f.Time, true
	}
	return at, ok
}

// tiered reports whether the run reads anything from tiered storage.
func (c *checker) tiered() bool {
	return slices.ContainsFunc(c.Plan.Partitions, func(p plan.Partition) bool { return len(p.Stored) > 0 })
}

func (c *checker) storedSegments(partition int32) []plan.StoredSegment {
	for i := range c.Inventory.Stored {
		if c.Inventory.Stored[i].Partition == partition {
			return c.Inventory.Stored[i].Segments
		}
	}
	return nil
}

// storedAt is the record time by which brokers will delete the tiered segment that has an offset: its latest.
func (c *checker) storedAt(partition int32, offset int64) (at int64, ok bool) {
	for _, s := range c.storedSegments(partition) {
		if s.Offsets.Contains(offset) && s.Latest != nil {
			return *s.Latest, true
		}
	}
	return 0, false
}

// stamp writes an instant to the second.
func stamp(t int64) string {
	return spec.FormatInstant(t - t%int64(spec.Second))
}

// Needed lists, by partition, the first offset that the plan reads from the brokers.
func Needed(p *plan.Plan) map[int32]int64 {
	out := map[int32]int64{}
	for _, part := range p.Partitions {
		if from := served(part); len(from) > 0 {
			out[part.Partition] = from[0].First
		}
	}
	return out
}

// Search lists, by partition, the offsets that no exported segment has beside those that the plan reads of segments: a transaction's marker may
// lie there, which tells whether the exports hold what it aborted.
func Search(p *plan.Plan, inv plan.Inventory) map[int32]plan.Ranges {
	out := map[int32]plan.Ranges{}
	for _, part := range p.Partitions {
		if holes := holesOf(part, inv); len(holes) > 0 {
			out[part.Partition] = holes
		}
	}
	return out
}

// holesOf are the offsets from the first exported one that is read to the first behind the last that no segment has.
func holesOf(part plan.Partition, inv plan.Inventory) plan.Ranges {
	read := exportedOf(part)
	if len(read) == 0 {
		return nil
	}
	var all []plan.Range
	for i := range inv.Segments {
		if s := &inv.Segments[i]; s.Partition == part.Partition {
			all = append(all, offsetsOf(s)...)
		}
	}
	exported := plan.RangesOf(all...)
	end := read.Hull().Next
	if i := slices.IndexFunc(exported, func(r plan.Range) bool { return r.Contains(end) }); i >= 0 {
		end = exported[i].Next
	}
	return plan.Ranges{{First: read[0].First, Next: end + 1}}.Minus(exported)
}

func offsetsOf(s *plan.Segment) []plan.Range {
	switch {
	case s.Offsets != nil:
		return s.Offsets
	case s.Rows == 0 || s.Quality == plan.Unknown:
		return nil
	}
	return []plan.Range{{First: s.First, Next: s.Next}}
}
