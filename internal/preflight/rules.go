package preflight

import (
	"fmt"
	"slices"
	"strings"

	"hindcast/internal/plan"
	"hindcast/internal/spec"
)

// checker asks the rules.
type checker struct{ Input }

func (c *checker) topic() string { return c.Inventory.Topic }

// unknown is the finding of a rule that the brokers do not answer.
func (c *checker) unknown(r Rule, q Question, what string) Finding {
	f := Finding{Rule: r, State: Unknown, Text: what, Why: c.Facts.why(q)}
	switch {
	case !c.Facts.Asked:
		f.Fix = "declare source.tail, or make sure of it yourself"
	case q == AskConfig:
		f.Fix = "allow DescribeConfigs on the topic, or make sure of it yourself"
	case q == AskSizes:
		f.Fix = "allow Describe on the cluster, or make sure of it yourself"
	}
	return f
}

// captures reports whether the run reads anything from the brokers.
func (c *checker) captures() bool {
	return slices.ContainsFunc(c.Plan.Partitions, func(p plan.Partition) bool { return len(served(p)) > 0 })
}

// served are the offsets that brokers are asked for: those of the tail that tiered storage does not have.
func served(p plan.Partition) plan.Ranges { return p.Tail.Minus(stored(p)) }

// stored are the offsets that are read from tiered storage.
func stored(p plan.Partition) plan.Ranges {
	all := make([]plan.Range, len(p.Stored))
	for i, s := range p.Stored {
		all[i] = s.Offsets
	}
	return plan.RangesOf(all...)
}

func (c *checker) compacted() Finding {
	policy, ok := c.Facts.Config["cleanup.policy"]
	switch {
	case !ok:
		return c.unknown(Compacted, AskConfig, "whether the topic is compacted is not known")
	case !strings.Contains(policy, "compact"):
		return Finding{Rule: Compacted, State: OK, Text: "the topic is not compacted (cleanup.policy=" + policy + ")"}
	}
	what := fmt.Sprintf("topic %s is compacted (cleanup.policy=%s): its log keeps the last record of each key", c.topic(), policy)
	if c.Plan != nil && !c.captures() && !c.tiered() && len(c.Plan.AcceptedGaps) == 0 {
		return Finding{
			Rule: Compacted, State: Warn, Text: what + "; the run reads none of it, and no offset of the read range is missing among the segments",
			Fix: "go on exporting before compaction comes by (min.compaction.lag.ms)",
		}
	}
	return Finding{
		Rule: Compacted, State: Refuse, Text: what + ", so earlier records of the window may be gone, and that is not to be told from a transaction's marker",
		Fix: "use segments that were exported before compaction came by; if the last record of each key is all that the job needs, accept it: --accept compacted",
	}
}

func (c *checker) deleted() Finding {
	var gone []string
	for _, p := range c.Plan.Partitions {
		facts, ok := c.Facts.partition(p.Partition)
		if !ok {
			continue
		}
		if lost := served(p).Clip(plan.Range{Next: facts.Start}); len(lost) > 0 {
			gone = append(gone, fmt.Sprintf("partition %d: the offsets %s, which the log now starts behind, at %d", p.Partition, lost, facts.Start))
		}
	}
	absent := int64(0)
	for _, p := range c.Plan.Partitions {
		absent += p.Absent.Len()
	}
	_, unasked := c.Facts.NotKnown[AskOffsets]
	switch {
	case len(gone) > 0:
		return Finding{
			Rule: Deleted, State: Refuse, Final: true, Text: "records were deleted while the plan was made: " + some(gone),
			Fix: "plan again: what no segment has shows as a gap then; keep the log longer until the run has ended (retention.ms)",
		}
	case c.captures() && (unasked || !c.Facts.Asked):
		return c.unknown(Deleted, AskOffsets, "whether the log still starts before what is read of it is not known")
	case len(c.Plan.AcceptedGaps) > 0:
		text := fmt.Sprintf("%d offsets of the read range are missing, and accepted as gaps", absent)
		return Finding{Rule: Deleted, State: Warn, Text: text, Accepted: true}
	}
	return Finding{Rule: Deleted, State: OK, Text: "every offset of the read range is there"}
}

