package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hindcast/internal/plan"
	"hindcast/internal/spec"
	"hindcast/internal/unit"
)

func (a *app) sourceCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "source",
		Short: "Look at the log that a job reads",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(errors.New("source takes inspect; see hindcast source --help"))
			}
			return usage(fmt.Errorf("source takes inspect, not %s; see hindcast source --help", args[0]))
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	cmd.AddCommand(a.sourceInspectCmd())
	return cmd
}

func (a *app) sourceInspectCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect JOB",
		Short: "Show what segments and brokers have of each topic partition, and what nobody has",
		Long: `Shows, for each topic partition, what has which offsets and times, what is missing, what is there twice, how late
events came as far as footers tell, and what is not known. It reads listings, footers and the brokers' offsets, and changes nothing.`,
		Example: "  hindcast source inspect daily-country-revenue",
		Args:    exactly("JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ws, err := a.open()
			if err != nil {
				return err
			}
			in, err := ws.Env.Inspect(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(in, func(w io.Writer) { printInspection(w, in) })
		},
	}
}

// barMarks are what a bar is drawn of. Where several meet in a cell, the first of them is drawn: what is missing is seen, however small it is.
var barMarks = []struct {
	by   plan.By
	mark string
	says string
}{
	{plan.ByGap, "·", "missing"},
	{plan.ByUnusable, "?", "cannot be told"},
	{plan.ByBrokers, "░", "brokers"},
	{plan.ByTiered, "▚", "tiered storage"},
	{plan.ByNumber, "▒", "segments without offsets"},
	{plan.ByDerived, "▓", "segments, offsets derived from names"},
	{plan.ByExact, "█", "segments, exact offsets"},
	{plan.ByNothing, "-", "no record"},
}

const (
	barCells = 60
	// shownParts is how many gaps, overlaps, stretches of a partition are printed.
	shownParts = 8
)

func printInspection(w io.Writer, in plan.Inspection) {
	fmt.Fprintf(w, "topic    %s\n", in.Topic)
	tiered, size := 0, unit.Bytes(0)
	for _, p := range in.Partitions {
		if p.Stored != nil {
			tiered += len(p.Stored.Segments)
			for _, s := range p.Stored.Segments {
				size += s.Bytes
			}
		}
	}
	if tiered > 0 {
		fmt.Fprintf(w, "tiered   %s, %s; %s\n", segments(tiered), size, listingCost(in.Listed))
	} else {
		fmt.Fprintf(w, "segments %d, with %d rows, %s; %s\n", in.Segments, in.Rows, in.Bytes, listingCost(in.Listed))
	}
	for _, why := range slices.Sorted(maps.Keys(in.Passed)) {
		fmt.Fprintf(w, "ignored  %d: %s\n", in.Passed[why], why)
	}
	if in.AtLeastOnce {
		fmt.Fprintln(w, "offsets  none: rows are numbered, cut by time and deduped by id; that is at-least-once")
	}
	seen := map[plan.By]bool{}
	for _, p := range in.Partitions {
		printPartition(w, p)
		for _, c := range p.Cover {
			seen[c.By] = true
		}
	}
	var legend []string
	for _, m := range slices.Backward(barMarks) {
		if seen[m.by] {
			legend = append(legend, m.mark+" "+m.says)
		}
	}
	if len(legend) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(legend, "   "))
	}
	printWarnings(w, in.Notes)
}

// listingCost tells what it took to find out what there is.
func listingCost(c plan.Cost) string {
	text := fmt.Sprintf("%d requests and %s to find out", c.Requests, c.Bytes)
	if c.Footers > 0 {
		text += fmt.Sprintf(", %d footers", c.Footers)
	}
	if c.Scanned > 0 {
		text += fmt.Sprintf(", and a column of %d, whose footers do not tell enough", c.Scanned)
	}
	return text
}

