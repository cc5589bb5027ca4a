package source

import (
	"fmt"

	"hindcast/internal/parquetfile"
	"hindcast/internal/plan"
)

// trim leaves out what the page indexes of the segment prove not to be needed of row groups that reach beyond the times that are wanted, or beyond the offsets
// that are kept:
//
//   - pages of the columns that come late, which only events of those times need;
//   - where the input owns none of a row group's offsets, rows altogether: whoever owns them accounts for them, finds those that are later than the job
//     declares, and holds all their times against the bounds of pages that others go by. So indexes that lie about times are found, whatever they hide;
//   - where it owns none of them, offsets and record times too, if offsets follow one another in the row group as the footer's bounds say: then the row says which
//     it has, which whoever owns them finds to be so, and events that are late are theirs to tell;
//   - rows of offsets that are not kept, where these follow one another in the row group without a hole: then the row is where the offset says.
//
// Of opts the first of First is the column of the times.
func (c *cursor) trim(times *Times, f *parquetfile.File, opts *parquetfile.ReadOptions) error {
	name, groups := opts.First[0], f.RowGroups()
	opts.Cuts, c.firsts, c.kafka.unread = map[int]parquetfile.Cut{}, map[int]int64{}, map[int]int64{}
	var read []int
	for _, g := range opts.RowGroups {
		all := parquetfile.Stretch{From: 0, To: groups[g].Rows}
		span, dense := c.span(f, g, all.To)
		kept := all
		if dense && !c.all {
			if in := c.keep.Clip(span); len(in) > 0 {
				kept = parquetfile.Stretch{From: in[0].First - span.First, To: in[len(in)-1].Next - span.First}
			}
		}
		cut := parquetfile.Cut{Rows: kept, Late: kept, By: name}
		var indexed bool
		if lo, hi, ok := f.Bounds(g, name); ok && (lo < times.From || hi >= times.To) {
			var s parquetfile.Stretch
			var err error
			if s, indexed, err = f.Between(g, name, times.From, times.To); err != nil {
				return err
			}
			if indexed {
				cut.Late = kept.Within(s)
			}
		}
		if indexed && !c.owns(span) {
			cut.Rows = cut.Late
			if c.leave(span, dense, all, cut.Rows); cut.Rows.Rows() == 0 {
				continue
			}
		}
		read = append(read, g)
		unread := dense && !c.owns(span)
		if unread {
			c.kafka.unread[g] = span.First
			cut.Without = []string{c.kafka.offset, c.kafka.timeName}
		}
		if indexed || kept != all || unread {
			opts.Cuts[g] = cut
			if dense && c.kafka.offset != "" {
				c.firsts[g] = span.First
			}
		}
	}
	opts.RowGroups = read
	return nil
}

// span is the offsets that a row group's rows lie in, of which there are so many; empty where that is not known. Dense says that they are all of them.
func (c *cursor) span(f *parquetfile.File, group int, rows int64) (span plan.Range, dense bool) {
	lo, hi, ok := c.kafka.bounds(f, group)
	if !ok {
		return plan.Range{}, false
	}
	return plan.Range{First: lo, Next: hi + 1}, hi-lo+1 == rows
}

// owns reports whether the input may own an offset of a span.
func (c *cursor) owns(span plan.Range) bool {
	if span.Empty() {
		return len(c.in.Owned) > 0
	}
	return len(c.in.Owned.Clip(span)) > 0
}

// leave notes that of a row group's rows only some will be read.
func (c *cursor) leave(span plan.Range, dense bool, all, read parquetfile.Stretch) {
	switch {
	case c.in.Rows == 0 || read == all:
	case c.all:
		c.in.Rows -= all.Rows() - read.Rows()
	case dense:
		c.in.Rows -= c.keep.Clip(span).Len()
		c.in.Rows += c.keep.Clip(plan.Range{First: span.First + read.From, Next: span.First + read.To}).Len()
	default:
		c.in.Rows = 0 // how many of them are kept is not known
	}
}

// placed holds an offset against the row that it was read of, where only some of a row group are read: those of a page index that counts rows wrong do not fit.
func (c *cursor) placed(f *parquetfile.File, group int, row, offset int64) error {
	first, ok := c.firsts[group]
	if !ok || offset == first+row {
		return nil
	}
	return &parquetfile.Error{
		File: f.Name(), RowGroup: group, Column: c.kafka.offset,
		Reason: fmt.Sprintf("row %d has offset %d, where by the footer's bounds it has %d; the page index cannot be trusted; export the file again, or run with --no-prune", row, offset, first+row),
	}
}
