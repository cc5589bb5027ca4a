package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"hindcast/internal/blob"
	"hindcast/internal/job"
	"hindcast/internal/parquetfile"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/scratch"
	"hindcast/internal/source"
	"hindcast/internal/spec"
	"hindcast/internal/table"
	"hindcast/internal/transform"
	"hindcast/internal/unit"
)

type workIn struct {
	Run   string `json:"run"`
	Shard string `json:"shard"`
	// Seq counts the shard's laps from 0: a lap begins with the checkpoint of that number.
	Seq int `json:"seq"`
	// Cursor is where the lap before stopped; Ended says that it was after all of the input.
	Cursor *transform.Position `json:"cursor,omitempty"`
	Ended  bool                `json:"ended,omitempty"`
	// Whole says why a divided shard is computed whole; see finished.
	Whole string `json:"whole,omitempty"`
	// Workers is how many go on beside each other.
	Workers int `json:"workers,omitempty"`
}

type workOut struct {
	workIn
	Done bool `json:"done"`
	// Paused says that the run is to stand still: the next lap is to begin in Hold seconds.
	Paused bool `json:"paused"`
	Hold   int  `json:"hold,omitempty"`
}

// finished is what a finished shard leaves behind.
type finished struct {
	Shard string `json:"shard"`
	// Files are the shard's, by table and partition. A partition without rows has none, and is listed.
	Files  map[string]map[string][]table.File `json:"files"`
	Result transform.Result                   `json:"result"`
	// Whole says why a divided shard was not put together of what its parts left, but computed whole.
	Whole string `json:"whole,omitempty"`
	// PeakMemory is what the last lap's ids, states and rows took at most; see [transform.Result].
	PeakMemory unit.Bytes `json:"peak_memory"`
}

func doneKey(shard string) string { return "done/" + shard + ".json" }

// maxLaps is how many laps a shard may take: each costs the child's history 7 events, of which it can have 25,000.
const maxLaps = 2000

// work does one lap of a shard: all of it, unless the worker's time runs out.
func (e *Env) work(ctx context.Context, in workIn) (_ workOut, err error) {
	defer func() {
		if errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = &Error{NoProgress, fmt.Errorf("%s: its time was over before a piece of it was done and stored: %s", in, advice)}
		}
	}()
	r, j, err := e.begun(ctx, in.Run)
	if err != nil {
		return workOut{}, err
	}
	store := e.runStore(in.Run)
	out := workOut{workIn: in, Done: true}
	out.Cursor, out.Ended = nil, false
	switch err := readJSON(ctx, store, doneKey(in.Shard), new(finished)); {
	case err == nil:
		return out, nil
	case !lost(err):
		return workOut{}, err
	}
	control := &controlled{env: e, run: in.Run, shard: in.Shard, workers: in.Workers, began: e.Now()}
	if control.look(ctx); control.paused() {
		return workOut{workIn: in, Paused: true, Hold: control.hold()}, nil
	}
	p, err := e.Planned(ctx, in.Run)
	if err != nil {
		return workOut{}, err
	}
	if in.Seq >= maxLaps {
		return workOut{}, &Error{NoProgress, fmt.Errorf(
			"%s: it is given up after so many laps, of which each does too little: %s", in, advice)}
	}
	var sh share
	if err := readJSON(ctx, store, shardKey(in.Shard), &sh); err != nil {
		return workOut{}, err
	}
	l := &lap{env: e, request: r, shard: sh, store: store, control: control, whole: in.Whole, files: map[string]map[string][]table.File{}}
	res, err := l.run(ctx, p.Plan, j, in)
	if err != nil {
		return workOut{}, fmt.Errorf("shard %s: %w", in.Shard, err)
	}
	if !res.Done {
		out.Done, out.Seq, out.Cursor, out.Ended, out.Whole = false, in.Seq+1, res.Cursor, res.Ended, l.whole
		if control.paused() {
			out.Paused, out.Hold = true, control.hold()
		}
		return out, nil
	}
	return out, writeOnce(ctx, store, doneKey(in.Shard), &finished{
		Shard: in.Shard, Files: l.files, Result: res, Whole: l.whole, PeakMemory: unit.Bytes(res.PeakMemory),
	})
}

// advice is what to do about laps that come to too little.
const advice = "give calls of workers more time (--worker-timeout), or start a new run with smaller shards (--shard-rows)"

