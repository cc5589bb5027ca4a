package source

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"

	"hindcast/internal/blob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/plan"
	"hindcast/internal/record"
)

// PlaceColumn is a nullable integer that says where a row lies whose lent columns were not read, and are null. Where it is null they were read.
const PlaceColumn = "hindcast_place"

// A place is the number of an input among a shard's, of a row group, and of a row in it. So it is the same in every lap.
const (
	placeRows   = 32 // bits
	placeGroups = 16
	maxInputs   = math.MaxInt64 >> (placeRows + placeGroups)
)

// leastLent is how many rows of a row group must follow one another in an output for their columns to be taken as they lie: they become a row group there.
const leastLent = 16 << 10

// Lender knows the columns of a shard's events that only pass through, and takes them from exported segments as they lie where these are such that a
// table's file can have them. Whether a segment is depends on it alone. Methods may be called concurrently.
type Lender struct {
	segments blob.Store
	layout   Layout
	event    record.Schema // all of it
	lent     record.Schema // what is not read
	taken    record.Schema // what may be read, too
	inputs   []plan.Input
	number   map[string]int // of inputs, by segment
	least    int

	mu    sync.Mutex
	files map[int]*lentFile
}

// lentFile is a segment that columns are taken from.
type lentFile struct {
	names  map[string]string // of its columns, by the event's
	file   *parquetfile.File
	groups map[int]*parquetfile.Lent
}

// NewLender returns one for a shard's inputs, all of them, whose events have a schema, of which the columns lent only pass through to a table that has them so. Those taken pass through and are read,
// too: they are taken from segments that have them as the table does. Captured
// segments lend nothing, and nothing may be lent where a layout has the event in one value.
func NewLender(segments blob.Store, inputs []plan.Input, event, lent, taken record.Schema, layout Layout) *Lender {
	l := &Lender{segments: segments, layout: layout, event: event, lent: lent, taken: taken, inputs: inputs, number: map[string]int{}, least: leastLent, files: map[int]*lentFile{}}
	for i, in := range inputs {
		if !in.Captured && i <= maxInputs {
			l.number[in.Segment] = i
		}
	}
	return l
}

// names are the file's columns that are lent, by the event's; nil where the file lends none.
func (l *Lender) names(fit *Fit) map[string]string {
	names := map[string]string{}
	if len(fit.File().RowGroups()) > 1<<placeGroups {
		return nil
	}
	for _, f := range l.lent {
		name, ok := fit.Lies(f.Name)
		if !ok || !fit.File().CanLend(name, f) {
			return nil
		}
		names[f.Name] = name
	}
	for _, f := range l.taken {
		if name, ok := fit.Lies(f.Name); ok && fit.File().CanLend(name, f) {
			names[f.Name] = name
		}
	}
	return names
}

// Nullable is a schema of which every column may be null: what must be there was found to be when the run was planned.
func Nullable(schema record.Schema) record.Schema {
	schema = slices.Clone(schema)
	for i := range schema {
		schema[i].Nullable = true
	}
	return schema
}

// lends puts the batches of a cursor together.
type lends struct {
	schema record.Schema // the event's
	lent   []bool        // of its columns; nil: none is
	base   int64         // place of the input
	out    record.Batch
	none   []record.Column
	place  record.Column
}

// lend leaves those columns out that the cursor's segment lends, and returns which are read.
func (c *cursor) lend(f *parquetfile.File, m *merged, names []string) ([]string, error) {
	l := m.stores.Lender
	c.lends = &lends{schema: m.schema, none: make([]record.Column, len(m.schema))}
	number, ok := l.number[c.in.Segment]
	if !ok || c.in.Captured || l.names(c.fit) == nil {
		return names, nil
	}
	c.lends.base = int64(number) << (placeRows + placeGroups)
	var read record.Schema
	for _, field := range m.schema {
		lent := l.lent.Index(field.Name) >= 0
		c.lends.lent = append(c.lends.lent, lent)
		if !lent {
			read = append(read, field)
		}
	}
	own := len(names) - len(c.fit.Columns())
	var err error
	if c.fit, err = NewFit(f, Nullable(read), m.layout); err != nil {
		return nil, err
	}
	return append(names[:own:own], c.fit.Columns()...), nil
}

