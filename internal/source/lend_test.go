package source_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hindcast/internal/blob"
	"hindcast/internal/blob/memblob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/source"
	"hindcast/internal/source/sourcetest"
	"hindcast/internal/testenv"
)

var (
	lentColumns  = record.Schema{{Name: "id", Kind: record.String}, {Name: "country", Kind: record.String, Nullable: true}}
	takenColumns = record.Schema{{Name: "amount", Kind: record.Int64}}
	tableColumns = record.Schema{{Name: "name", Kind: record.String}, {Name: "cents", Kind: record.Int64}, {Name: "land", Kind: record.String, Nullable: true}, {Name: "n", Kind: record.Int64}}
	sameColumns  = []string{"id", "amount", "country", ""}
)

func lender(l layout) *source.Lender {
	out := source.NewLender(l.stores.Segments, l.inputs, sourcetest.Schema(), lentColumns, takenColumns, source.Layout{Kafka: source.CapturedColumns})
	out.SetLeast(40)
	return out
}

// lentRows are a table's rows, in batches of up to so many: those of the log that have an event, every so often twice. Their last column is the place.
func lentRows(t *testing.T, l layout, by *source.Lender, size, twice int) iter.Seq2[*record.Batch, error] {
	t.Helper()
	stores := l.stores
	stores.Lender = by
	r := open(t, stores, l.inputs...)
	return func(yield func(*record.Batch, error) bool) {
		defer r.Close()
		kinds := append(slices.Clone(tableColumns), record.Field{Name: "place", Kind: record.Int64, Nullable: true})
		out, n := empty(kinds), 0
		for {
			_, b, err := r.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				yield(nil, err)
				return
			}
			c := b.Columns
			for row := range b.Len {
				if !c[5].Nulls.Get(row) {
					continue // it has no event
				}
				n++
				for range 1 + btoi(twice > 0 && n%twice == 0) {
					for i, from := range []int{0, 2, 3} {
						add(&out.Columns[i], out.Len, &c[from], row)
					}
					out.Columns[3].Int64s = append(out.Columns[3].Int64s, int64(n))
					add(&out.Columns[4], out.Len, &c[4], row)
					if out.Len++; out.Len == size {
						if !yield(out, nil) {
							return
						}
						out = empty(kinds)
					}
				}
			}
		}
		if out.Len > 0 {
			yield(out, nil)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func empty(schema record.Schema) *record.Batch {
	b := &record.Batch{Columns: make([]record.Column, len(schema))}
	for i, f := range schema {
		b.Columns[i].Kind = f.Kind
	}
	return b
}

func add(to *record.Column, n int, from *record.Column, row int) {
	for len(to.Nulls)*64 <= n {
		to.Nulls = append(to.Nulls, 0)
	}
	null := from.Nulls.Get(row)
	switch {
	case null:
		to.Nulls.Set(n)
		fallthrough
	case from.Kind != record.String:
		if from.Kind == record.String {
			to.Strings.Append(nil)
		} else {
			to.Int64s = append(to.Int64s, from.Int64s[row])
		}
	default:
		to.Strings.Append(from.Strings.At(row))
	}
}

// lentFile writes the rows of a layout, and says how many were lent.
func lentFile(t *testing.T, l layout, size, twice int) (data []byte, lent int, err error) {
	t.Helper()
	var out bytes.Buffer
	w, err := parquetfile.NewWriter(&out, tableColumns, parquetfile.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	by := lender(l)
	for b, err := range by.Rows(t.Context(), sameColumns, lentRows(t, l, by, size, twice)) {
		if err == nil {
			err = w.Write(b)
		}
		if err != nil {
			return nil, 0, err
		}
		if b.Lent != nil {
			lent += b.Len
		}
	}
	err = w.Close()
	return out.Bytes(), lent, err
}

// text is a file's rows.
func text(t *testing.T, data []byte) (rows []string) {
	t.Helper()
	f, err := parquetfile.Open(bytes.NewReader(data), int64(len(data)), "table")
	if err != nil {
		t.Fatal(err)
	}
	for r := f.Read(parquetfile.ReadOptions{}); ; {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			return rows
		}
		if err != nil {
			t.Fatal(err)
		}
		for row := range b.Len {
			country := "null"
			if !b.Columns[2].Nulls.Get(row) {
				country = string(b.Columns[2].Strings.At(row))
			}
			rows = append(rows, fmt.Sprint(string(b.Columns[0].Strings.At(row)), b.Columns[1].Int64s[row], country, b.Columns[3].Int64s[row]))
		}
	}
}

func TestLentColumnsAreThoseThatAreRead(t *testing.T) {
	t.Parallel()
	n := 4
	if testenv.Full() {
		n = 1000
	}
	lentOnce, readOnce := false, false
	for seed := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), 31))
		l := random(t, rng, 0, sourcetest.Event)
		twice := rng.IntN(2) * (1 + rng.IntN(300))
		data, lent, err := lentFile(t, l, 1+rng.IntN(300), twice)
		if err != nil {
			t.Fatal(seed, err)
		}
		var want []string
		n := 0
		for _, r := range l.rows {
			if r.Error != "" {
				continue
			}
			n++
			country := "null"
			if r.Country != nil {
				country = *r.Country
			}
			for range 1 + btoi(twice > 0 && n%twice == 0) {
				want = append(want, fmt.Sprint(r.ID, r.Amount, country, n))
			}
		}
		if got := text(t, data); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d rows differ from the %d expected", seed, len(got), len(want))
		}
		lentOnce, readOnce = lentOnce || lent > 0, readOnce || lent < len(want)
		again, _, err := lentFile(t, l, 1+rng.IntN(3000), twice)
		if err != nil || !bytes.Equal(data, again) {
			t.Fatalf("seed %d: %v: the bytes depend on how rows are cut into batches", seed, err)
		}
	}
	if !lentOnce || !readOnce {
		t.Errorf("rows were lent: %v, and read: %v", lentOnce, readOnce)
	}
}