// String says which lap it is, and where it begins.
func (in workIn) String() string {
	at := "the beginning of its input"
	switch {
	case in.Ended:
		at = "the end of its input, where not all is computed and written yet"
	case in.Cursor != nil:
		at = in.Cursor.String()
	}
	return fmt.Sprintf("shard %s, lap %d, from %s", in.Shard, in.Seq+1, at)
}

// Lap says which lap of which shard a call of the state Work is to do, and where that begins.
func Lap(in json.RawMessage) (string, error) {
	var w workIn
	if err := json.Unmarshal(in, &w); err != nil {
		return "", fmt.Errorf("read the input of %s: %w", Work, err)
	}
	return w.String(), nil
}

// lap is one call of a worker.
type lap struct {
	env     *Env
	request Request
	shard   share
	store   blob.Store // the run's
	control *controlled
	dataset blob.Store
	writes  *errgroup.Group // of partitions
	whole   string          // see finished
	// Of a job whose columns pass through, where they can be taken as they lie: from where, and those of the table.
	lender *source.Lender
	same   []string

	mu    sync.Mutex
	files map[string]map[string][]table.File
	early map[slotOf]*table.Files // of rows that were passed on before the end
}

// slotOf is a partition of a table.
type slotOf struct{ table, label string }

func (l *lap) run(ctx context.Context, p *plan.Plan, j job.Job, in workIn) (transform.Result, error) {
	c, err := transform.ForShard(p, l.shard.Shard, j.Outputs())
	if err != nil {
		return transform.Result{}, err
	}
	schemas, err := Schemas(j, p.Spec)
	if err != nil {
		return transform.Result{}, err
	}
	if err := l.lend(ctx, p, &c); err != nil {
		return transform.Result{}, err
	}
	if l.shard.Of != "" {
		if schemas, err = partSchemas(j, c, schemas, l.shard.Slice); err != nil {
			return transform.Result{}, err
		}
	}
	if l.dataset, err = l.env.Dataset(ctx, p.Spec); err != nil {
		return transform.Result{}, err
	}
	if l.shard.Parts != nil && in.Seq == 0 {
		if res, ok, err := l.gather(ctx, j, c, schemas); ok || err != nil {
			return res, err
		}
	}
	c.Sink = l.sinks(ctx, schemas)
	c.Early = l.takesEarly(ctx, schemas)
	defer func() {
		for _, f := range l.early {
			f.Discard()
		}
	}()
	// Half is left for what is being read and written, and for the collector.
	c.Memory = int64(l.env.WorkerMemory / 2)
	// The shard leaves fingerprints that tell an id that is in two shards, and this lap a checkpoint, unless it is the last.
	var fingerprints scratchFile
	defer fingerprints.remove()
	if c.ID != "" && l.shard.tellsIDs() {
		c.Fingerprints = &fingerprints
	}
	var checkpoint scratchFile
	defer checkpoint.remove()
	c.Checkpoint = &checkpoint
	var inputs []plan.Input
	if !in.Ended {
		inputs = remaining(l.shard.Inputs, in.Cursor)
	}
	c.Save = func() (json.RawMessage, error) {
		if err := l.writes.Wait(); err != nil {
			return nil, err
		}
		return json.Marshal(l.files)
	}
	c.Load = func(files json.RawMessage) error { return json.Unmarshal(files, &l.files) }
	if in.Seq > 0 {
		o, err := l.store.Get(ctx, l.checkpointKey(in.Seq), blob.GetOptions{})
		if err != nil {
			return transform.Result{}, err
		}
		defer o.Body.Close()
		c.Resume = o.Body
	}
	reader, err := l.open(ctx, p, inputs, &c)
	if err != nil {
		return transform.Result{}, err
	}
	counted := &counting{Reader: reader, control: l.control, tell: func(rows int64) {
		if l.env.Progress != nil {
			l.env.Progress(in.Run, in.Shard, rows)
		}
	}}
	c.Stop = l.stop(ctx)
	res, err := transform.Run(ctx, counted, c)
	if werr := l.writes.Wait(); werr != nil {
		err = werr // a failed write ends the run, too: what it says then is only that
	}
	if err != nil {
		return transform.Result{}, err
	}
	// What the checkpoint says is done must be there before it.
	if fingerprints.f != nil || res.Done && c.Fingerprints != nil && res.Fingerprints == 0 {
		if err := fingerprints.put(ctx, l.store, fingerprintsKey(in.Shard)); err != nil {
			return transform.Result{}, err
		}
	}
	if res.Done {
		return res, nil
	}
	return res, checkpoint.put(ctx, l.store, l.checkpointKey(in.Seq+1))
}

