package record

import "slices"

// Clone returns a copy that shares no memory with b, for those who must keep a batch.
func (b *Batch) Clone() *Batch {
	c := &Batch{Len: b.Len, Offsets: slices.Clone(b.Offsets), RecordTimes: slices.Clone(b.RecordTimes), Columns: make([]Column, len(b.Columns))}
	if b.Lent != nil {
		c.Lent = &Lent{From: b.Lent.From, Names: slices.Clone(b.Lent.Names), Rows: slices.Clone(b.Lent.Rows)}
	}
	for i, col := range b.Columns {
		c.Columns[i] = Column{
			Kind: col.Kind, Nulls: slices.Clone(col.Nulls), Int64s: slices.Clone(col.Int64s), Float64s: slices.Clone(col.Float64s),
			Strings: Strings{Codes: slices.Clone(col.Strings.Codes), Offsets: slices.Clone(col.Strings.Offsets), Data: slices.Clone(col.Strings.Data), Dictionary: col.Strings.Dictionary},
		}
	}
	return c
}

// Slice returns rows [from, to) of b, whose memory they share, but for nulls that are not all rows'.
func (b *Batch) Slice(from, to int) *Batch {
	if from == 0 && to == b.Len {
		return b
	}
	out := &Batch{Len: to - from, Columns: make([]Column, len(b.Columns))}
	if b.Offsets != nil {
		out.Offsets = b.Offsets[from:to]
	}
	if b.RecordTimes != nil {
		out.RecordTimes = b.RecordTimes[from:to]
	}
	if l := b.Lent; l != nil {
		out.Lent = &Lent{From: l.From, Names: l.Names, Rows: l.Rows[from:to]}
	}
	for i := range b.Columns {
		in, c := &b.Columns[i], &out.Columns[i]
		if c.Kind = in.Kind; in.Nulls != nil {
			c.Nulls = in.Nulls.Shift(nil, from, out.Len)
		}
		switch {
		case in.Kind == Float64:
			c.Float64s = in.Float64s[from:to]
		case in.Kind != String:
			c.Int64s = in.Int64s[from:to]
		case in.Strings.Codes != nil:
			c.Strings = in.Strings
			c.Strings.Codes = in.Strings.Codes[from:to]
		default:
			c.Strings.Offsets, c.Strings.Data = in.Strings.Offsets[from:to+1], in.Strings.Data
		}
	}
	return out
}
