package plan

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"hindcast/internal/spec"
)

// openEnd is the end of a range whose end is not known.
const openEnd = math.MaxInt64

// Gap is offsets of a topic partition that no segment holds and no broker has.
type Gap struct {
	Partition int32 `json:"partition"`
	// Offsets may have an open end ("0-"): no segment of the partition was found at all.
	Offsets Range `json:"offsets"`
	// After and Before are the segments beside it; empty where there is none.
	After  string `json:"after,omitempty"`
	Before string `json:"before,omitempty"`
	// Since is the least record time known of what comes after it, in microseconds.
	Since *int64 `json:"since,omitempty"`
	// Unusable says which segments may hold these offsets and cannot be used, and why, or why tiered storage does not give them; empty where there is none.
	Unusable string `json:"unusable,omitempty"`
}

// String names the gap as ParseGap reads it: "2:12-40".
func (g Gap) String() string { return fmt.Sprintf("%d:%s", g.Partition, g.Offsets) }

// ParseGap reads "2:12-40": a topic partition and half-open offsets. "2:12-" has no end.
func ParseGap(s string) (Gap, error) {
	p, r, ok := strings.Cut(s, ":")
	n, err := strconv.ParseUint(p, 10, 31)
	if !ok || err != nil {
		return Gap{}, fmt.Errorf("%q is not a gap: write PARTITION:FIRST-NEXT, as 2:12-40 for the offsets 12 to 39 of partition 2", s)
	}
	offsets, err := ParseRange(r)
	if err != nil {
		return Gap{}, fmt.Errorf("gap %q: %w", s, err)
	}
	return Gap{Partition: int32(n), Offsets: offsets}, nil
}

func (g Gap) describe() string {
	if g.Unusable != "" {
		return g.Place() + "; " + g.Unusable
	}
	return g.Place()
}

// Place tells a gap in a sentence, with what lies beside it; without [Gap.Unusable].
func (g Gap) Place() string {
	what := fmt.Sprintf("partition %d: ", g.Partition)
	since := ""
	if g.Since != nil {
		since = ", record time " + spec.FormatInstant(*g.Since)
	}
	switch {
	case g.Offsets.Next == openEnd && g.Unusable != "":
		return what + fmt.Sprintf("no record with the offsets from %d on can be told", g.Offsets.First)
	case g.Offsets.Next == openEnd:
		return what + "no segment of it was found, though there are segments of higher partitions"
	case g.Offsets.First == 0 && g.Before != "":
		return what + fmt.Sprintf("history begins at offset %d%s (segment %s): the offsets %s before it are deleted or were never exported",
			g.Offsets.Next, since, g.Before, g.Offsets)
	case g.Offsets.First == 0 && g.Unusable == "":
		return what + fmt.Sprintf("no segment of it was found, and the brokers begin at offset %d", g.Offsets.Next)
	case g.Before == "" && g.After != "" && g.Unusable != "":
		return what + fmt.Sprintf("no record with the offsets %s, past the last segment that can be used, %s", g.Offsets, g.After)
	case g.Before == "" && g.After != "":
		return what + fmt.Sprintf("the segments end at offset %d (%s), and the brokers begin at %d", g.Offsets.First, g.After, g.Offsets.Next)
	case g.Before != "" && g.After != "":
		return what + fmt.Sprintf("no record with the offsets %s, between the segments %s and %s", g.Offsets, g.After, g.Before)
	}
	return what + fmt.Sprintf("no record with the offsets %s", g.Offsets)
}

// GapError refuses a plan: offsets that may hold events of the window are missing, or what was accepted is not what is missing.
type GapError struct {
	Gaps []Gap // that were not accepted
	// Unused are acceptances that do not name gaps, Found all gaps that there are.
	Unused, Found []Gap
}

func (e *GapError) Error() string {
	const most = 8
	var b strings.Builder
	if len(e.Unused) > 0 {
		fmt.Fprintf(&b, "accepted as gaps, but no gaps that the plan finds: %s; ", names(e.Unused))
		if len(e.Found) == 0 {
			b.WriteString("it finds none: accept nothing")
		} else {
			fmt.Fprintf(&b, "it finds: %s", names(e.Found))
		}
		if len(e.Gaps) == 0 {
			return b.String()
		}
		b.WriteString("\n")
	}
	b.WriteString("the log has gaps that may hold events of the window:")
	for i, g := range e.Gaps {
		if i == most {
			fmt.Fprintf(&b, "\n  and %d more", len(e.Gaps)-most)
			break
		}
		b.WriteString("\n  " + g.describe())
	}
	fmt.Fprintf(&b, "\nbring back the missing segments; or, if these offsets hold nothing that matters (transaction markers, compacted records), accept them by name: %s",
		names(e.Gaps))
	return b.String()
}

// names lists gaps as flags have them.
func names(gaps []Gap) string {
	out := make([]string, len(gaps))
	for i, g := range gaps {
		out[i] = g.String()
	}
	return strings.Join(out, ", ")
}

// Contradiction is a row group that the declared lateness leaves out, though
// its bounds show an event of the window.
type Contradiction struct {
	Partition int32  `json:"partition"`
	Segment   string `json:"segment"`
	RowGroup  int    `json:"row_group"`
	Offsets   Range  `json:"offsets"`
	Record    Span   `json:"record_time"`
	Event     Span   `json:"event_time"`
	// Ahead says that it entered the log too early for its event time, not too late.
	Ahead bool `json:"ahead,omitempty"`
}

// LatenessError refuses a plan: lateness, or ahead, was declared too small for what the segments hold.
type LatenessError struct {
	Found []Contradiction
	// Lateness and Ahead are what the job declares, NeedLateness and NeedAhead what would do.
	Lateness, NeedLateness spec.Duration
	Ahead, NeedAhead       spec.Duration
}

func (e *LatenessError) Error() string {
	const most = 8
	var b strings.Builder
	b.WriteString("segments outside the read range hold events of the window:")
	for i, c := range e.Found {
		if i == most {
			fmt.Fprintf(&b, "\n  and %d more row groups", len(e.Found)-most)
			break
		}
		fmt.Fprintf(&b, "\n  segment %s, row group %d (partition %d, offsets %s): record times from %s to %s, event times from %s to %s",
			c.Segment, c.RowGroup, c.Partition, c.Offsets, spec.FormatInstant(c.Record.Min), spec.FormatInstant(c.Record.Max),
			spec.FormatInstant(c.Event.Min), spec.FormatInstant(c.Event.Max))
	}
	if e.NeedLateness > e.Lateness {
		fmt.Fprintf(&b, "\nlateness: %s is too small; source.event.lateness: %s would do", e.Lateness, e.NeedLateness)
	}
	if e.NeedAhead > e.Ahead {
		fmt.Fprintf(&b, "\nahead: %s is too small; source.event.ahead: %s would do", e.Ahead, e.NeedAhead)
	}
	return b.String()
}

// refusals joins what refuses a plan, so that a user sees all of it at once.
func refusals(gaps *GapError, late *LatenessError) error {
	var errs []error
	if len(gaps.Gaps) > 0 || len(gaps.Unused) > 0 {
		errs = append(errs, gaps)
	}
	if len(late.Found) > 0 {
		errs = append(errs, late)
	}
	return errors.Join(errs...)
}