func (c *checker) transactions() Finding {
	if !c.captures() {
		return Finding{Rule: Transactions, State: OK, Text: "nothing is read from the brokers"}
	}
	if _, unasked := c.Facts.NotKnown[AskOffsets]; unasked || !c.Facts.Asked {
		return c.unknown(Transactions, AskOffsets, "whether all transactions before the pinned ends are decided is not known")
	}
	var open []string
	later := 0
	for _, p := range c.Plan.Partitions {
		facts, ok := c.Facts.partition(p.Partition)
		if !ok || len(served(p)) == 0 {
			continue
		}
		end := served(p).Hull().Next
		var who []string
		for _, t := range facts.Open {
			if t.Since >= end {
				later++
				continue
			}
			who = append(who, t.String())
		}
		if facts.Stable < end {
			what := fmt.Sprintf("partition %d: open at offset %d, before the end %d", p.Partition, facts.Stable, end)
			if len(who) > 0 {
				what += " (" + strings.Join(who, ", ") + ")"
			}
			open = append(open, what)
		}
	}
	if len(open) > 0 {
		return Finding{
			Rule: Transactions, State: Refuse, Final: true, Text: "transactions are open in what is to be read: " + some(open),
			Fix: "commit or abort them (kafka-transactions.sh abort ends one that hangs), then plan again",
		}
	}
	text := "all transactions before the pinned ends are decided"
	if later > 0 {
		text += fmt.Sprintf("; %d that are open lie behind them and are not read", later)
	}
	return Finding{Rule: Transactions, State: OK, Text: text}
}

// String describes the transaction.
func (t OpenTransaction) String() string {
	s := fmt.Sprintf("producer %d since offset %d", t.Producer, t.Since)
	if t.ID != "" {
		s += ", transactional id " + t.ID
	}
	if t.Timeout > 0 {
		s += ", timeout " + (spec.Duration(t.Timeout) * spec.Millisecond).String()
	}
	return s
}

func (c *checker) uncommitted() Finding {
	fix := "have the exporter read committed records only (consumer.override.isolation.level=read_committed) and export again; " +
		"if the job's dedupe or the data make aborted records harmless, accept it: --accept uncommitted"
	var wrong, open []string
	exported, searched := false, true
	for _, p := range c.Plan.Partitions {
		has := exportedOf(p)
		if len(has) == 0 {
			continue
		}
		exported = true
		facts, _ := c.Facts.partition(p.Partition)
		if at := slices.IndexFunc(facts.Aborted, has.Contains); at >= 0 {
			wrong = append(wrong, fmt.Sprintf("partition %d has offset %d, with which an aborted transaction begins", p.Partition, facts.Aborted[at]))
			continue
		}
		if none := c.vouched(p.Partition).Minus(c.copied(p.Partition)); len(has.Minus(has.Minus(none))) > 0 {
			wrong = append(wrong, fmt.Sprintf("partition %d has offset %d, which holds no committed record, as an archived segment shows",
				p.Partition, has.Minus(has.Minus(none))[0].First))
			continue
		}
		// Where there is no hole no transaction ended, since its marker takes an offset that no reader sees. One that ends behind shows
		// in the brokers' list for the offset behind.
		holes := holesOf(p, c.Inventory).Minus(c.decided(p.Partition))
		if rest := holes.Minus(facts.Searched); len(rest) > 0 {
			searched = searched && rest.Len() == 1 && rest[0].First == holes.Hull().Next-1
			open = append(open, fmt.Sprintf("partition %d: %s", p.Partition, rest))
		}
	}
	switch {
	case c.Plan.AtLeastOnce:
		return Finding{Rule: Uncommitted, State: Unknown, Text: "whether the exports hold records of aborted transactions is not known", Why: "they have no offsets", Fix: fix}
	case !exported:
		return Finding{Rule: Uncommitted, State: OK, Text: "no exported segment is read"}
	case len(wrong) > 0:
		return Finding{Rule: Uncommitted, State: Refuse, Text: "the exports hold records of aborted transactions: " + some(wrong), Fix: fix}
	case len(open) == 0:
		return Finding{Rule: Uncommitted, State: OK, Text: "the exports hold no record of an aborted transaction"}
	case !c.Facts.Asked:
		return c.unknown(Uncommitted, AskAborted, "whether the exports hold records of aborted transactions is not known")
	}
	f := c.unknown(Uncommitted, AskAborted, "whether the exports hold records of aborted transactions is not known for what ended at the offsets of "+some(open))
	if searched && c.Facts.NotKnown[AskAborted] == "" {
		f.Text = "whether the last exported records were aborted is not known"
		f.Why = "the brokers no longer have what follows them, at the offsets of " + some(open)
	}
	f.Fix = fix
	return f
}

