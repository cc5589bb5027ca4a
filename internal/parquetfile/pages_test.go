package parquetfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"hindcast/internal/parquetfile/footer"
	"hindcast/internal/record"
	"hindcast/internal/testenv"
)

// timed is a file of pages of any size: a time that mostly ascends, the number of the row, and columns of all kinds.
type timed struct {
	data  []byte
	at    record.Column // the times
	rows  []string
	group int // rows of a row group
}

func newTimed(t *testing.T, rng *rand.Rand, n int) *timed {
	t.Helper()
	schema := append(record.Schema{{Name: "at", Kind: record.Timestamp, Nullable: rng.IntN(2) == 0}, {Name: "n", Kind: record.Int64}}, allKinds()...)
	b := randomBatch(rng, schema, n)
	for i := range n {
		at := int64(10*i + rng.IntN(50))
		if rng.IntN(100) == 0 {
			at = max(0, at-int64(rng.IntN(500)))
		}
		if b.Columns[0].Int64s[i], b.Columns[1].Int64s[i] = at, int64(i); b.Columns[0].Nulls.Get(i) {
			b.Columns[0].Int64s[i] = 0
		}
	}
	f := &timed{at: b.Columns[0], group: 1 + rng.IntN(n), rows: rows(b)}
	f.data = writeFile(t, schema, WriterOptions{RowGroupRows: f.group, PageBytes: 1 + rng.IntN([]int{50, 3000}[rng.IntN(2)])}, b)
	return f
}

// wants reports whether a row has to be read by who wants times of [from, to).
func (f *timed) wants(row int, from, to int64) bool {
	return f.at.Nulls.Get(row) || f.at.Int64s[row] >= from && f.at.Int64s[row] < to
}

var errWrong = errors.New("wrong")

// read reads what is needed for times of [from, to), of row groups that are owned or not, holds it against the rows that were written, and says how many rows'
// late columns were left out. What is silently wrong is errWrong.
func (f *timed) read(data []byte, from, to int64, owned, windows bool, batch int) (left int64, err error) {
	file, err := Open(bytes.NewReader(data), int64(len(data)), "f")
	if err != nil {
		return 0, err
	}
	cuts, rest := map[int]Cut{}, map[int]Stretch{}
	var groups []int
	for g, info := range file.RowGroups() {
		s, ok, err := file.Between(g, "at", from, to)
		if err != nil {
			return 0, err
		}
		rest[g] = Stretch{0, info.Rows}
		if ok {
			left += info.Rows - s.Rows()
			if cuts[g] = (Cut{Rows: rest[g], Late: s, By: "at"}); !owned {
				cuts[g] = Cut{Rows: s, Late: s, By: "at"}
				rest[g] = s
			}
		}
		if rest[g].Rows() > 0 {
			groups = append(groups, g)
		} else {
			rest[g] = Stretch{info.Rows, info.Rows}
		}
	}
	if len(groups) > 0 {
		wanted := func(b *record.Batch) bool {
			at := timed{at: b.Columns[0]}
			for row := range b.Len {
				if at.wants(row, from, to) {
					return true
				}
			}
			return false
		}
		r := file.Read(ReadOptions{RowGroups: groups, BatchRows: batch, First: []string{"at", "n"}, Wanted: wanted, Cuts: cuts})
		if windows {
			r.preload = 0
		}
		for {
			b, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return left, err
			}
			group, row := r.Place()
			if row != rest[group].From || row+int64(b.Len) > rest[group].To {
				return left, fmt.Errorf("%w: rows from %d of group %d come where %v are due", errWrong, row, group, rest[group])
			}
			rest[group] = Stretch{row + int64(b.Len), rest[group].To}
			for i, got := range rows(b) {
				at := group*f.group + int(row) + i
				is := f.rows[at]
				if !f.wants(at, from, to) { // its late columns may be null
					fields := strings.Split(is, "|")
					if short := strings.Join(fields[:3], "|") + strings.Repeat("|null", len(fields)-3); got == short {
						continue
					}
				}
				if got != is {
					return left, fmt.Errorf("%w: row %d is\n%s, want\n%s", errWrong, at, got, is)
				}
			}
		}
	}
	for g := range rest {
		if rest[g].Rows() > 0 {
			return left, fmt.Errorf("%w: rows %v of group %d are missing", errWrong, rest[g], g)
		}
	}
	for row := range f.rows {
		g, in := row/f.group, int64(row%f.group)
		c, cut := cuts[g]
		if f.wants(row, from, to) && cut && (in < c.Late.From || in >= c.Late.To) {
			return left, fmt.Errorf("%w: row %d is left out", errWrong, row)
		}
	}
	return left, nil
}

