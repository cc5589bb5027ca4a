// Package jobtest runs jobs in tests, as authors write them: records in, tables out, as text.
//
// Each run is done twice, in other batches, other shards and with stops between, and must give the
// same. A transform that depends on more than its events in order is likely to fail that.
package jobtest

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hindcast/internal/job"
	"hindcast/internal/partition"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/spec"
	"hindcast/internal/transform"
)

// Options narrow a run. The zero value runs over all there is and expects no event to be bad.
type Options struct {
	// From and To are the window, half-open; both zero means the whole log.
	From, To time.Time
	// NoDedupe switches dedupe by event id off.
	NoDedupe bool
	// DeadLetters and Conflicts are how many the run must have.
	DeadLetters, Conflicts int64
}

// Tables is what a run gave.
type Tables struct {
	// Counts say what became of the records, by table, topic partition and origin.
	Counts           []transform.Count
	FirstDeadLetters []transform.DeadLetter
	FirstConflicts   []transform.Conflict

	tables map[string]*tableRows
	result []transform.Result
}

// tableRows is a table as CSV. Rows of one cut by bucket are kept until all are there, to be sorted by key.
type tableRows struct {
	text   strings.Builder
	csv    *csv.Writer
	byTime bool
	rows   []row
}

type row struct {
	key   []any
	cells []string
}

// Run runs a job over a log and returns its tables. What is wrong ends the test.
func Run(tb testing.TB, j job.Job, log Log, o Options) *Tables {
	tb.Helper()
	s, err := j.Spec()
	if err != nil {
		tb.Fatal(err)
	}
	if err := job.Validate(j, s); err != nil {
		tb.Fatal(err)
	}
	if o.NoDedupe {
		s.Source.Event.Dedupe = false
	}
	columns, err := job.Columns(s, j.Outputs())
	if err != nil {
		tb.Fatal(err)
	}
	data, err := log.read(s, columns)
	if err != nil {
		tb.Fatal(err)
	}
	whole := run{tb: tb, job: j, spec: s, options: o, data: data}
	pieces := whole
	pieces.rng = rand.New(rand.NewPCG(1, 2)) // always the same, so that a failure can be repeated
	first, second := whole.run(), pieces.run()
	for _, out := range s.Outputs {
		if a, b := first.CSV(out.Table), second.CSV(out.Table); a != b {
			tb.Errorf("table %s depends on how the log is cut into batches, shards or laps: %s", out.Table, difference(b, a))
		}
	}
	var dead, conflicts int64
	for _, r := range first.result {
		dead, conflicts = dead+r.DeadLetters, conflicts+r.Conflicts
	}
	if dead != o.DeadLetters {
		tb.Errorf("%d dead letters, want %d: %+v", dead, o.DeadLetters, first.FirstDeadLetters)
	}
	if conflicts != o.Conflicts {
		tb.Errorf("%d ids with two contents, want %d: %+v", conflicts, o.Conflicts, first.FirstConflicts)
	}
	return first
}

// CSV writes a table with a header, as `hindcast table cat` does, but for one cut by bucket, which is sorted by key alone.
func (t *Tables) CSV(table string) string {
	if rows := t.tables[table]; rows != nil {
		return rows.text.String()
	}
	return ""
}

// Count adds up what became of the records, for one table.
func (t *Tables) Count(table string) transform.Count {
	sum := transform.Count{Table: table}
	for _, c := range t.Counts {
		if c.Table == table {
			sum.Applied += c.Applied
			sum.Filtered += c.Filtered
			sum.Duplicate += c.Duplicate
			sum.Conflict += c.Conflict
			sum.Stale += c.Stale
			sum.Outside += c.Outside
			sum.Dead += c.Dead
		}
	}
	return sum
}

// Equal fails the test if got is not want, and shows the first line that differs.
func Equal(tb testing.TB, got, want string) {
	tb.Helper()
	if got != want {
		tb.Error(difference(got, want))
	}
}

func difference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			return fmt.Sprintf("line %d:\n got %s\nwant %s", i+1, a, b)
		}
	}
	return "equal"
}

// run is one way to run a job: whole without rng, in pieces with.
type run struct {
	tb      testing.TB
	job     job.Job
	spec    *spec.Spec
	options Options
	data    []part
	rng     *rand.Rand
}

func (r *run) run() *Tables {
	t := &Tables{tables: map[string]*tableRows{}}
	p := &plan.Plan{Spec: r.spec}
	if !r.options.From.IsZero() || !r.options.To.IsZero() {
		p.Window = &spec.Window{From: r.options.From.UnixMicro(), To: r.options.To.UnixMicro()}
	}
	for _, d := range r.data {
		p.Partitions = append(p.Partitions, plan.Partition{Partition: d.partition, Tail: d.tail})
	}
	for _, scheme := range r.spec.Schemes() {
		var tables []string
		for _, o := range r.spec.Outputs {
			if o.Scheme == scheme {
				tables = append(tables, o.Table)
				t.tables[o.Table] = r.table(o)
			}
		}
		for _, sh := range r.shards(scheme, p.Window) {
			sh.Scheme, sh.Tables = scheme, tables
			r.runShard(t, p, sh)
		}
	}
	for _, rows := range t.tables {
		slices.SortStableFunc(rows.rows, func(a, b row) int { return compareKeys(a.key, b.key) })
		for _, row := range rows.rows {
			rows.write(row.cells)
		}
		rows.csv.Flush()
	}
	return t
}

