package transform

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"hindcast/internal/record"
)

// late is what waits for the end of the input because the ids seen had no more room: rows whose id is not among them, in the order of the log.
type late struct {
	rows  *scratchFile
	ids   []*scratchFile // of the rows, by their fingerprints: id, content and number, from 0
	count int64
	// Of the rows by number, once it is known: which repeat an event, and which do with other contents.
	again, other record.Bitmap
	contents     record.Column
	numbers      record.Column
}

// postpone writes those of e.rows that are listed, by their place there, to scratch.
func (e *engine) postpone(run *run, b *record.Batch, undecided []int32) (err error) {
	l := e.late
	if l == nil {
		l = &late{ids: make([]*scratchFile, scratchParts)}
		e.late = l
		if l.rows, err = newScratchFile(e.c.Scratch); err != nil {
			return err
		}
	}
	columns := []*record.Column{&e.slotColumn, &l.contents, &l.numbers}
	for _, c := range columns {
		c.Kind = record.Int64
		c.Int64s = slices.Grow(c.Int64s[:0], b.Len)[:b.Len]
	}
	var rows []int32
	var places [scratchParts][]int32
	for _, n := range undecided {
		row := e.rows[n]
		if e.c.Slots != nil {
			e.slotColumn.Int64s[row] = int64(e.slots[n])
		}
		l.contents.Int64s[row], l.numbers.Int64s[row] = int64(e.contents.all[n]), l.count
		l.count++
		rows = append(rows, row)
		p := partOf(e.ids.hashes[n], 0)
		places[p] = append(places[p], row)
	}
	whole := record.Batch{Len: b.Len, Offsets: b.Offsets, RecordTimes: b.RecordTimes}
	whole.Columns = append(slices.Clip(b.Columns[:len(e.c.Columns)]), e.slotColumn)
	head := run.head(e.idBuf[:0])
	if err := l.rows.write(head, &whole, rows); err != nil {
		return err
	}
	return e.divide(l.ids, head, &record.Batch{Len: b.Len, Offsets: b.Offsets, Columns: []record.Column{b.Columns[e.id], l.contents, l.numbers}}, &places)
}

// decide finds out which rows were repeats, passes on the fingerprints of all ids, and gives the outputs the others. Ids are not needed after that.
func (e *engine) decide(ctx context.Context) error {
	if e.seen == nil {
		return nil
	}
	if e.late == nil {
		err := e.tellFingerprints(e.seen.fingerprints(nil))
		e.seen.free()
		return err
	}
	l := e.late
	l.again, l.other = record.NewBitmap(int(l.count)), record.NewBitmap(int(l.count))
	resident := e.seen.fingerprints(nil)
	e.seen.free()
	for p, f := range l.ids {
		var fingerprints []uint64
		if f != nil {
			var err error
			if fingerprints, err = e.decidePart(ctx, f, 1, nil); err != nil {
				return err
			}
			l.ids[p] = nil
		}
		for _, f := range resident {
			if partOf(f, 0) == p {
				fingerprints = append(fingerprints, f)
			}
		}
		if err := e.tellFingerprints(fingerprints); err != nil {
			return err
		}
	}
	return e.replayLate(ctx)
}