func TestStretchesOfRowGroupsAreReadByPages(t *testing.T) {
	t.Parallel()
	n := 3
	if testenv.Full() {
		n = 100
	}
	left := int64(0)
	for seed := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), 21)) //nolint:gosec // repeatable
		f := newTimed(t, rng, 1+rng.IntN(800))
		from := rng.Int64N(9000) - 500
		for _, owned := range []bool{true, false} {
			for _, windows := range []bool{true, false} {
				out, err := f.read(f.data, from, from+rng.Int64N(3000), owned, windows, 1+rng.IntN(300))
				if err != nil {
					t.Fatalf("seed %d, owned %v, in windows %v: %v", seed, owned, windows, err)
				}
				left += out
			}
		}
	}
	if left < int64(n)*100 {
		t.Errorf("only %d rows were left out", left)
	}
}

// Whatever a page index says: of two who go by it, one of whom owns the row groups and reads all of their times, both are right or one has an error.
func TestPageIndexesThatLieAreFound(t *testing.T) {
	t.Parallel()
	n := 20
	if testenv.Full() {
		n = 800
	}
	found, harmless := 0, 0
	var f *timed
	var begin, end int
	var chunks []footer.Chunk
	for seed := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), 22)) //nolint:gosec // repeatable
		if seed%20 == 0 {
			f = newTimed(t, rng, 200+rng.IntN(200))
			begin, end, chunks = f.index(t)
		}
		data := bytes.Clone(f.data)
		for range 1 + rng.IntN(2) {
			c := chunks[rng.IntN(len(chunks))]
			switch rng.IntN(3) {
			case 0:
				data[begin+rng.IntN(end-begin)] = byte(rng.IntN(256)) //nolint:gosec // any
				continue
			case 1:
				moveRow(rng, data[c.IndexOffset:][:c.IndexLength])
				continue
			}
			// Bounds that are narrower than they are, of times mostly.
			bounds, err := footer.ParseColumnIndex(data[c.BoundsOffset:][:c.BoundsLength])
			if err != nil || len(bounds.Min) == 0 {
				continue
			}
			page := rng.IntN(len(bounds.Min))
			if least, most := bounds.Min[page], bounds.Max[page]; len(least) == 8 && len(most) == 8 {
				lo, hi := binary.LittleEndian.Uint64(least), binary.LittleEndian.Uint64(most)
				binary.LittleEndian.PutUint64([][]byte{least, most}[rng.IntN(2)], lo+rng.Uint64N(max(1, hi-lo+1)))
			}
		}
		from := rng.Int64N(4000)
		to := from + rng.Int64N(2000)
		_, ownErr := f.read(data, from+rng.Int64N(100), to, true, false, 100)
		_, err := f.read(data, from, to, false, false, 100)
		switch {
		case errors.Is(ownErr, errWrong), ownErr == nil && errors.Is(err, errWrong):
			t.Fatalf("seed %d: the owner has %v, another %v", seed, ownErr, err)
		case ownErr != nil || err != nil:
			found++
		default:
			harmless++
		}
	}
	if found < n/10 || harmless < n/10 {
		t.Errorf("of %d damaged indexes %d were errors and %d were not", n, found, harmless)
	}
}