// Only of segments that lend is anything lent: of captured ones, and of those of other writers or kinds, it is not.
func TestALenderKnowsWhetherSegmentsLend(t *testing.T) {
	t.Parallel()
	mem := memblob.New()
	events := sourcetest.Events(0, plan.Ranges{{First: 0, Next: 30}})
	captured := sourcetest.Input(t, mem, "captured.parquet", events, true, parquetfile.WriterOptions{})
	exported := sourcetest.Input(t, mem, "a.parquet", events, false, parquetfile.WriterOptions{})
	for _, c := range []struct {
		inputs []plan.Input
		column record.Field
		lends  bool
	}{
		{[]plan.Input{captured}, lentColumns[0], false},
		{[]plan.Input{captured, exported}, lentColumns[0], true},
		{[]plan.Input{exported}, record.Field{Name: "id", Kind: record.String, Nullable: true}, false},
	} {
		l := source.NewLender(mem, c.inputs, sourcetest.Schema(), record.Schema{c.column}, nil, source.Layout{Kafka: source.CapturedColumns})
		if got, err := l.Lends(t.Context()); err != nil || got != c.lends {
			t.Errorf("%d segments, %v: got %v, %v", len(c.inputs), c.column, got, err)
		}
	}
}

// A page that is damaged after the run was planned is named, whether its rows would be lent or read.
func TestDamageToLentColumnsIsNamed(t *testing.T) {
	t.Parallel()
	for _, rows := range []int64{30, 3000} {
		mem := memblob.New()
		in := sourcetest.Input(t, mem, "a.parquet", sourcetest.Events(0, plan.Ranges{{First: 0, Next: rows}}), false, parquetfile.WriterOptions{})
		o, err := mem.Get(t.Context(), "a.parquet", blob.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(o.Body)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.LastIndex(data[:len(data)/2], []byte("p0-")) // in the header of the ids' page, which a body follows
		if at < 0 {
			t.Fatal("no id is seen in the file")
		}
		data[at+30] ^= 1
		in.ETag = sourcetest.Put(t, mem, "a.parquet", data).ETag
		_, _, err = lentFile(t, layout{stores: source.Stores{Segments: mem}, inputs: []plan.Input{in}}, 100, 0)
		var damage *parquetfile.Error
		if !errors.As(err, &damage) || damage.File != "a.parquet" || damage.Column != "id" || !strings.Contains(err.Error(), "checksum") {
			t.Errorf("%d rows: got %v", rows, err)
		}
	}
}
