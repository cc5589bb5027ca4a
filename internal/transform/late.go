package transform

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"hindcast/internal/record"
)

// late is what waits for the end of the input because the ids seen had no more room: rows whose id is not among them, in the order of the log.
type late struct {
	rows  *scratchFile
	ids   []*scratchFile // of the rows, by their fingerprints: id, content and number, from 0
	count int64

	// Once the input has ended: the files of ids that are not decided about, the last is next; fingerprints of the others, by part; of the rows, by
	// number, which repeat an event, and which do with other contents; and how many of them went to the outputs.
	todo         []pass
	prints       []*scratchFile
	again, other record.Bitmap
	replayed     int

	contents record.Column
	numbers  record.Column
}

func newLate() *late {
	return &late{ids: make([]*scratchFile, scratchParts), prints: make([]*scratchFile, scratchParts)}
}

// postpone writes those of e.rows that are listed, by their place there, to scratch.
func (e *engine) postpone(run *run, b *record.Batch, undecided []int32) (err error) {
	l := e.late
	if l == nil {
		l = newLate()
		if l.rows, err = newScratchFile(e.c.Scratch); err != nil {
			return err
		}
		e.late = l
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

// endInput turns to what waited for the end of the input.
func (e *engine) endInput() error {
	e.Stage = draining
	if e.seen == nil {
		return nil
	}
	l := e.late
	if l == nil {
		err := e.tellFingerprints(e.seen.fingerprints())
		e.seen.free()
		e.seen = newSeen(0)
		return err
	}
	e.Stage = deciding
	l.again, l.other = record.NewBitmap(int(l.count)), record.NewBitmap(int(l.count))
	l.todo = passes(l.ids, 1)
	return e.keepFingerprints()
}

// keepFingerprints moves those of the ids seen to scratch, and forgets the ids.
func (e *engine) keepFingerprints() error {
	if e.c.Fingerprints != nil {
		for some := range e.seen.fingerprints() {
			b := record.Batch{Len: len(some), Columns: []record.Column{{Kind: record.Int64}}}
			var places [scratchParts][]int32
			for row, f := range some {
				b.Columns[0].Int64s = append(b.Columns[0].Int64s, int64(f))
				p := partOf(f, 0)
				places[p] = append(places[p], int32(row))
			}
			if err := e.divide(e.late.prints, nil, &b, &places); err != nil {
				return err
			}
		}
	}
	e.seen.free()
	e.seen, e.full = newSeen(0), false
	return nil
}

// decide finds out which rows were repeats, and passes on the fingerprints of all ids. Ids are not needed after that.
func (e *engine) decide(ctx context.Context) error {
	l := e.late
	for len(l.todo) > 0 {
		last := len(l.todo) - 1
		f := l.todo[last]
		if err := e.decidePart(ctx, f); err != nil {
			return err
		}
		if err := e.keepFingerprints(); err != nil {
			return err
		}
		l.todo = append(l.todo[:last], passes(l.ids, f.level+1)...)
		if err := f.remove(); err != nil {
			return err
		}
	}
	for p, f := range l.prints {
		var fingerprints []uint64
		if f != nil {
			err := f.each(ctx, 0, func(_ []byte, b *record.Batch, _ int64) error {
				for _, v := range b.Columns[0].Int64s {
					fingerprints = append(fingerprints, uint64(v))
				}
				return nil
			})
			l.prints[p] = nil
			if err := errors.Join(err, f.remove()); err != nil {
				return err
			}
		}
		if err := e.tellFingerprints(slices.Values([][]uint64{fingerprints})); err != nil {
			return err
		}
	}
	e.Stage = replaying
	return nil
}

// decidePart decides about the ids of a file, but for those that find no room: they are left in files.
func (e *engine) decidePart(ctx context.Context, f pass) error {
	l := e.late
	var rows []int32
	return e.goOver(ctx, f.scratchFile, func(head []byte, b *record.Batch) error {
		partition, _ := readHead(head)
		for len(rows) < b.Len {
			rows = append(rows, int32(len(rows))) //nolint:gosec // a batch is small
		}
		ids := &b.Columns[0]
		e.ids.of(ids, rows[:b.Len])
		var places [scratchParts][]int32
		for row := range b.Len {
			at, c := Position{partition, b.Offsets[row]}, content(b.Columns[1].Int64s[row])
			before, fresh, ok := e.seen.meet(&e.ids, row, ids, int32(row), at, c, e.full)
			switch number := int(b.Columns[2].Int64s[row]); {
			case !ok:
				p := partOf(e.ids.hashes[row], f.level)
				places[p] = append(places[p], int32(row))
			case fresh:
			case before.content == c:
				l.again.Set(number)
			default:
				l.other.Set(number)
				e.conflict(idText(ids, int32(row)), before, at, c)
			}
		}
		size := e.seen.size()
		e.full = e.full || size > e.share
		e.measure(size)
		return e.divide(l.ids, head, b, &places)
	})
}

// replayLate gives the outputs the rows that had to wait, but for repeats.
func (e *engine) replayLate(ctx context.Context) error {
	l := e.late
	err := e.goOver(ctx, l.rows, func(head []byte, b *record.Batch) error {
		run := e.newRun(readHead(head))
		e.rows, e.slots = e.rows[:0], e.slots[:0]
		for row := range b.Len {
			switch {
			case l.again.Get(l.replayed):
				run.all(func(c *Count) { c.Duplicate++ })
			case l.other.Get(l.replayed):
				run.all(func(c *Count) { c.Conflict++ })
			default:
				e.rows = append(e.rows, int32(row)) //nolint:gosec // a batch is small
				if e.c.Slots != nil {
					e.slots = append(e.slots, int32(b.Columns[len(e.c.Columns)].Int64s[row])) //nolint:gosec // it was one
				}
			}
			l.replayed++
		}
		if err := e.giveAll(run, b); err != nil {
			return err
		}
		return e.bound()
	})
	if err != nil {
		return err
	}
	e.Stage, e.late = draining, nil
	return l.close()
}

// close gives the scratch back.
func (l *late) close() (err error) {
	for _, f := range append(passes(l.ids, 0), append(passes(l.prints, 0), l.todo...)...) {
		err = errors.Join(err, f.remove())
	}
	return errors.Join(err, l.rows.remove())
}

// conflict tells of an id that came again with other contents, among the first in the order of the log.
func (e *engine) conflict(id string, before firstSeen, at Position, c content) {
	if e.c.Keys.Number > 0 {
		return // number 0 tells
	}
	e.res.Conflicts++
	found := Conflict{ID: id, First: before.at, Second: at}
	if i := differing(before.content, c, len(e.c.Columns), e.id); i >= 0 {
		found.Column = e.c.Columns[i].Name
	}
	told := e.res.FirstConflicts
	n, _ := slices.BinarySearchFunc(told, at, func(c Conflict, at Position) int { return c.Second.compare(at) })
	if n < MaxFindings {
		e.res.FirstConflicts = firsts(slices.Insert(told, n, found))
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
func (e *engine) tellFingerprints(all iter.Seq[[]uint64]) error {
	if e.c.Fingerprints == nil {
		return nil
	}
	var next [FingerprintGroups + 1]int
	for some := range all {
		for _, f := range some {
			next[FingerprintGroup(f)+1]++
		}
	}
	for g := range FingerprintGroups {
		next[g+1] += next[g]
	}
	n := next[FingerprintGroups]
	e.res.Fingerprints += int64(n)
	b, _ := fingerprintBytes.Get().(*[]byte)
	if b == nil {
		b = new([]byte)
	}
	defer fingerprintBytes.Put(b)
	*b = slices.Grow((*b)[:0], 8*n)[:8*n]
	for some := range all {
		for _, f := range some {
			g := FingerprintGroup(f)
			binary.LittleEndian.PutUint64((*b)[8*next[g]:], f)
			next[g]++
		}
	}
	if _, err := e.c.Fingerprints.Write(*b); err != nil {
		return fmt.Errorf("write fingerprints: %w", err)
	}
	return nil
}

// fingerprintBytes are what earlier shards wrote fingerprints from.
var fingerprintBytes sync.Pool
