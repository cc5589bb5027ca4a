package transform

import (
	"errors"
	"fmt"
	"slices"

	"hindcast/internal/job"
	"hindcast/internal/record"
)

// bound keeps what is held in memory to its limits; it is called between batches.
func (e *engine) bound() error {
	var ids int64
	if e.seen != nil {
		ids = e.seen.size()
		e.full = e.full || e.share > 0 && ids > e.share
	}
	for _, out := range e.outputs {
		if err := e.passEarly(out); err != nil {
			return fmt.Errorf("table %s: %w", out.Table, err)
		}
	}
	e.measure(ids)
	for _, out := range e.outputs {
		switch {
		case e.share == 0 || out.size <= e.share:
		case out.shape.OneRowPerKey:
			out.bounded.Seal()
			out.sealed = true
		default:
			if err := e.spill(out, 0); err != nil {
				return fmt.Errorf("table %s: %w", out.Table, err)
			}
		}
	}
	return nil
}

// passEarly passes on the rows of an output that need not wait. Those on scratch wait, and so must all that come after them.
func (e *engine) passEarly(out *output) error {
	runner, ok := out.runner.(job.Flowing)
	if !ok || e.c.Early == nil || out.spilled() {
		return nil
	}
	may := func() bool { return e.share == 0 || int64(len(out.early)+1)*e.c.Early.Bytes <= e.share/2 }
	return runner.Flow(e.c.Early.Rows, may, func(slot int, b *record.Batch) error {
		if out.early == nil {
			out.early = map[int]bool{}
		}
		out.early[slot] = true
		return e.c.Early.Take(out.Table, e.label(slot), b)
	})
}

// recall moves rows of an output that were passed on early to scratch, before all that is there.
func (e *engine) recall(out *output) error {
	if len(out.early) == 0 {
		return nil
	}
	if err := e.openScratch(out); err != nil {
		return err
	}
	run := sortedRun{scratchFile: out.scratch, ends: []int64{out.scratch.size}}
	for slot, label := range e.labels() {
		if out.early[slot] {
			for b, err := range e.c.Early.Recall(out.Table, label) {
				if err == nil {
					err = out.scratch.write(nil, b, nil)
				}
				if err != nil {
					return fmt.Errorf("take rows of table %s, partition %s back: %w", out.Table, label, err)
				}
			}
		}
		run.ends = append(run.ends, out.scratch.size)
	}
	out.early = nil
	out.runs = slices.Insert(out.runs, 0, run)
	return nil
}

func (e *engine) openScratch(out *output) (err error) {
	if out.scratch == nil {
		out.scratch, err = newScratchFile(e.c.Scratch)
	}
	return err
}

// measure notes what the outputs take now, and the most that all have taken, beside ids.
func (e *engine) measure(ids int64) {
	all := ids
	for _, out := range e.outputs {
		out.size = out.runner.Size()
		all += out.size
	}
	e.peak = max(e.peak, all)
}

// spilled reports whether a part of an output is on scratch.
func (out *output) spilled() bool { return len(out.runs) > 0 || out.left != nil }

// spill moves an output's rows to scratch, sorted, and begins anew. Those of partitions before from were passed on.
func (e *engine) spill(out *output, from int) error {
	if err := e.openScratch(out); err != nil {
		return err
	}
	run := sortedRun{scratchFile: out.scratch, ends: []int64{out.scratch.size}}
	for slot := range e.labels() {
		if slot >= from {
			err := out.runner.Drain(slot, func(b *record.Batch) error { return out.scratch.write(nil, b, nil) })
			if err != nil {
				return err
			}
		}
		run.ends = append(run.ends, out.scratch.size)
	}
	out.runs = append(out.runs, run)
	return out.open()
}

// leave writes events that an output's runner left to scratch, in the order of the log.
func (e *engine) leave(run *run, out *output, rows, slots []int32) error {
	if out.left == nil {
		out.left = make([]*scratchFile, scratchParts)
	}
	e.slotColumn.Kind = record.Int64
	e.slotColumn.Int64s = slices.Grow(e.slotColumn.Int64s[:0], out.view.Len)[:out.view.Len]
	for n, row := range rows {
		if slots != nil {
			e.slotColumn.Int64s[row] = int64(slots[n])
		}
	}
	whole := out.view
	whole.Columns = append(slices.Clip(whole.Columns), e.slotColumn)
	var places [scratchParts][]int32
	for _, l := range out.outcome.Left {
		p := partOf(l.Hash, out.level)
		places[p] = append(places[p], l.Row)
	}
	return e.divide(out.left, run.head(e.idBuf[:0]), &whole, &places)
}

// countDead counts an event that is dead for a table, once for all tables. Those that die late, when the batch that they came with is forgotten, are
// known by their place.
func (e *engine) countDead(at Position, row int, late bool) {
	if late && len(e.outputs) == 1 {
		e.res.DeadLetters++
		return
	}
	if e.dead.Get(row) || late && e.deadAt[at] {
		return
	}
	e.dead.Set(row)
	e.res.DeadLetters++
	if len(e.outputs) > 1 && (late || slices.ContainsFunc(e.outputs, func(out *output) bool { return out.sealed })) {
		if e.deadAt == nil {
			e.deadAt = map[Position]bool{}
		}
		e.deadAt[at] = true
	}
}

func (e *engine) compareDead(a, b DeadLetter) int {
	return a.compare(b, func(table string) int {
		return slices.IndexFunc(e.outputs, func(out *output) bool { return out.Table == table })
	})
}

// rowsOf yields the rows of a slot of an output.
func (out *output) rowsOf(slot int, yield func(*record.Batch) error) error {
	if !out.spilled() {
		return out.runner.Drain(slot, yield)
	}
	return merge(out.runs, slot, out.shape.Keys, yield)
}

// open gives an output a new runner.
func (out *output) open() (err error) {
	if out.runner, err = out.Transform.Open(out.options); err != nil {
		return err
	}
	out.bounded, _ = out.runner.(job.Bounded)
	return nil
}

// close gives an output's scratch back.
func (out *output) close() (err error) {
	for _, f := range append(passes(out.left, 0), out.todo...) {
		err = errors.Join(err, f.remove())
	}
	err = errors.Join(err, out.scratch.remove())
	out.overflow = overflow{}
	return err
}