// batch adds what was not read: nulls, and where the rows lie.
func (l *lends) batch(c *cursor, b *record.Batch) (*record.Batch, error) {
	event := b.Columns[2:]
	if c.explained {
		event = event[:len(event)-1]
	}
	if c.fit != nil && !c.fit.direct {
		var err error
		if event, err = c.fit.Convert(event, b.Len); err != nil {
			return nil, err
		}
	}
	l.out.Len = b.Len
	l.out.Columns = append(l.out.Columns[:0], b.Columns[:2]...)
	for i, f := range l.schema {
		if l.lent == nil || !l.lent[i] {
			l.out.Columns = append(l.out.Columns, event[0])
			event = event[1:]
			continue
		}
		if len(l.none[i].Nulls)*64 < b.Len {
			l.none[i] = record.Nulls(f.Kind, (b.Len+63)&^63) // as many as the bitmap has
		}
		l.out.Columns = append(l.out.Columns, l.none[i])
	}
	if len(l.place.Int64s) < b.Len {
		l.place = record.Nulls(record.Int64, b.Len)
	}
	if l.lent != nil {
		l.place.Nulls = nil
		group, row := c.r.Place()
		for i := range b.Len {
			l.place.Int64s[i] = l.base | int64(group)<<placeRows | (row + int64(i))
		}
	}
	l.out.Columns = append(l.out.Columns, l.place)
	if c.explained {
		l.out.Columns = append(l.out.Columns, b.Columns[len(b.Columns)-1])
	}
	return &l.out, nil
}

// Lends reports whether one of the segments lends. It looks at them one after the other until one does.
func (l *Lender) Lends(ctx context.Context) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for number, in := range l.inputs {
		if _, ok := l.number[in.Segment]; !ok || in.Captured {
			continue
		}
		if f, err := l.open(ctx, number); err != nil || f.names != nil {
			return err == nil, err
		}
	}
	return false, nil
}

// open opens the segment of an input. The lock is held.
func (l *Lender) open(ctx context.Context, number int) (*lentFile, error) {
	if f := l.files[number]; f != nil {
		return f, nil
	}
	in := l.inputs[number]
	file, err := l.layout.Open(blob.ReaderAt(ctx, l.segments, blob.Info{Key: in.Segment, Size: int64(in.Size), ETag: in.ETag}), int64(in.Size), in.Segment)
	if err != nil {
		return nil, (&cursor{in: in}).failed(err)
	}
	fit, err := NewFit(file, Nullable(l.event), l.layout)
	if err != nil {
		return nil, (&cursor{in: in}).failed(err)
	}
	f := &lentFile{names: l.names(fit), file: fit.File(), groups: map[int]*parquetfile.Lent{}}
	l.files[number] = f
	return f, nil
}

// group opens the row group that a place is in.
func (l *Lender) group(ctx context.Context, place int64) (*lentFile, *parquetfile.Lent, error) {
	number, group := int(place>>(placeRows+placeGroups)), int(place>>placeRows&(1<<placeGroups-1))
	l.mu.Lock()
	defer l.mu.Unlock()
	if number < 0 || number >= len(l.inputs) {
		return nil, nil, fmt.Errorf("a row lies in input %d of %d", number, len(l.inputs))
	}
	f, err := l.open(ctx, number)
	if err != nil {
		return nil, nil, err
	}
	lent := f.groups[group]
	if lent == nil {
		if lent, err = f.file.Lend(group); err != nil {
			return nil, nil, err
		}
		f.groups[group] = lent
	}
	return f, lent, nil
}

// Rows turns a table's rows, the last of whose columns is their place, into rows without it: long runs of one row group as lent ones, of others their columns
// are read. Same are the event's columns that the table's are, as in the Shape of a job's transform. Which is which depends on the order of the rows and the row groups that they lie in.
func (l *Lender) Rows(ctx context.Context, same []string, rows iter.Seq2[*record.Batch, error]) iter.Seq2[*record.Batch, error] {
	return func(yield func(*record.Batch, error) bool) {
		r := &run{lender: l, same: same, yield: yield, group: -1}
		for b, err := range rows {
			if err == nil {
				err = r.add(ctx, b)
			}
			if err != nil {
				if !errors.Is(err, errStop) {
					yield(nil, err)
				}
				return
			}
		}
		if err := r.end(ctx); err != nil && !errors.Is(err, errStop) {
			yield(nil, err)
		}
	}
}

var errStop = errors.New("no more rows are wanted")

// run is rows of one row group that follow one another, or rows that have all their values.
type run struct {
	lender *Lender
	same   []string
	yield  func(*record.Batch, error) bool

	group int64 // its place, without the row; -1: the rows lie nowhere
	last  int64 // place
	lends bool
	// Before it lends: the rows, how many, and whether one comes again, as an event's that has several.
	held   []*record.Batch
	rows   int
	repeat bool
}

