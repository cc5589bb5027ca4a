package transform

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/zeebo/xxh3"

	"hindcast/internal/job"
	"hindcast/internal/job/wire"
	"hindcast/internal/partition"
	"hindcast/internal/record"
	"hindcast/internal/spec"
)

// A checkpoint is a magic line, what was in memory (a JSON header, the ids seen, a part for each table, and what is said of scratch), an XXH3 of all that, the
// scratch files, and an XXH3 of everything. What was in memory and each file are in chunks.
const magic = "hindcast checkpoint 4\n"

// header is what a checkpoint holds but for state: what it was made for, and the account so far.
type header struct {
	For    work   `json:"for"`
	Result Result `json:"result"`
	place
	Saved json.RawMessage `json:"saved,omitempty"` // the caller's
}

// work tells whether a checkpoint belongs to a shard. The code is not part of it: whoever keeps checkpoints goes on with the same code only.
type work struct {
	Scheme  partition.Scheme `json:"scheme"`
	Slots   []partition.Slot `json:"slots"`
	Window  *spec.Window     `json:"window"`
	Columns record.Schema    `json:"columns"`
	Time    string           `json:"time"`
	ID      string           `json:"id"`
	Keys    job.Share        `json:"keys"`
	Partial bool             `json:"partial"`
	Tables  []tableWork      `json:"tables"`
}

type tableWork struct {
	Table  string    `json:"table"`
	Bucket string    `json:"bucket"`
	Shape  job.Shape `json:"shape"`
}

func (e *engine) work() work {
	w := work{Scheme: e.c.Scheme, Slots: e.c.Slots, Window: e.c.Window, Columns: e.c.Columns, Time: e.c.Time, ID: e.c.ID, Keys: e.c.Keys, Partial: e.c.Partial}
	for _, out := range e.outputs {
		w.Tables = append(w.Tables, tableWork{out.Table, out.BucketColumn, out.shape})
	}
	return w
}

func (e *engine) checkpoint(dst io.Writer) error {
	sum := xxh3.New()
	to := io.MultiWriter(dst, sum)
	if _, err := io.WriteString(to, magic); err != nil {
		return err
	}
	memory := chunkWriter{to}
	head := header{For: e.work(), Result: e.result(false), place: e.place}
	var err error
	if e.c.Save != nil {
		if head.Saved, err = e.c.Save(); err != nil {
			return err
		}
	}
	b, err := json.Marshal(head)
	if err != nil {
		return err
	}
	var w wire.Writer
	w.Bytes(b)
	w.Bool(e.seen != nil)
	if e.seen != nil {
		if err := e.seen.write(&w, memory); err != nil {
			return err
		}
	}
	if err := w.Flush(memory); err != nil {
		return err
	}
	for _, out := range e.outputs {
		parts := chunkWriter{memory}
		if err := out.runner.Snapshot(parts); err != nil {
			return fmt.Errorf("table %s: %w", out.Table, err)
		}
		if err := parts.end(); err != nil {
			return err
		}
	}
	e.writeSpilled(&w)
	if err := w.Flush(memory); err != nil {
		return err
	}
	if err := memory.end(); err != nil {
		return err
	}
	if _, err := to.Write(binary.LittleEndian.AppendUint64(nil, sum.Sum64())); err != nil {
		return err
	}
	for _, f := range e.files() {
		if *f == nil {
			continue
		}
		content := chunkWriter{to}
		if err := (*f).copyTo(content); err != nil {
			return err
		}
		if err := content.end(); err != nil {
			return err
		}
	}
	_, err = dst.Write(binary.LittleEndian.AppendUint64(nil, sum.Sum64()))
	return err
}

var errCheckpoint = errors.New("it is no checkpoint of this version of hindcast, or it is damaged: delete it, and the shard begins anew")