// decidePart decides about the ids of a file, which it removes, and adds their fingerprints to those given.
func (e *engine) decidePart(ctx context.Context, f *scratchFile, level int, fingerprints []uint64) (_ []uint64, err error) {
	left := make([]*scratchFile, scratchParts)
	defer func() {
		for _, f := range append(left, f) {
			if f != nil {
				err = errors.Join(err, f.remove())
			}
		}
	}()
	seen, full := newSeen(0), false
	defer func() { seen.free() }()
	var rows []int32
	err = f.each(ctx, func(head []byte, b *record.Batch) error {
		partition, _ := readHead(head)
		for len(rows) < b.Len {
			rows = append(rows, int32(len(rows))) //nolint:gosec // a batch is small
		}
		ids := &b.Columns[0]
		e.ids.of(ids, rows[:b.Len])
		var places [scratchParts][]int32
		for row := range b.Len {
			at, c := Position{partition, b.Offsets[row]}, content(b.Columns[1].Int64s[row])
			before, fresh, ok := seen.meet(&e.ids, row, ids, int32(row), at, c, full)
			switch number := int(b.Columns[2].Int64s[row]); {
			case !ok:
				p := partOf(e.ids.hashes[row], level)
				places[p] = append(places[p], int32(row))
			case fresh:
			case before.content == c:
				e.late.again.Set(number)
			default:
				e.late.other.Set(number)
				e.conflict(idText(ids, int32(row)), before, at, c)
			}
		}
		size := seen.size()
		full = full || size > e.share
		e.measure(size)
		return e.divide(left, head, b, &places)
	})
	if err != nil {
		return nil, err
	}
	fingerprints = seen.fingerprints(fingerprints)
	seen.free()
	for p, f := range left {
		if f == nil {
			continue
		}
		left[p] = nil
		if fingerprints, err = e.decidePart(ctx, f, level+1, fingerprints); err != nil {
			return nil, err
		}
	}
	return fingerprints, nil
}

// replayLate gives the outputs the rows that had to wait, but for repeats.
func (e *engine) replayLate(ctx context.Context) error {
	l, number := e.late, 0
	return l.rows.each(ctx, func(head []byte, b *record.Batch) error {
		run := e.newRun(readHead(head))
		e.rows, e.slots = e.rows[:0], e.slots[:0]
		for row := range b.Len {
			switch {
			case l.again.Get(number):
				run.all(func(c *Count) { c.Duplicate++ })
			case l.other.Get(number):
				run.all(func(c *Count) { c.Conflict++ })
			default:
				e.rows = append(e.rows, int32(row)) //nolint:gosec // a batch is small
				if e.c.Slots != nil {
					e.slots = append(e.slots, int32(b.Columns[len(e.c.Columns)].Int64s[row])) //nolint:gosec // it was one
				}
			}
			number++
		}
		if err := e.giveAll(run, b); err != nil {
			return err
		}
		return e.bound()
	})
}

func (l *late) close() (err error) {
	for _, f := range append(l.ids, l.rows) {
		if f != nil {
			err = errors.Join(err, f.remove())
		}
	}
	return err
}

// conflict tells of an id that came again with other contents, among the first in the order of the log.
func (e *engine) conflict(id string, before firstSeen, at Position, c content) {
	e.res.Conflicts++
	found := Conflict{ID: id, First: before.at, Second: at}
	if i := differing(before.content, c, len(e.c.Columns), e.id); i >= 0 {
		found.Column = e.c.Columns[i].Name
	}
	told := e.res.FirstConflicts
	n, _ := slices.BinarySearchFunc(told, at, func(c Conflict, at Position) int { return c.Second.compare(at) })
	if n < MaxFindings {
		told = slices.Insert(told, n, found)
		e.res.FirstConflicts = told[:min(len(told), MaxFindings)]
	}
}

func (p Position) compare(o Position) int {
	return cmp.Or(cmp.Compare(p.Partition, o.Partition), cmp.Compare(p.Offset, o.Offset))
}

// head says where a run's rows come from.
func (r *run) head(dst []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(r.partition)), r.origin...)
}

func readHead(head []byte) (int32, Origin) {
	p, n := binary.Uvarint(head)
	return int32(p), Origin(head[n:])
}

// tellFingerprints passes fingerprints on, by group. None is of a group before those of an earlier call.
func (e *engine) tellFingerprints(f []uint64) error {
	if e.c.Fingerprints == nil {
		return nil
	}
	var next [FingerprintGroups + 1]int
	for _, v := range f {
		next[FingerprintGroup(v)+1]++
	}
	for g := range FingerprintGroups {
		next[g+1] += next[g]
	}
	b := make([]byte, 8*len(f))
	for _, v := range f {
		g := FingerprintGroup(v)
		binary.LittleEndian.PutUint64(b[8*next[g]:], v)
		next[g]++
	}
	if _, err := e.c.Fingerprints.Write(b); err != nil {
		return fmt.Errorf("write fingerprints: %w", err)
	}
	return nil
}
