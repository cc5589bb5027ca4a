package parquetfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hindcast/internal/parquetfile/column"
	"hindcast/internal/record"
	"hindcast/internal/spare"
	"hindcast/internal/testenv"
)

// In all tests, what is used after it was passed on is wrong.
func TestMain(m *testing.M) {
	spare.Spoil()
	m.Run()
}

// lending is a file of columns of every kind and layout, and its rows.
func lending(t *testing.T, rng *rand.Rand, rows int) (record.Schema, *record.Batch, *File, []byte) {
	t.Helper()
	var schema record.Schema
	opts := WriterOptions{RowGroupRows: rows/2 + 1, Encodings: map[string]Encoding{}}
	b := &record.Batch{Len: rows}
	for _, nullable := range []bool{false, true} {
		for kind := record.Bool; kind <= record.Date; kind++ {
			for _, enc := range []Encoding{Auto, Plain, Dictionary, Delta} {
				if kind != record.String && rng.IntN(3) > 0 && !testenv.Full() {
					continue
				}
				name := fmt.Sprintf("%v %v %d", kind, nullable, enc)
				f := record.Field{Name: name, Kind: kind, Nullable: nullable}
				if checkOptions(record.Schema{f}, WriterOptions{Encodings: map[string]Encoding{name: enc}}) != nil {
					continue
				}
				schema, opts.Encodings[name] = append(schema, f), enc
				c := record.Column{Kind: kind}
				distinct := 1 + rng.IntN(3*rows)
				for row := range rows {
					v := rng.IntN(distinct)
					null := nullable && rng.IntN(4) == 0
					if null {
						if c.Nulls == nil {
							c.Nulls = record.NewBitmap(rows)
						}
						c.Nulls.Set(row)
						v = 0
					}
					switch kind {
					case record.Float64:
						c.Float64s = append(c.Float64s, float64(v)/8)
					case record.String:
						text := fmt.Appendf(nil, "value %d of some length, so that pages end", v)
						if null {
							text = nil
						}
						c.Strings.Append(text)
					case record.Bool:
						c.Int64s = append(c.Int64s, int64(v%2))
					default:
						c.Int64s = append(c.Int64s, int64(v))
					}
				}
				b.Columns = append(b.Columns, c)
			}
		}
	}
	data := writeFile(t, schema, opts, b)
	f, err := Open(bytes.NewReader(data), int64(len(data)), "segment")
	if err != nil {
		t.Fatal(err)
	}
	return schema, b, f, data
}

// some are ascending rows of a group: runs, and single ones.
func some(rng *rand.Rand, rows int) []int64 {
	var out []int64
	for row := rng.IntN(20); row < rows; {
		n := 1 + rng.IntN(3)
		if rng.IntN(3) == 0 {
			n = rng.IntN(rows)
		}
		for ; n > 0 && row < rows; n-- {
			out = append(out, int64(row))
			row++
		}
		row += 1 + rng.IntN(1+rng.IntN(1+rows/4))
	}
	return out
}

// take writes rows of groups of f: every fourth column by value, the others as they lie.
func take(t *testing.T, schema record.Schema, b *record.Batch, f *File, rows [][]int64) (data []byte, want *record.Batch, err error) {
	t.Helper()
	want = &record.Batch{Columns: make([]record.Column, len(schema))}
	for i := range want.Columns {
		want.Columns[i].Kind = schema[i].Kind
	}
	var out bytes.Buffer
	w, err := NewWriter(&out, schema, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	base := int64(0)
	for g, rows := range rows {
		l, err := f.Lend(g)
		if err != nil {
			t.Fatal(err)
		}
		for len(rows) > 0 {
			n := min(len(rows), 1000)
			part := &record.Batch{Len: n, Columns: make([]record.Column, len(schema)), Lent: &record.Lent{From: l, Names: make([]string, len(schema)), Rows: rows[:n]}}
			for i, c := range schema {
				part.Columns[i].Kind = c.Kind
				for at, row := range rows[:n] {
					want.Columns[i].Append(want.Len+at, &b.Columns[i], int(base+row))
					if i%4 == 0 {
						part.Columns[i].Append(at, &b.Columns[i], int(base+row))
					}
				}
				if i%4 != 0 {
					part.Lent.Names[i] = c.Name
				}
			}
			want.Len += n
			if err := w.Write(part); err != nil {
				return nil, nil, err
			}
			rows = rows[n:]
		}
		base += f.RowGroups()[g].Rows
	}
	if err := w.Close(); err != nil {
		return nil, nil, err
	}
	return out.Bytes(), want, nil
}

// sameAs asks that a file has certain rows.
func sameAs(data []byte, schema record.Schema, want *record.Batch) error {
	f, err := Open(bytes.NewReader(data), int64(len(data)), "taken")
	if err != nil {
		return err
	}
	r, at := f.Read(ReadOptions{}), 0
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for i := range schema {
			for row := range b.Len {
				x, y := &b.Columns[i], &want.Columns[i]
				null := x.Nulls.Get(row)
				if null != y.Nulls.Get(at+row) {
					return fmt.Errorf("column %q, row %d: null is %v", schema[i].Name, at+row, null)
				}
				if null {
					continue
				}
				switch schema[i].Kind {
				case record.Float64:
					if x.Float64s[row] != y.Float64s[at+row] {
						return fmt.Errorf("column %q, row %d: %v is not %v", schema[i].Name, at+row, x.Float64s[row], y.Float64s[at+row])
					}
				case record.String:
					if !bytes.Equal(x.Strings.At(row), y.Strings.At(at+row)) {
						return fmt.Errorf("column %q, row %d: %q is not %q", schema[i].Name, at+row, x.Strings.At(row), y.Strings.At(at+row))
					}
				default:
					if x.Int64s[row] != y.Int64s[at+row] {
						return fmt.Errorf("column %q, row %d: %v is not %v", schema[i].Name, at+row, x.Int64s[row], y.Int64s[at+row])
					}
				}
			}
		}
		at += b.Len
	}
	if at != want.Len {
		return fmt.Errorf("%d rows are not %d", at, want.Len)
	}
	return nil
}

