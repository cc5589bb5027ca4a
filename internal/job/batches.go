package job

import (
	"hindcast/internal/job/wire"
	"hindcast/internal/record"
)

// writeBatch writes a batch whose strings are plain.
func writeBatch(w *wire.Writer, b *record.Batch) {
	w.Uint(uint64(b.Len))
	for i := range b.Columns {
		c := &b.Columns[i]
		w.Bool(c.Nulls != nil)
		for row := range b.Len {
			if c.Nulls != nil {
				null := c.Nulls.Get(row)
				if w.Bool(null); null {
					continue
				}
			}
			switch c.Kind {
			case record.Float64:
				w.Float(c.Float64s[row])
			case record.String:
				w.Bytes(c.Strings.At(row))
			default:
				w.Int(c.Int64s[row])
			}
		}
	}
}

// readBatch fills an empty batch, which has its columns' kinds, with what writeBatch wrote.
func readBatch(r *wire.Reader, b *record.Batch) {
	n := r.Len()
	for i := range b.Columns {
		c := &b.Columns[i]
		nulls := r.Bool()
		for row := range n {
			if r.Err() != nil {
				return
			}
			if nulls {
				extendNulls(c, row)
				if r.Bool() {
					appendNull(c, row)
					continue
				}
			}
			switch c.Kind {
			case record.Float64:
				c.Float64s = append(c.Float64s, r.Float())
			case record.String:
				c.Strings.Append(r.Bytes())
			default:
				c.Int64s = append(c.Int64s, r.Int())
			}
		}
	}
	b.Len = n
}