// moveRow has a page of an offset index begin with another row.
func moveRow(rng *rand.Rand, index []byte) {
	pages, err := footer.ParseOffsetIndex(index)
	if err != nil || len(pages) < 2 {
		return
	}
	moveRowOf(index, pages[1+rng.IntN(len(pages)-1)].First, int64(1+rng.IntN(3)))
}

func moveRowOf(index []byte, first, by int64) {
	field := func(row int64) []byte { return append(binary.AppendVarint([]byte{0x16}, row), 0) } // the last of a location
	if at, to := bytes.Index(index, field(first)), field(first+by); at >= 0 {
		copy(index[at:], to[:min(len(to), len(field(first)))])
	}
}

// index is where the file's page index lies, and the chunks that are lied about: of times, and of one column more.
func (f *timed) index(t *testing.T) (begin, end int, chunks []footer.Chunk) {
	t.Helper()
	end = len(f.data) - 8 - int(binary.LittleEndian.Uint32(f.data[len(f.data)-8:]))
	meta, err := footer.Parse(f.data[end : len(f.data)-8])
	if err != nil {
		t.Fatal(err)
	}
	begin = end
	for _, g := range meta.Groups {
		chunks = append(chunks, g.Chunks[0], g.Chunks[0], g.Chunks[1+len(chunks)/3%(len(g.Chunks)-1)])
		for _, c := range g.Chunks {
			begin = min(begin, int(c.BoundsOffset), int(c.IndexOffset))
		}
	}
	return begin, end, chunks
}

// Of columns that are left out there are as many rows as of others, however the batches' sizes grow.
func TestColumnsThatAreLeftOutHaveAsManyRows(t *testing.T) {
	t.Parallel()
	schema := record.Schema{{Name: "n", Kind: record.Int64}, {Name: "x", Kind: record.Int64}}
	b := randomBatch(rand.New(rand.NewPCG(1, 2)), schema, 600)
	data := writeFile(t, schema, WriterOptions{}, b)
	f, err := Open(bytes.NewReader(data), int64(len(data)), "f")
	if err != nil {
		t.Fatal(err)
	}
	r := f.Read(ReadOptions{
		First: []string{"n"}, Wanted: func(*record.Batch) bool { return false },
		Cuts: map[int]Cut{0: {Rows: Stretch{10, 590}, Late: Stretch{250, 492}}},
	})
	for _, want := range []int{240, 242, 98} {
		got, err := r.Next()
		if err != nil || got.Len != want || len(got.Columns[1].Int64s) < want {
			t.Fatalf("%v, %v; want a batch of %d", got, err, want)
		}
	}
}

// Rows of a page that the index counts wrong would be taken for others.
func TestPageIndexesThatCountWrongAreFound(t *testing.T) {
	t.Parallel()
	schema := record.Schema{{Name: "n", Kind: record.Int64}, {Name: "x", Kind: record.Int64}}
	b := randomBatch(rand.New(rand.NewPCG(1, 2)), schema, 60)
	f := timed{data: writeFile(t, schema, WriterOptions{PageBytes: 80}, b)}
	_, _, chunks := f.index(t)
	x := chunks[2]
	moveRowOf(f.data[x.IndexOffset:][:x.IndexLength], 20, 1)
	file, err := Open(bytes.NewReader(f.data), int64(len(f.data)), "f")
	if err != nil {
		t.Fatal(err)
	}
	r := file.Read(ReadOptions{Columns: []string{"x"}, Cuts: map[int]Cut{0: {Rows: Stretch{25, 29}}}})
	if got, err := r.Next(); err == nil || !strings.Contains(err.Error(), `row group 0, column "x"`) || !strings.Contains(err.Error(), "page index") {
		t.Fatalf("%v, %v", got, err)
	}
}