// add takes rows. What becomes of them does not depend on how they are cut into batches.
func (r *run) add(ctx context.Context, b *record.Batch) error {
	places := &b.Columns[len(b.Columns)-1]
	for from := 0; from < b.Len; {
		group := groupAt(places, from)
		if r.group != group || r.lends && places.Int64s[from] <= r.last {
			if err := r.end(ctx); err != nil {
				return err
			}
			r.group, r.last = group, -1
		}
		to := from
		for ; to < b.Len && groupAt(places, to) == group && (group < 0 || r.lends || r.rows+to-from < r.lender.least); to++ {
			if group < 0 {
				continue
			}
			if places.Int64s[to] <= r.last {
				if r.lends {
					break
				}
				r.repeat = true
			}
			r.last = places.Int64s[to]
		}
		part := b.Slice(from, to)
		from = to
		switch {
		case group < 0:
			if err := r.pass(part, nil); err != nil {
				return err
			}
		case r.lends:
			if err := r.give(ctx, part); err != nil {
				return err
			}
		default:
			r.held, r.rows = append(r.held, part.Clone()), r.rows+part.Len // b is another's
			if r.rows < r.lender.least {
				continue
			}
			if r.repeat {
				if err := r.end(ctx); err != nil {
					return err
				}
				continue
			}
			for _, h := range r.held {
				if err := r.give(ctx, h); err != nil {
					return err
				}
			}
			r.held, r.rows, r.lends = nil, 0, true
		}
	}
	return nil
}

// groupAt is the place of a row, without the row; -1 where it has none.
func groupAt(places *record.Column, row int) int64 {
	if places.Nulls.Get(row) {
		return -1
	}
	return places.Int64s[row] >> placeRows
}

// end ends the run. What was held of it has its columns read.
func (r *run) end(ctx context.Context) error {
	held := r.held
	r.held, r.rows, r.repeat, r.lends = nil, 0, false, false
	for _, h := range held {
		f, lent, err := r.lender.group(ctx, r.group<<placeRows)
		if err != nil {
			return err
		}
		var names []string
		var columns []int
		for i, s := range r.same {
			if name := f.names[s]; name != "" && r.lender.lent.Index(s) >= 0 {
				names, columns = append(names, name), append(columns, i)
			}
		}
		places := placesOf(h)
		rows := slices.Compact(slices.Clone(places))
		read, err := lent.Read(names, rows)
		if err != nil {
			return err
		}
		for n, i := range columns {
			if h.Columns[i] = read[n]; len(rows) < len(places) {
				h.Columns[i] = repeated(&read[n], rows, places)
			}
		}
		if err := r.pass(h, nil); err != nil {
			return err
		}
	}
	return nil
}

// repeated has the value of each of the rows as often as it is among places, which are in the same order.
func repeated(c *record.Column, rows, places []int64) record.Column {
	out := record.Column{Kind: c.Kind}
	if c.Nulls != nil {
		out.Nulls = record.NewBitmap(len(places))
	}
	for n, at := 0, 0; n < len(places); n++ {
		for rows[at] != places[n] {
			at++
		}
		if c.Nulls.Get(at) {
			out.Nulls.Set(n)
		}
		switch c.Kind {
		case record.Float64:
			out.Float64s = append(out.Float64s, c.Float64s[at])
		case record.String:
			out.Strings.Append(c.Strings.At(at))
		default:
			out.Int64s = append(out.Int64s, c.Int64s[at])
		}
	}
	return out
}

// give passes rows on as lent ones.
func (r *run) give(ctx context.Context, b *record.Batch) error {
	f, lent, err := r.lender.group(ctx, r.group<<placeRows)
	if err != nil {
		return err
	}
	names := make([]string, len(r.same))
	for i, s := range r.same {
		if s != "" {
			names[i] = f.names[s]
		}
	}
	return r.pass(b, &record.Lent{From: lent, Names: names, Rows: placesOf(b)})
}

// pass passes rows on without their places.
func (r *run) pass(b *record.Batch, lent *record.Lent) error {
	last := len(b.Columns) - 1
	if !r.yield(&record.Batch{Len: b.Len, Columns: b.Columns[:last:last], Lent: lent}, nil) {
		return errStop
	}
	return nil
}

// placesOf are rows in their row group.
func placesOf(b *record.Batch) []int64 {
	out := make([]int64, b.Len)
	for i, p := range b.Columns[len(b.Columns)-1].Int64s[:b.Len] {
		out[i] = p & (1<<placeRows - 1)
	}
	return out
}
