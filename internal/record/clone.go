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