// vouched are the offsets of a partition of which segments vouch for every committed record, and copied those that have one there.
func (c *checker) vouched(partition int32) plan.Ranges {
	return c.ofWhole(partition, func(s *plan.Segment) []plan.Range { return []plan.Range{{First: s.First, Next: s.Next}} })
}

// decided are the offsets at which no transaction ends that matters to segments which vouch for their records: those were decided when they were copied, so
// that what follows the last of them does not matter, either.
func (c *checker) decided(partition int32) plan.Ranges {
	return c.ofWhole(partition, func(s *plan.Segment) []plan.Range { return []plan.Range{{First: s.First, Next: s.Next + 1}} })
}

func (c *checker) copied(partition int32) plan.Ranges { return c.ofWhole(partition, offsetsOf) }

func (c *checker) ofWhole(partition int32, of func(*plan.Segment) []plan.Range) plan.Ranges {
	var all []plan.Range
	for i := range c.Inventory.Segments {
		if s := &c.Inventory.Segments[i]; s.Partition == partition && s.Whole {
			all = append(all, of(s)...)
		}
	}
	return plan.RangesOf(all...)
}

// exportedOf are the offsets that a partition reads from segments.
func exportedOf(p plan.Partition) plan.Ranges {
	var all []plan.Range
	for i := range p.Segments {
		if s := &p.Segments[i]; s.Keep != nil {
			all = append(all, s.Keep...)
		} else {
			all = append(all, offsetsOf(&s.Segment)...)
		}
	}
	return plan.RangesOf(all...)
}

func (c *checker) clock() Finding {
	kind, ok := c.Facts.Config["message.timestamp.type"]
	if !ok {
		return c.unknown(Clock, AskConfig, "whose clock the record times are is not known")
	}
	if kind == "LogAppendTime" {
		return Finding{Rule: Clock, State: OK, Text: "record times are the brokers' (LogAppendTime): lateness is how long an event may take to arrive"}
	}
	ahead := spec.Hour
	if c.Plan != nil {
		ahead = max(ahead, c.Plan.Spec.Source.Event.Ahead)
	}
	var future []string
	for p, facts := range c.Facts.Partitions {
		if l := facts.Latest; l != nil && l.Time > c.Now+int64(ahead) {
			future = append(future, fmt.Sprintf("partition %d has one at offset %d of %s", p, l.Offset, spec.FormatInstant(l.Time)))
		}
	}
	if len(future) > 0 {
		return Finding{
			Rule: Clock, State: Warn, Text: "record times are the producers' (CreateTime), and some lie in the future: " + some(future) +
				"; segments with such a record are kept by retention and are not told to be past the window",
			Fix: "correct the producer's clock; have the brokers refuse such records (message.timestamp.after.max.ms)",
		}
	}
	return Finding{
		Rule: Clock, State: OK,
		Text: "record times are the producers' (" + kind + "): lateness and ahead are between two times that producers state, and must allow for their clocks",
	}
}

