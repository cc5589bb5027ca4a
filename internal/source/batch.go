package source

import (
	"hindcast/internal/record"
)

// view is a run of a cursor's rows, as they lie.
type view struct {
	batch  record.Batch
	nulls  []record.Bitmap // memory for shifted ones
	absent record.Column   // of as many nulls as were needed yet
}

// set makes v the next n rows of c.
func (v *view) set(c *cursor, n int) {
	columns := c.batch.Columns[2:]
	total := len(columns)
	if !c.explained {
		total++
	}
	if len(v.nulls) < total {
		v.nulls = make([]record.Bitmap, total)
		v.batch.Columns = make([]record.Column, total)
	}
	v.batch.Len = n
	v.batch.Offsets = c.batch.Columns[0].Int64s[c.at : c.at+n]
	v.batch.RecordTimes = nil
	if !c.untimed {
		v.batch.RecordTimes = c.batch.Columns[1].Int64s[c.at : c.at+n]
	}
	for i := range columns {
		in, out := &columns[i], &v.batch.Columns[i]
		*out = record.Column{Kind: in.Kind}
		if in.Nulls != nil {
			v.nulls[i] = in.Nulls.Shift(v.nulls[i], c.at, n)
			out.Nulls = v.nulls[i]
		}
		switch in.Kind {
		case record.Float64:
			out.Float64s = in.Float64s[c.at : c.at+n]
		case record.String:
			out.Strings = in.Strings
			if in.Strings.Codes != nil {
				out.Strings.Codes = in.Strings.Codes[c.at : c.at+n]
			} else {
				out.Strings.Offsets = in.Strings.Offsets[c.at : c.at+n+1]
			}
		default:
			out.Int64s = in.Int64s[c.at : c.at+n]
		}
	}
	if !c.explained {
		v.batch.Columns[total-1] = v.nothing(n)
	}
}

// nothing is a column of n null strings.
func (v *view) nothing(n int) record.Column {
	if have := len(v.absent.Strings.Offsets) - 1; have < n {
		v.absent = record.Nulls(record.String, n)
	}
	c := v.absent
	c.Strings.Offsets = c.Strings.Offsets[:n+1]
	return c
}

// gather puts short runs of several cursors together, by copy.
type gather struct {
	batch   record.Batch
	nulls   []record.Bitmap
	untimed bool // of the rows that are there
}

// takes reports whether c's rows fit those that are there: all have record times, or none.
func (g *gather) takes(c *cursor) bool { return g.batch.Len == 0 || g.untimed == c.untimed }

func (g *gather) len() int { return g.batch.Len }

func (g *gather) reset(columns int) {
	if g.nulls == nil {
		g.nulls = make([]record.Bitmap, columns)
		g.batch.Columns = make([]record.Column, columns)
	}
	if g.batch.Len == 0 {
		return
	}
	g.batch.Len, g.batch.Offsets, g.batch.RecordTimes = 0, g.batch.Offsets[:0], g.batch.RecordTimes[:0]
	for i := range g.batch.Columns {
		c := &g.batch.Columns[i]
		clear(g.nulls[i])
		c.Nulls, c.Int64s, c.Float64s = nil, c.Int64s[:0], c.Float64s[:0]
		c.Strings.Offsets, c.Strings.Data = c.Strings.Offsets[:0], c.Strings.Data[:0]
	}
}

// append adds the next n rows of c.
func (g *gather) append(c *cursor, n int) {
	g.batch.Offsets = append(g.batch.Offsets, c.batch.Columns[0].Int64s[c.at:c.at+n]...)
	switch g.untimed = c.untimed; {
	case c.untimed:
		g.batch.RecordTimes = nil
	default:
		g.batch.RecordTimes = append(g.batch.RecordTimes, c.batch.Columns[1].Int64s[c.at:c.at+n]...)
	}
	for i := range g.batch.Columns {
		out := &g.batch.Columns[i]
		if i+2 >= len(c.batch.Columns) {
			out.Kind = record.String
			for row := range n {
				out.Strings.Append(nil)
				g.null(i, g.batch.Len+row)
			}
			continue
		}
		in := &c.batch.Columns[i+2]
		out.Kind = in.Kind
		for row := range n {
			if in.Nulls.Get(c.at + row) {
				g.null(i, g.batch.Len+row)
			}
		}
		switch in.Kind {
		case record.Float64:
			out.Float64s = append(out.Float64s, in.Float64s[c.at:c.at+n]...)
		case record.String:
			for row := range n {
				if in.Nulls.Get(c.at + row) {
					out.Strings.Append(nil)
				} else {
					out.Strings.Append(in.Strings.At(c.at + row))
				}
			}
		default:
			out.Int64s = append(out.Int64s, in.Int64s[c.at:c.at+n]...)
		}
	}
	g.batch.Len += n
}

// null marks a row of column i.
func (g *gather) null(i, row int) {
	if g.nulls[i] == nil {
		g.nulls[i] = record.NewBitmap(gathered)
	}
	g.nulls[i].Set(row)
	g.batch.Columns[i].Nulls = g.nulls[i]
}