func (e *engine) restore(src io.Reader) error {
	in := &summedReader{r: bufio.NewReaderSize(src, 64<<10), sum: xxh3.New()}
	line := make([]byte, len(magic))
	if _, err := io.ReadFull(in, line); string(line) != magic {
		return cmp.Or(foreign(err), errCheckpoint)
	}
	var memory bytes.Buffer
	if err := in.chunks(&memory); err != nil {
		return err
	}
	if err := in.check(); err != nil {
		return err
	}
	if err := e.restoreMemory(wire.NewReader(memory.Bytes())); err != nil {
		return err
	}
	for _, f := range e.files() {
		if *f == nil {
			continue
		}
		if err := in.chunks((*f).w); err != nil {
			return err
		}
	}
	if err := in.check(); err != nil {
		return err
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return cmp.Or(err, errCheckpoint)
	}
	return nil
}

func (e *engine) restoreMemory(r *wire.Reader) error {
	var head header
	if err := json.Unmarshal(r.Bytes(), &head); err != nil {
		return err
	}
	got, err := json.Marshal(head.For)
	if err != nil {
		return err
	}
	if want, err := json.Marshal(e.work()); err != nil || string(got) != string(want) {
		return errors.Join(errors.New("it belongs to another shard, or to a job with other columns"), err)
	}
	e.res, e.place = head.Result, head.place
	if e.c.Load != nil {
		if err := e.c.Load(head.Saved); err != nil {
			return err
		}
	}
	for _, out := range e.outputs {
		out.counts = slices.DeleteFunc(slices.Clone(head.Result.Counts), func(c Count) bool { return c.Table != out.Table })
	}
	if r.Bool() {
		if e.Stage != reading {
			e.seen = newSeen(0)
		}
		e.seen.read(r)
	}
	for _, out := range e.outputs {
		if err := out.runner.Restore(&chunkReader{r: r}); err != nil {
			return fmt.Errorf("table %s: %w", out.Table, err)
		}
	}
	if err := e.readSpilled(r); err != nil {
		return err
	}
	return r.End()
}

// writeSpilled writes what is known of scratch, and which files there are.
func (e *engine) writeSpilled(w *wire.Writer) {
	w.Bool(e.full)
	w.Bool(e.late != nil)
	if l := e.late; l != nil {
		w.Uint(uint64(l.count))
		w.Uint(uint64(l.replayed))
		writePasses(w, l.todo)
		for _, bitmap := range []record.Bitmap{l.again, l.other} {
			w.Uint(uint64(len(bitmap)))
			for _, v := range bitmap {
				w.Fixed(v)
			}
		}
	}
	for _, out := range e.outputs {
		w.Bool(out.sealed)
		w.Bool(out.finishing)
		w.Uint(uint64(out.level))
		writePasses(w, out.todo)
		w.Bool(out.left != nil)
		w.Uint(uint64(len(out.runs)))
		for _, run := range out.runs {
			for _, end := range run.ends {
				w.Uint(uint64(end))
			}
		}
	}
	dead := slices.SortedFunc(maps.Keys(e.deadAt), Position.compare)
	w.Uint(uint64(len(dead)))
	for _, at := range dead {
		w.Uint(uint64(at.Partition))
		w.Uint(uint64(at.Offset))
	}
	for _, f := range e.files() {
		w.Bool(*f != nil)
		if *f != nil {
			w.Uint(uint64((*f).size))
		}
	}
}

// readSpilled reads that, and makes the files, which are still empty.
func (e *engine) readSpilled(r *wire.Reader) error {
	e.full = r.Bool()
	if r.Bool() {
		l := newLate()
		e.late = l
		l.count, l.replayed, l.todo = int64(r.Uint()), int(r.Uint()), readPasses(r)
		for _, bitmap := range []*record.Bitmap{&l.again, &l.other} {
			for n := r.Len(); n > 0 && r.Err() == nil; n-- {
				*bitmap = append(*bitmap, r.Fixed())
			}
		}
	}
	for _, out := range e.outputs {
		if out.sealed = r.Bool(); out.sealed {
			if out.bounded == nil {
				return errCheckpoint
			}
			out.bounded.Seal()
		}
		out.finishing, out.level, out.todo = r.Bool(), int(r.Uint()), readPasses(r)
		if r.Bool() {
			out.left = make([]*scratchFile, scratchParts)
		}
		for n := r.Len(); n > 0 && r.Err() == nil; n-- {
			run := sortedRun{}
			for range len(e.labels()) + 1 {
				run.ends = append(run.ends, int64(r.Uint()))
			}
			out.runs = append(out.runs, run)
		}
	}
	for n := r.Len(); n > 0 && r.Err() == nil; n-- {
		if e.deadAt == nil {
			e.deadAt = map[Position]bool{}
		}
		e.deadAt[Position{int32(r.Uint()), int64(r.Uint())}] = true
	}
	for _, f := range e.files() {
		if !r.Bool() {
			continue
		}
		var err error
		if *f, err = newScratchFile(e.c.Scratch); err != nil {
			return err
		}
		(*f).size = int64(r.Uint())
	}
	for _, out := range e.outputs {
		for i := range out.runs {
			out.runs[i].scratchFile = out.scratch
		}
	}
	return r.Err()
}