func (r *run) table(o spec.Output) *tableRows {
	shape, err := r.job.Outputs()[o.Table].Shape()
	if err != nil {
		r.tb.Fatal(err)
	}
	rows := &tableRows{byTime: o.ByTime()}
	rows.csv = csv.NewWriter(&rows.text)
	var header []string
	if f, ok := o.Scheme.Field(); ok {
		header = append(header, f.Name)
	}
	for _, f := range shape.Rows {
		header = append(header, f.Name)
	}
	rows.write(header)
	return rows
}

func (t *tableRows) write(cells []string) {
	t.csv.Write(cells) //nolint:errcheck // a strings.Builder takes everything
}

// shards divides the work as a plan does: by topic partition for buckets, else by slots.
func (r *run) shards(scheme partition.Scheme, w *spec.Window) []plan.Shard {
	var out []plan.Shard
	everything := plan.Ranges{{First: 0, Next: 1 << 62}}
	if !scheme.ByTime() {
		for _, d := range r.data {
			out = append(out, plan.Shard{
				TopicPartition: &d.partition, Inputs: []plan.Input{{Partition: d.partition, Owned: everything}}, Rows: int64(d.batch.Len),
			})
		}
		return out
	}
	if w == nil {
		if w = r.span(); w == nil {
			return nil
		}
	}
	slots, err := scheme.Slots(w.From, w.To)
	if err != nil {
		r.tb.Fatal(err)
	}
	for len(slots) > 0 {
		n := len(slots)
		if r.rng != nil && len(out) < 2 {
			n = 1 + r.rng.IntN(n)
		}
		sh := plan.Shard{Slots: slots[:n]}
		for _, d := range r.data {
			in := plan.Input{Partition: d.partition}
			if len(out) == 0 {
				in.Owned = everything
			}
			sh.Inputs = append(sh.Inputs, in)
		}
		out, slots = append(out, sh), slots[n:]
	}
	return out
}

// span is the range of the log's event times; nil if it has none.
func (r *run) span() *spec.Window {
	var w *spec.Window
	for _, d := range r.data {
		c := &d.batch.Columns[0] // the event time comes first
		for i := range d.batch.Len {
			if c.Nulls.Get(i) {
				continue
			}
			if w == nil {
				w = &spec.Window{From: c.Int64s[i], To: c.Int64s[i] + 1}
			}
			w.From, w.To = min(w.From, c.Int64s[i]), max(w.To, c.Int64s[i]+1)
		}
	}
	return w
}

// runShard runs a shard, in laps if the run is in pieces.
func (r *run) runShard(t *Tables, p *plan.Plan, sh plan.Shard) {
	var checkpoint []byte
	for lap := 0; ; lap++ {
		c, err := transform.ForShard(p, sh, r.job.Outputs())
		if err != nil {
			r.tb.Fatal(err)
		}
		c.Sink = t.sink()
		if checkpoint != nil {
			c.Resume = bytes.NewReader(checkpoint)
		}
		var saved bytes.Buffer
		if r.rng != nil {
			batches := 1 + r.rng.IntN(200)
			c.Checkpoint = &saved
			c.Stop = func(int64) bool {
				batches--
				return batches == 0 && lap < 2
			}
		}
		res, err := transform.Run(r.tb.Context(), &reader{run: r, shard: sh}, c)
		if err != nil {
			r.tb.Fatal(err)
		}
		if res.Done {
			t.result = append(t.result, res)
			t.Counts = append(t.Counts, res.Counts...)
			t.FirstDeadLetters = append(t.FirstDeadLetters, res.FirstDeadLetters...)
			t.FirstConflicts = append(t.FirstConflicts, res.FirstConflicts...)
			return
		}
		checkpoint = saved.Bytes()
	}
}

func (t *Tables) sink() transform.Sink {
	return func(table, label string, batches iter.Seq2[*record.Batch, error]) error {
		to := t.tables[table]
		for b, err := range batches {
			if err != nil {
				return err
			}
			for i := range b.Len {
				var r row
				if to.byTime {
					r.cells = append(r.cells, label)
				}
				for c := range b.Columns {
					r.cells = append(r.cells, text(&b.Columns[c], i))
				}
				if to.byTime {
					to.write(r.cells)
					continue
				}
				for c := range b.Columns {
					r.key = append(r.key, sortKey(&b.Columns[c], i))
				}
				to.rows = append(to.rows, r)
			}
		}
		return nil
	}
}

// text writes a value as CSV has it.
func text(c *record.Column, row int) string {
	switch {
	case c.Nulls.Get(row):
		return ""
	case c.Kind == record.String:
		return string(c.Strings.At(row))
	case c.Kind == record.Float64:
		return strconv.FormatFloat(c.Float64s[row], 'g', -1, 64)
	}
	v := c.Int64s[row]
	switch c.Kind {
	case record.Bool:
		return strconv.FormatBool(v != 0)
	case record.Timestamp:
		return time.UnixMicro(v).UTC().Format(time.RFC3339Nano)
	case record.Date:
		return time.Unix(v*24*60*60, 0).UTC().Format(time.DateOnly)
	default:
		return strconv.FormatInt(v, 10)
	}
}

// sortKey returns what [compareKeys] compares: key columns are strings, or integers underneath.
func sortKey(c *record.Column, row int) any {
	switch {
	case c.Nulls.Get(row):
		return nil
	case c.Kind == record.String:
		return string(c.Strings.At(row))
	case c.Kind == record.Float64:
		return nil
	}
	return c.Int64s[row]
}

// compareKeys compares rows column by column: keys come first, and no two rows of a fold have equal ones.
func compareKeys(a, b []any) int {
	for i := range a {
		var c int
		switch x := a[i].(type) {
		case string:
			y, _ := b[i].(string)
			c = strings.Compare(x, y)
		case int64:
			y, _ := b[i].(int64)
			c = cmp.Compare(x, y)
		}
		if c != 0 {
			return c
		}
	}
	return 0
}