// scratchFile is a file that is made when something is written to it.
type scratchFile struct{ f *scratch.File }

func (s *scratchFile) Write(b []byte) (int, error) {
	if s.f == nil {
		var err error
		if s.f, err = scratch.New(""); err != nil {
			return 0, err
		}
	}
	return s.f.Write(b)
}

// put stores what was written.
func (s *scratchFile) put(ctx context.Context, store blob.Store, key string) error {
	if s.f == nil {
		_, err := blob.PutBytes(ctx, store, key, nil, blob.Condition{})
		return err
	}
	if _, err := s.f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read a scratch file: %w", err)
	}
	_, err := store.Put(ctx, key, s.f, blob.Condition{})
	return err
}

func (s *scratchFile) remove() {
	if s.f != nil {
		_ = s.f.Close() // it is of no use any more
	}
}

// sinks begins to list files, and returns what writes them, which is done when l.writes are.
func (l *lap) sinks(ctx context.Context, schemas map[string]table.Schema) transform.Sink {
	l.begin()
	var wctx context.Context
	l.writes, wctx = errgroup.WithContext(ctx)
	l.writes.SetLimit(putParallel)
	return func(name, label string, rows iter.Seq2[*record.Batch, error]) error {
		return l.sink(wctx, name, label, schemas[name], rows)
	}
}

// begin lists every partition that the shard replaces: those without rows are replaced, too.
func (l *lap) begin() {
	for _, t := range l.shard.Tables {
		partitions := map[string][]table.File{}
		for _, slot := range l.shard.Slots {
			partitions[l.shard.Scheme.Dir(slot.Label)] = nil
		}
		l.files[t] = partitions
	}
}

// earlyRows is how many rows a partition has when it is begun to be written, which takes earlyBytes of memory, about: as many as make that worth it.
const (
	earlyRows  = 1 << 15
	earlyBytes = 16 << 20
)

// takesEarly has rows that need not wait written while the shard goes on.
func (l *lap) takesEarly(ctx context.Context, schemas map[string]table.Schema) *transform.Early {
	l.early = map[slotOf]*table.Files{}
	return &transform.Early{
		Rows: earlyRows, Bytes: earlyBytes,
		Take: func(name, label string, b *record.Batch) error {
			f := l.early[slotOf{name, label}]
			if f == nil {
				var err error
				if f, err = l.newFiles(name, label, schemas[name]); err != nil {
					return err
				}
				l.early[slotOf{name, label}] = f
			}
			return f.Write(ctx, b)
		},
		Recall: func(name, label string) iter.Seq2[*record.Batch, error] {
			f := l.early[slotOf{name, label}]
			files, rows := f.Break()
			l.written(name, label, files)
			return rows
		},
	}
}

// sink writes a partition's file. Most partitions are small, and most of the time that they take is waiting for the
// store: those of one batch are written beside each other.
func (l *lap) sink(ctx context.Context, name, label string, schema table.Schema, rows iter.Seq2[*record.Batch, error]) error {
	if l.lender != nil && l.shard.Of == "" { // what parts leave is gathered with the places
		rows = l.lender.Rows(ctx, l.same, rows)
	}
	if f := l.early[slotOf{name, label}]; f != nil {
		delete(l.early, slotOf{name, label})
		return l.finish(ctx, name, label, f, rows)
	}
	next, stop := iter.Pull2(rows)
	defer stop()
	first, err, ok := next()
	if !ok || err != nil {
		return err
	}
	first = first.Clone()
	second, err, more := next()
	f, broken := l.newFiles(name, label, schema)
	if broken != nil {
		return broken
	}
	if !more {
		l.writes.Go(func() error {
			if err := l.fill(ctx, f, all(first)); err != nil {
				return err
			}
			return l.close(ctx, name, label, f)
		})
		return nil
	}
	return l.finish(ctx, name, label, f, func(yield func(*record.Batch, error) bool) {
		if !yield(first, nil) {
			return
		}
		for ok := true; ok && yield(second, err); second, err, ok = next() {
			if err != nil {
				return
			}
		}
	})
}