// writePasses writes how many files there are to be read once more, and their levels.
func writePasses(w *wire.Writer, todo []pass) {
	w.Uint(uint64(len(todo)))
	for _, f := range todo {
		w.Uint(uint64(f.level))
	}
}

func readPasses(r *wire.Reader) (todo []pass) {
	for n := r.Len(); n > 0 && r.Err() == nil; n-- {
		todo = append(todo, pass{level: int(r.Uint())})
	}
	return todo
}

// files are the places of all scratch files, in a fixed order; some are empty.
func (e *engine) files() (all []**scratchFile) {
	places := func(files []*scratchFile) {
		for i := range files {
			all = append(all, &files[i])
		}
	}
	passes := func(todo []pass) {
		for i := range todo {
			all = append(all, &todo[i].scratchFile)
		}
	}
	if l := e.late; l != nil {
		all = append(all, &l.rows)
		places(l.ids)
		places(l.prints)
		passes(l.todo)
	}
	for _, out := range e.outputs {
		all = append(all, &out.scratch)
		places(out.left)
		passes(out.todo)
	}
	return all
}

// foreign is an error of reading, unless that is only that there is no more.
func foreign(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// summedReader sums up what is read of a checkpoint.
type summedReader struct {
	r   *bufio.Reader
	sum *xxh3.Hasher
}

func (s *summedReader) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	_, _ = s.sum.Write(b[:n]) // never fails
	return n, err
}

func (s *summedReader) ReadByte() (byte, error) {
	b, err := s.r.ReadByte()
	if err == nil {
		_, _ = s.sum.Write([]byte{b}) // never fails
	}
	return b, err
}

// check holds the sum so far against the one that comes next.
func (s *summedReader) check() error {
	want := s.sum.Sum64()
	var b [8]byte
	if _, err := io.ReadFull(s, b[:]); err != nil || binary.LittleEndian.Uint64(b[:]) != want {
		return cmp.Or(foreign(err), errCheckpoint)
	}
	return nil
}

// chunks copies what a chunkWriter wrote, up to its end.
func (s *summedReader) chunks(dst io.Writer) error {
	for {
		n, err := binary.ReadUvarint(s)
		if err == nil && n > math.MaxInt64 {
			err = errCheckpoint
		}
		if err == nil && n > 0 {
			_, err = io.CopyN(dst, s, int64(n))
		}
		if err != nil {
			return cmp.Or(foreign(err), errCheckpoint)
		}
		if n == 0 {
			return nil
		}
	}
}

// chunkWriter writes each write as a chunk: its length and its bytes. An empty chunk ends.
type chunkWriter struct{ to io.Writer }

func (c chunkWriter) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if _, err := c.to.Write(binary.AppendUvarint(nil, uint64(len(b)))); err != nil {
		return 0, err
	}
	return c.to.Write(b)
}

func (c chunkWriter) end() error {
	_, err := c.to.Write([]byte{0})
	return err
}

// chunkReader reads what a chunkWriter wrote, up to its end.
type chunkReader struct {
	r     *wire.Reader
	chunk []byte
	done  bool
}

func (c *chunkReader) Read(b []byte) (int, error) {
	if len(c.chunk) == 0 && !c.done {
		c.chunk = c.r.Bytes()
		c.done = len(c.chunk) == 0
	}
	if err := c.r.Err(); err != nil {
		return 0, err
	}
	if c.done {
		return 0, io.EOF
	}
	n := copy(b, c.chunk)
	c.chunk = c.chunk[n:]
	return n, nil
}