func printPartition(w io.Writer, p plan.InspectedPartition) {
	end := int64(0)
	for _, c := range p.Cover {
		if open(c.Offsets) {
			end = max(end, c.Offsets.First)
		} else {
			end = max(end, c.Offsets.Next)
		}
	}
	if p.Stored != nil {
		fmt.Fprintf(w, "\npartition %d: %s of tiered storage\n", p.Partition, segments(len(p.Stored.Segments)))
	} else {
		fmt.Fprintf(w, "\npartition %d: %s, %d rows, %s\n", p.Partition, segments(p.Segments), p.Rows, p.Bytes)
	}
	fmt.Fprintf(w, "  0 %s %d\n", bar(p.Cover, end), end)
	line := func(what, format string, args ...any) {
		fmt.Fprintf(w, "  %-9s %s\n", what, fmt.Sprintf(format, args...))
	}
	for i, c := range p.Cover {
		if c.By == plan.ByGap || c.By == plan.ByUnusable {
			continue
		}
		if i == shownParts {
			line("", "and %d more stretches", len(p.Cover)-i)
			break
		}
		text := c.Offsets.String()
		if c.Segments > 0 {
			text += "  " + segments(c.Segments)
		}
		if c.RecordTime != nil {
			text += "  recorded " + times(c.RecordTime)
		}
		if c.EventTime != nil {
			text += "  happened " + times(c.EventTime)
		}
		line(string(c.By), "%s", text)
	}
	if b := p.Broker; b != nil && !slices.ContainsFunc(p.Cover, func(c plan.Stretch) bool {
		return c.By == plan.ByBrokers && c.Offsets == plan.Range{First: b.Start, Next: b.End}
	}) {
		line(string(plan.ByBrokers), "have %d-%d; what %s is not asked of them", b.Start, b.End, map[bool]string{false: "segments have", true: "tiered storage has"}[p.Stored != nil])
	}
	some(p.Gaps, func(g plan.Gap) {
		line("missing", "%s", strings.TrimPrefix(g.Place(), fmt.Sprintf("partition %d: ", p.Partition)))
		if p.Stored != nil && g.Unusable != "" {
			line("", "%s", g.Unusable)
		}
	}, func(n int) { line("missing", "and %d more gaps", n) })
	if p.Duplicates > 0 {
		line("twice", "%d offsets, %s: %d rows more than needed; each is read once", p.Twice.Len(), someRanges(p.Twice), p.Duplicates)
	}
	some(p.Unusable, func(u plan.UnusableSegment) { line("unknown", "%s, %d rows: %s", u.Key, u.Rows, u.Why) }, func(n int) { line("unknown", "and %d more segments", n) })
	printLateness(line, p.Seen)
}

func printLateness(line func(what, format string, args ...any), seen plan.Lateness) {
	if seen.RowGroups == 0 {
		return
	}
	if seen.Telling == 0 {
		line("lateness", "not known: no footer tells both when records came and when their events happened")
		return
	}
	rest := ""
	if n := seen.RowGroups - seen.Telling; n > 0 {
		rest = fmt.Sprintf("; %d of %d row groups do not tell", n, seen.RowGroups)
	}
	line("lateness", "the latest event came %s after it happened; the farthest ahead, %s before%s", between(seen.Late), between(seen.Ahead), rest)
}

// between writes bounds in whole minutes, outwards.
func between(b *plan.Bounds) string {
	least, most := b.Least/spec.Minute*spec.Minute, (b.Most+spec.Minute-1)/spec.Minute*spec.Minute
	if least == most {
		return most.String()
	}
	return fmt.Sprintf("at least %s and at most %s", least, most)
}

func times(s *plan.Span) string {
	return spec.FormatInstant(s.Min) + " to " + spec.FormatInstant(s.Max)
}

// some prints the first of a list, and how many more there are.
func some[T any](list []T, one func(T), more func(n int)) {
	for i, v := range list {
		if i == shownParts {
			more(len(list) - i)
			return
		}
		one(v)
	}
}

func someRanges(rs plan.Ranges) string {
	if len(rs) > shownParts {
		return fmt.Sprintf("%s and %d more ranges", rs[:shownParts], len(rs)-shownParts)
	}
	return rs.String()
}

func segments(n int) string {
	if n == 1 {
		return "1 segment"
	}
	return fmt.Sprintf("%d segments", n)
}

func open(r plan.Range) bool { return strings.HasSuffix(r.String(), "-") }

// bar draws what has the offsets from 0 to end.
func bar(cover []plan.Stretch, end int64) string {
	if end == 0 {
		return strings.Repeat(" ", barCells)
	}
	var b strings.Builder
	for cell := range int64(barCells) {
		lo := scale(cell, end)
		hi := max(scale(cell+1, end), lo+1)
		b.WriteString(markOf(cover, plan.Range{First: lo, Next: hi}))
	}
	return b.String()
}

// scale is the offset at which a cell begins, without overflow.
func scale(cell, end int64) int64 {
	return end/barCells*cell + end%barCells*cell/barCells
}

// markOf draws a cell: what is missing in it, else what has most of it.
func markOf(cover []plan.Stretch, cell plan.Range) string {
	held := map[plan.By]int64{}
	i, _ := slices.BinarySearchFunc(cover, cell.First, func(c plan.Stretch, at int64) int {
		if c.Offsets.Next <= at {
			return -1
		}
		return 1
	})
	for ; i < len(cover) && cover[i].Offsets.First < cell.Next; i++ {
		held[cover[i].By] += cover[i].Offsets.Clip(cell).Len()
	}
	best, most := " ", int64(0)
	for _, m := range barMarks {
		if n := held[m.by]; n > most {
			if best, most = m.mark, n; m.by == plan.ByGap || m.by == plan.ByUnusable {
				return best
			}
		}
	}
	return best
}