func TestColumnsAreTakenAsTheyLie(t *testing.T) {
	t.Parallel()
	rounds, rows := uint64(1), 8_000
	if testenv.Full() {
		rounds, rows = 4, 30_000
	}
	for seed := range rounds {
		rng := rand.New(rand.NewPCG(seed, 21))
		schema, b, f, _ := lending(t, rng, rows)
		chosen := [][]int64{some(rng, rows/2+1), some(rng, rows-rows/2-1)}
		data, want, err := take(t, schema, b, f, chosen)
		if err != nil {
			t.Fatal(seed, err)
		}
		if err := sameAs(data, schema, want); err != nil {
			t.Error(seed, err)
		}
		l, err := f.Lend(0)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range schema {
			names = append(names, c.Name)
		}
		read, err := l.Read(names, chosen[0])
		if err != nil {
			t.Fatal(err)
		}
		for i := range read {
			for n, row := range chosen[0] {
				got, from := record.Column{Kind: schema[i].Kind}, record.Column{Kind: schema[i].Kind}
				got.Append(0, &read[i], n)
				from.Append(0, &b.Columns[i], int(row))
				if fmt.Sprint(got) != fmt.Sprint(from) {
					t.Fatalf("seed %d, column %q, row %d: %v is not %v", seed, names[i], row, got, from)
				}
			}
		}
	}
}

// A whole page is copied: nothing of it is compressed anew. What is read back is what was lent.
func TestWholePagesAreCopied(t *testing.T) {
	t.Parallel()
	schema, b, f, segment := lending(t, rand.New(rand.NewPCG(1, 2)), 5_000)
	rows := make([]int64, 2501)
	for i := range rows {
		rows[i] = int64(i)
	}
	data, want, err := take(t, schema, b, f, [][]int64{rows, rows[:2499]})
	if err != nil {
		t.Fatal(err)
	}
	if err := sameAs(data, schema, want); err != nil {
		t.Error(err)
	}
	for i, c := range schema {
		if i%4 == 0 {
			continue
		}
		col, chunk, err := (&Lent{f, 0}).chunk(c.Name, rows, true)
		if err != nil {
			t.Fatal(err)
		}
		for n, p := range chunk.pages {
			if p.rows != nil || !bytes.Contains(data, p.bytes[p.head:]) || !bytes.Contains(segment, p.bytes) {
				t.Errorf("column %q: page %d was not copied", col.name, n)
			}
		}
	}
}

// What reading refuses is not copied. (Damage to what no checksum covers, and that is as well-formed as before, neither finds.)
func TestADamagedPageIsNotCopied(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	schema, b, _, data := lending(t, rng, 3000)
	rows := [][]int64{some(rng, 1501), some(rng, 1499)}
	damages := 12
	if testenv.Full() {
		damages = 200
	}
	named := 0
	for range damages {
		bad := slices.Clone(data)
		bad[4+rng.IntN(len(bad)-4)] ^= 1 << rng.IntN(8)
		f, err := Open(bytes.NewReader(bad), int64(len(bad)), "segment")
		if err != nil || !slices.Equal(f.Schema(), schema) || len(f.RowGroups()) != 2 {
			continue
		}
		taken, want, err := take(t, schema, b, f, rows)
		if err != nil {
			if !strings.Contains(err.Error(), "segment") {
				t.Errorf("the damaged file is not named: %v", err)
			}
			named++
			continue
		}
		if err := sameAs(taken, schema, want); err != nil {
			if unread := sameAs(bad, schema, b); unread == nil || !strings.Contains(unread.Error(), "is not") {
				t.Errorf("a damaged page was copied: %v; reading says: %v", err, unread)
			}
		}
	}
	if named == 0 {
		t.Error("no damage was found: nothing is tested")
	}
}

// Where the dictionary is copied, the codes of strings are all that is read of pages that are written anew.
func TestDictionariesThatAreCopiedAreNotRead(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 8))
	seen := 0
	for range 4 {
		schema, _, f, _ := lending(t, rng, 3000)
		rows := some(rng, 1501)
		for _, s := range schema {
			l := &Lent{f, 0}
			c, chunk, err := l.chunk(s.Name, rows, true)
			if err != nil {
				t.Fatal(err)
			}
			if s.Kind != record.String || !chunk.codes {
				continue
			}
			var codes [2][]uint32
			var text [2]int
			for i := range codes {
				chunk.codes = i == 0
				if err := l.decode(c, chunk, new(column.Codecs), func(_ int, values *record.Column, rows []int) error {
					text[i] += len(values.Strings.Data)
					for _, row := range rows {
						codes[i] = append(codes[i], values.Strings.Codes[row])
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(codes[0], codes[1]) || text[0] > 0 || len(codes[1]) > 0 && text[1] == 0 {
				t.Errorf("column %q: %d codes and %d bytes are not %d codes that were read with %d bytes of the dictionary", s.Name, len(codes[0]), text[0], len(codes[1]), text[1])
			}
			seen += len(codes[0])
		}
	}
	if seen == 0 {
		t.Error("no code was read")
	}
}