// partitions asks whether partitions were added in the read range. Kafka adds them behind those that there are; a key may then lie in another
// partition than before, so that its events have no one order any more.
func (c *checker) partitions() Finding {
	if !c.Facts.Asked {
		return c.unknown(Partitions, AskTimes, "whether the topic has partitions that were never exported, or were added in the read range, is not known")
	}
	exported := map[int32]bool{}
	for _, s := range c.Inventory.Segments {
		exported[s.Partition] = true
	}
	var missed []string
	for p := range c.Facts.Partitions {
		if n := int32(p); len(exported) > 0 && !exported[n] && c.Facts.Partitions[p].Stable > 0 { //nolint:gosec // Kafka counts them so
			missed = append(missed, fmt.Sprintf("partition %d", n))
		}
	}
	begins, unknown := c.begins()
	added := c.added(begins)
	switch {
	case len(added) > 0:
		return Finding{
			Rule: Partitions, State: Warn, Text: "partitions seem to have been added in the read range: " + some(added) +
				"; before and after, a key's events may lie in different partitions, and have no one order there",
			Fix: "all partitions are read; make sure that the transform goes by the event's version or time, not by the order of arrival",
		}
	case len(missed) > 0:
		return Finding{
			Rule: Partitions, State: Warn, Text: "no segment was exported of " + some(missed) + ": all of it is read from the brokers",
			Fix: "see whether the exporter knows of the topic's partitions",
		}
	case len(unknown) > 0:
		return Finding{
			Rule: Partitions, State: Unknown, Text: "whether partitions were added in the read range is not known", Why: "there is no time of the first record of " + some(unknown),
		}
	}
	return Finding{Rule: Partitions, State: OK, Text: fmt.Sprintf("none of the %d partitions was added in the read range", len(c.Facts.Partitions))}
}

// begins returns the record time of each partition's offset 0, where the partition's history is there from its beginning.
func (c *checker) begins() (begins map[int32]int64, unknown []string) {
	begins = map[int32]int64{}
	from0 := map[int32]bool{}
	for _, s := range c.Inventory.Segments {
		if s.First != 0 || s.Rows == 0 {
			continue
		}
		from0[s.Partition] = true
		i := slices.IndexFunc(s.RowGroups, func(g plan.RowGroup) bool { return g.Rows > 0 })
		if t := s.RowGroups[i].RecordTime; t != nil {
			begins[s.Partition] = t.Min
		}
	}
	for p, facts := range c.Facts.Partitions {
		n := int32(p) //nolint:gosec // Kafka counts them so
		_, known := begins[n]
		switch {
		case known:
		case facts.First != nil && facts.First.Offset == 0:
			begins[n] = facts.First.Time
		case from0[n] || facts.Start == 0 && facts.Stable > 0 && facts.First == nil:
			unknown = append(unknown, fmt.Sprintf("partition %d", n))
		}
	}
	return begins, unknown
}

// added describes the last partitions if they all begin in the read range and a day or more after the first did.
func (c *checker) added(begins map[int32]int64) []string {
	if len(begins) < 2 {
		return nil
	}
	var times []int64
	for _, t := range begins {
		times = append(times, t)
	}
	since, until := slices.Min(times)+int64(spec.Day), int64(1)<<62
	if w := c.Plan.Window; w != nil {
		e := c.Plan.Spec.Source.Event
		since, until = max(since, w.From-int64(e.Ahead)), w.To+int64(e.Lateness)
	}
	var out []string
	for p := int32(len(c.Facts.Partitions)) - 1; p >= 0; p-- { //nolint:gosec // Kafka counts them so
		t, known := begins[p]
		if !known && c.Facts.Partitions[p].Stable == 0 {
			continue // it never had a record
		}
		if !known || t < since || t >= until {
			break
		}
		out = append(out, fmt.Sprintf("partition %d begins at %s", p, spec.FormatInstant(t)))
	}
	slices.Reverse(out)
	return out
}

// some joins the first few.
func some(list []string) string {
	const most = 4
	if len(list) <= most {
		return strings.Join(list, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(list[:most], "; "), len(list)-most)
}
