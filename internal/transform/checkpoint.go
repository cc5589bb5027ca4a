package transform

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/zeebo/xxh3"

	"hindcast/internal/job"
	"hindcast/internal/job/wire"
	"hindcast/internal/partition"
	"hindcast/internal/record"
	"hindcast/internal/spec"
)

// A checkpoint is a magic line, a JSON header, the ids seen and a part for each table in chunks, and the XXH3 of all that.
const magic = "hindcast checkpoint 2\n"

// header is what a checkpoint holds but for state: what it was made for, and the account so far.
type header struct {
	For    work   `json:"for"`
	Result Result `json:"result"`
}

// work tells whether a checkpoint belongs to a shard. The code is not part of it: whoever keeps checkpoints goes on with the same code only.
type work struct {
	Scheme  partition.Scheme `json:"scheme"`
	Slots   []partition.Slot `json:"slots"`
	Window  *spec.Window     `json:"window"`
	Columns record.Schema    `json:"columns"`
	Time    string           `json:"time"`
	ID      string           `json:"id"`
	Tables  []tableWork      `json:"tables"`
}

type tableWork struct {
	Table  string    `json:"table"`
	Bucket string    `json:"bucket"`
	Shape  job.Shape `json:"shape"`
}

func (e *engine) work() work {
	w := work{Scheme: e.c.Scheme, Slots: e.c.Slots, Window: e.c.Window, Columns: e.c.Columns, Time: e.c.Time, ID: e.c.ID}
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
	head := header{For: e.work(), Result: e.result(false)}
	b, err := json.Marshal(head)
	if err != nil {
		return err
	}
	var w wire.Writer
	w.Bytes(b)
	w.Bool(e.seen != nil)
	if e.seen != nil {
		e.seen.write(&w)
	}
	if err := w.Flush(to); err != nil {
		return err
	}
	for _, out := range e.outputs {
		parts := chunkWriter{to}
		if err := out.runner.Snapshot(parts); err != nil {
			return fmt.Errorf("table %s: %w", out.Table, err)
		}
		if err := parts.end(); err != nil {
			return err
		}
	}
	_, err = dst.Write(binary.LittleEndian.AppendUint64(nil, sum.Sum64()))
	return err
}

func (e *engine) restore(src io.Reader) error {
	b, err := io.ReadAll(src)
	if err != nil {
		return err
	}
	end := len(b) - 8
	if end < len(magic) || string(b[:len(magic)]) != magic || binary.LittleEndian.Uint64(b[end:]) != xxh3.Hash(b[:end]) {
		return errors.New("it is no checkpoint of this version of hindcast, or it is damaged: delete it, and the shard begins anew")
	}
	r := wire.NewReader(b[len(magic):end])
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
	e.res = head.Result
	for _, out := range e.outputs {
		out.counts = slices.DeleteFunc(slices.Clone(head.Result.Counts), func(c Count) bool { return c.Table != out.Table })
	}
	if r.Bool() {
		e.seen.read(r)
	}
	for _, out := range e.outputs {
		if err := out.runner.Restore(&chunkReader{r: r}); err != nil {
			return fmt.Errorf("table %s: %w", out.Table, err)
		}
	}
	return r.End()
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