func all(batches ...*record.Batch) iter.Seq2[*record.Batch, error] {
	return func(yield func(*record.Batch, error) bool) {
		for _, b := range batches {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// finish writes the last rows of a partition. The end of its last file is written beside what comes next.
func (l *lap) finish(ctx context.Context, name, label string, f *table.Files, rows iter.Seq2[*record.Batch, error]) error {
	if err := l.fill(ctx, f, rows); err != nil {
		return err
	}
	l.writes.Go(func() error { return l.close(ctx, name, label, f) })
	return nil
}

// fill writes rows of a partition. After an error there is nothing left of them.
func (l *lap) fill(ctx context.Context, f *table.Files, rows iter.Seq2[*record.Batch, error]) error {
	for b, err := range rows {
		if err == nil {
			err = f.Write(ctx, b)
		}
		if err != nil {
			f.Discard()
			return writeError(err)
		}
	}
	return nil
}

// close ends the files of a partition.
func (l *lap) close(ctx context.Context, name, label string, f *table.Files) error {
	defer f.Discard()
	files, err := f.Close(ctx)
	if err != nil {
		return writeError(err)
	}
	l.written(name, label, files)
	return nil
}

// writeError names damage to a segment that columns are taken from.
func writeError(err error) error {
	if damage := (*parquetfile.Error)(nil); errors.As(err, &damage) {
		return readError(err)
	}
	return err
}

// written notes files of a partition that are in the store.
func (l *lap) written(name, label string, files []table.File) {
	dir := l.shard.Scheme.Dir(label)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files[name][dir] = append(l.files[name][dir], files...)
}

// newFiles begins a partition's files, or goes on after those that earlier laps wrote.
func (l *lap) newFiles(name, label string, schema table.Schema) (*table.Files, error) {
	dir := schema.Partition(label)
	l.mu.Lock()
	before := len(l.files[name][dir])
	l.mu.Unlock()
	store, opts := l.dataset, table.WriteOptions{Target: targetSize(l.request.Spec, name)}
	path := func(n int) string {
		if tp := l.shard.TopicPartition; tp != nil {
			return table.BucketPath(l.request.Run, name, dir, *tp, before+n)
		}
		return table.Path(l.request.Run, name, dir, before+n)
	}
	if l.shard.Of != "" {
		store, opts.Target = l.store, 0
		path = func(int) string { return partKey(l.shard.ID, name, dir) }
	}
	return table.NewFiles(store, path, schema, label, opts)
}

func (l *lap) checkpointKey(seq int) string { return fmt.Sprintf("checkpoints/%s/%d", l.shard.ID, seq) }

// lend finds out which columns are taken from segments as they lie, and from where; none, where no segment lends, whose rows need not wait for what is lent.
// A slice numbers places as the shard does that gathers it.
func (l *lap) lend(ctx context.Context, p *plan.Plan, c *transform.Config) error {
	if src := p.Spec.Source.Segments; src.Value != nil || src.Tiered != nil {
		return nil
	}
	lending := *c
	if err := lending.Lend(); err != nil || len(lending.Lent) == 0 {
		return err
	}
	shape, err := c.Outputs[0].Transform.Shape()
	if err != nil {
		return err
	}
	var taken record.Schema
	for i, name := range shape.Same {
		if f := shape.Rows[i]; name != "" && lending.Lent.Index(name) < 0 {
			f.Name = name
			taken = append(taken, f)
		}
	}
	inputs := l.shard.Inputs
	if l.shard.Of != "" {
		var whole share
		if err := readJSON(ctx, l.store, shardKey(l.shard.Of), &whole); err != nil {
			return err
		}
		inputs = whole.Inputs
	}
	segments, layout, err := l.segments(ctx, p)
	if err != nil {
		return err
	}
	lender := source.NewLender(segments, inputs, c.Columns, lending.Lent, taken, layout)
	lends, err := lender.Lends(ctx)
	if err != nil {
		return readError(err)
	}
	if lends {
		*c, l.lender, l.same = lending, lender, shape.Same
	}
	return nil
}

// segments opens what exported segments lie in, and says what is in them.
func (l *lap) segments(ctx context.Context, p *plan.Plan) (blob.Store, source.Layout, error) {
	src := p.Spec.Source.Segments
	segments := l.store // of tiered storage, all is captured
	if src.Tiered == nil {
		var err error
		if segments, err = l.env.Open(ctx, l.env.Locate(src.Parquet)); err != nil {
			return nil, source.Layout{}, fmt.Errorf("open segments: %w", err)
		}
	}
	registry, err := l.env.runRegistry(p.Spec, l.request.Run)
	return segments, source.LayoutOf(p.Spec.Source, registry), err
}

func (l *lap) open(ctx context.Context, p *plan.Plan, inputs []plan.Input, c *transform.Config) (source.Reader, error) {
	segments, layout, err := l.segments(ctx, p)
	if err != nil {
		return nil, err
	}
	var times *source.Times
	if from, to, ok := c.Times(); ok {
		times = &source.Times{Column: c.Time, From: from, To: to, NoPrune: p.NoPrune}
	}
	columns := c.Columns
	if l.lender != nil {
		columns = columns[:len(columns)-1] // but for the place
	}
	return source.OpenTimes(ctx, source.Stores{Segments: segments, Captured: l.store, Lender: l.lender}, inputs, columns, layout, times)
}

// stop says when a lap has gone on for long enough.
func (l *lap) stop(ctx context.Context) func(rows int64) bool {
	deadline, limited := ctx.Deadline()
	return func(rows int64) bool {
		if l.control.look(ctx); l.control.paused() || l.request.LapRows > 0 && rows >= l.request.LapRows {
			return true
		}
		return limited && l.env.LapEnd > 0 && deadline.Sub(l.env.Now()) < l.env.LapEnd
	}
}

// remaining leaves out what was read up to the cursor. How many rows are left of the topic partition's segments is not known.
func remaining(inputs []plan.Input, cursor *transform.Position) []plan.Input {
	if cursor == nil {
		return inputs
	}
	rest := plan.Range{First: cursor.Offset + 1, Next: math.MaxInt64}
	var out []plan.Input
	for _, in := range inputs {
		if in.Partition == cursor.Partition {
			if in.Keep == nil {
				in.Keep = plan.Ranges{rest}
			}
			in.Keep, in.Rows = in.Keep.Clip(rest), 0
		}
		if in.Partition > cursor.Partition || in.Partition == cursor.Partition && len(in.Keep) > 0 {
			out = append(out, in)
		}
	}
	return out
}

// counting counts the rows that go through a reader.
type counting struct {
	source.Reader
	control *controlled
	rows    int64
	told    int64
	tell    func(rows int64)
}

// tellEvery is how many rows are read between two reports.
const tellEvery = 50_000

func (c *counting) Next(ctx context.Context) (int32, *record.Batch, error) {
	p, b, err := c.Reader.Next(ctx)
	if err == nil {
		c.rows += int64(b.Len)
		err = c.control.pace(ctx, int64(b.Len))
	} else if !errors.Is(err, io.EOF) {
		err = readError(err)
	}
	if c.rows-c.told >= tellEvery || err != nil {
		c.tell(c.rows - c.told)
		c.told = c.rows
	}
	return p, b, err
}

// readError names an error of reading input: what is there does not go away by itself, unless the store says so.
func readError(err error) error {
	err = inputError(err)
	var named *Error
	if errors.As(err, &named) || passing(err) {
		return err
	}
	return &Error{InputDamaged, err}
}

func fingerprintsKey(shard string) string { return "fingerprints/" + shard }

// targetSize is the size at which a table's next file begins.
func targetSize(s *spec.Spec, name string) unit.Bytes {
	at := slices.IndexFunc(s.Outputs, func(o spec.Output) bool { return o.Table == name })
	return s.Outputs[at].TargetSize()
}

// Schemas are those of a job's tables.
func Schemas(j job.Job, s *spec.Spec) (map[string]table.Schema, error) {
	out := map[string]table.Schema{}
	for _, o := range s.Outputs {
		shape, err := j.Outputs()[o.Table].Shape()
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", o.Table, err)
		}
		out[o.Table] = table.Schema{Rows: shape.Rows, Keys: shape.Keys, Scheme: o.Scheme}
	}
	return out, nil
}
