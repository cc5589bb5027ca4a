package transform

import (
	"context"
	"errors"
	"fmt"

	"hindcast/internal/record"
)

// stage is how far a shard has come. Each but the first is about what comes after the input's end.
type stage int

const (
	reading   stage = iota
	deciding        // which of the rows that waited for room among the ids are repeats
	replaying       // the others of them to the outputs
	draining        // table by table: events that were left are computed, then the rows passed on, partition by partition
)

// errLap says that a lap must end: everything is as it was after the last piece of work that was done whole.
var errLap = errors.New("the lap must end")

// worked is called after each piece of work: a batch of the input or of a scratch file, a partition that was passed on. A lap ends after at least one.
func (e *engine) worked(rows int) error {
	e.lapRows += int64(rows)
	if e.c.Stop != nil && e.c.Stop(e.lapRows) {
		return errLap
	}
	return nil
}

// pass is a scratch file that is yet to be read once more. Its rows were divided by as many hash bits as level says, four each.
type pass struct {
	*scratchFile
	level int
}

// passes takes the files that there are, and leaves none.
func passes(files []*scratchFile, level int) (all []pass) {
	for p, f := range files {
		if f != nil {
			all = append(all, pass{f, level})
		}
		files[p] = nil
	}
	return all
}

// goOver gives what is left of a scratch file, after e.At, to do. The lap may end after each batch, also the last.
func (e *engine) goOver(ctx context.Context, f *scratchFile, do func(head []byte, b *record.Batch) error) error {
	err := f.each(ctx, e.At, func(head []byte, b *record.Batch, end int64) error {
		if err := do(head, b); err != nil {
			return err
		}
		e.At = end
		return e.worked(b.Len)
	})
	if err == nil {
		e.At = 0
	}
	return err
}

// conclude does what comes after the input's end.
func (e *engine) conclude(ctx context.Context) error {
	for {
		var err error
		switch e.Stage {
		case reading:
			err = e.endInput()
		case deciding:
			err = e.decide(ctx)
		case replaying:
			err = e.replayLate(ctx)
		default:
			return e.drain(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// drain passes the rows of all tables on.
func (e *engine) drain(ctx context.Context) error {
	rows := 0 // that were passed on since it was asked whether the lap must end
	for ; e.Table < len(e.outputs); e.Table, e.Slot = e.Table+1, 0 {
		out := e.outputs[e.Table]
		if out.spilled() {
			if err := e.finish(ctx, e.Table); err != nil {
				return tableError(out, err)
			}
		}
		labels := e.labels()
		for ; e.Slot < len(labels); e.Slot++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			if rows > 0 {
				if err := e.worked(rows); err != nil {
					return err
				}
				rows = 0
			}
			n, err := e.drainSlot(out, e.Slot, labels[e.Slot])
			if err != nil {
				return fmt.Errorf("table %s, partition %s: %w", out.Table, labels[e.Slot], err)
			}
			rows += n
		}
		if err := errors.Join(out.close(), out.open()); err != nil { // its memory and scratch are no longer needed
			return tableError(out, err)
		}
	}
	return nil
}

func tableError(out *output, err error) error {
	if errors.Is(err, errLap) {
		return err
	}
	return fmt.Errorf("table %s: %w", out.Table, err)
}

// settle makes what is held such that a checkpoint can be taken: rows that were passed on early, and are not in a file yet, come back, and of an output whose
// partitions were passed on in part, the others go to scratch.
func (e *engine) settle() error {
	for _, out := range e.outputs {
		if err := e.recall(out); err != nil {
			return err
		}
	}
	if e.Stage != draining || e.Slot == 0 {
		return nil
	}
	out := e.outputs[e.Table]
	if out.finishing {
		return nil
	}
	out.finishing = true
	return e.spill(out, e.Slot)
}

// finish computes what was left of an output, and moves all of its rows to scratch.
func (e *engine) finish(ctx context.Context, n int) error {
	out := e.outputs[n]
	if !out.finishing {
		if err := e.spill(out, 0); err != nil {
			return err
		}
		out.todo, out.finishing = passes(out.left, 1), true
	}
	for len(out.todo) > 0 {
		last := len(out.todo) - 1
		f := out.todo[last]
		if out.level = f.level; e.At == 0 {
			out.sealed = false
		}
		if err := e.replay(ctx, n, f.scratchFile); err != nil {
			return err
		}
		if err := e.spill(out, 0); err != nil {
			return err
		}
		out.todo = append(out.todo[:last], passes(out.left, f.level+1)...)
		if err := f.remove(); err != nil {
			return err
		}
	}
	return nil
}

// replay gives an output the events of a file.
func (e *engine) replay(ctx context.Context, n int, f *scratchFile) error {
	out := e.outputs[n]
	return e.goOver(ctx, f, func(head []byte, b *record.Batch) error {
		last := len(b.Columns) - 1
		out.view = record.Batch{Len: b.Len, Columns: b.Columns[:last:last], Offsets: b.Offsets, RecordTimes: b.RecordTimes}
		e.rows, e.slots = e.rows[:0], e.slots[:0]
		for row, slot := range b.Columns[last].Int64s {
			e.rows, e.slots = append(e.rows, int32(row)), append(e.slots, int32(slot))
		}
		e.clearDead(b.Len)
		if err := e.give(e.newRun(readHead(head)), n, true); err != nil {
			return err
		}
		e.tellDead()
		return e.bound()
	})
}
