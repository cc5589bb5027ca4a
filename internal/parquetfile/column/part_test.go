package column

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"hindcast/internal/parquetfile/footer"
	"hindcast/internal/record"
	"hindcast/internal/testenv"
)

// codedPage is a dictionary and one page of n codes, and what the values are as text.
func codedPage(t *testing.T, rng *rand.Rand, enc *zstd.Encoder, n int) (chunk []byte, want []string) {
	const entries = 1 << 20
	page := func(h format.PageHeader, values []byte) {
		body := enc.EncodeAll(values, nil)
		h.UncompressedPageSize, h.CompressedPageSize = int32(len(values)), int32(len(body)) //nolint:gosec // small
		chunk = appendPage(t, chunk, &h, body)
	}
	var dictionary []byte
	for i := range uint64(entries) {
		dictionary = binary.LittleEndian.AppendUint64(dictionary, i*7)
	}
	page(format.PageHeader{Type: format.DictionaryPage, DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: entries, Encoding: format.Plain})}, dictionary)
	codes := make([]uint32, n)
	for i := range codes {
		if codes[i] = rng.Uint32N(entries); i > 0 && rng.IntN(3) > 0 {
			codes[i] = codes[i-1]
		}
		want = append(want, fmt.Sprint(uint64(codes[i])*7))
	}
	page(format.PageHeader{Type: format.DataPage, DataPageHeader: thrift.New(format.DataPageHeader{
		NumValues: int32(n), Encoding: format.PlainDictionary, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE, //nolint:gosec,staticcheck // small; as DuckDB has it
	})}, append([]byte{20}, encodeHybrid(rng, codes, 20)...))
	return chunk, want
}

// Of a page, as much is decompressed as was said to be wanted. Who asks for more gets the right values nevertheless.
func TestPartsOfPages(t *testing.T) {
	rng := rand.New(rand.NewPCG(43, 44))
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	rounds, parts, whole := 12, 0, 0
	if testenv.Full() {
		rounds = 200
	}
	for round := range rounds {
		shape := Shape{Kind: record.Int64, Level: round % 2, Type: []format.Type{format.Int64, format.ByteArray, format.Int64}[round/2%3]}
		var chunk []byte
		var want []string
		switch n := 300_000 + rng.IntN(50_000); {
		case round/2%3 == 2:
			shape.Level = 0
			chunk, want = codedPage(t, rng, enc, n)
		case shape.Type == format.ByteArray:
			shape.Kind = record.String
			fallthrough
		default:
			chunk, want = plainPages(t, rng, shape, enc, []int{n / 4})
		}
		for try := range 6 {
			data := padded(chunk)
			if try == 5 {
				data[rng.IntN(len(data))] ^= 1 << rng.IntN(8)
			}
			budget := new(Budget)
			r := NewReader(shape, new(Codecs), budget)
			if err := r.Start(&footer.Chunk{Codec: format.Zstd, Values: int64(len(want)), Compressed: int64(len(chunk))}, data); err != nil {
				t.Fatal(err)
			}
			until := rng.IntN(len(want))
			if try == 2 {
				until = len(want) - 1 // all has to be decompressed
			}
			r.Until(int64(until))
			to := until
			if try > 2 {
				to = len(want) // it was not true
			}
			var out record.Column
			var err error
			for at := 0; at < to && err == nil; {
				n := min(1+rng.IntN(5000), to-at)
				if rng.IntN(3) == 0 {
					r.Skip(n)
				} else if err = r.Fill(n, &out); err == nil {
					for i := range n {
						if got := text(&out, i); got != want[at+i] && try < 5 {
							t.Fatalf("round %d, %v: row %d is %q, want %q", round, shape.Type, at+i, got, want[at+i])
						}
					}
				}
				at += n
			}
			if r.rest != nil {
				parts++
			} else if to > until {
				whole++
				if err == nil {
					err = r.Finish()
				}
			}
			if try < 5 && err != nil {
				t.Fatalf("round %d, %v, rows until %d of %d: %v", round, shape.Type, until, len(want), err)
			}
			if r.Release(); err == nil && budget.held != int64(r.dictSize()) {
				t.Fatalf("round %d, %v: the budget still has %d bytes, of which %d are of the dictionary", round, shape.Type, budget.held, r.dictSize())
			}
		}
	}
	if parts < rounds || whole < rounds {
		t.Errorf("in %d rounds, parts of pages sufficed %d times, and did not %d times", rounds, parts, whole)
	}
}

// Rows that are looked at beforehand are the same, and are read as if they had not been.
func TestPeek(t *testing.T) {
	rng := rand.New(rand.NewPCG(45, 46))
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	for round := range 12 {
		shape := Shape{Kind: record.Int64, Level: round % 2, Type: []format.Type{format.Int32, format.Int64}[round/2%2]}
		pages := []int{1 + rng.IntN(9000)}
		if round > 9 {
			pages = append(pages, 10)
		}
		chunk, want := plainPages(t, rng, shape, enc, pages)
		r := NewReader(shape, new(Codecs), new(Budget))
		if err := r.Start(&footer.Chunk{Codec: format.Zstd, Values: int64(len(want)), Compressed: int64(len(chunk))}, padded(chunk)); err != nil {
			t.Fatal(err)
		}
		var seen []string
		show := func(c *record.Column, n int) {
			for i := range n {
				seen = append(seen, text(c, i))
			}
		}
		ok, err := r.Peek(1000, show)
		if err != nil || ok != (len(pages) == 1) || ok && !slices.Equal(seen, want) {
			t.Fatalf("round %d, %d pages: %t, %v, and %d of %d rows", round, len(pages), ok, err, len(seen), len(want))
		}
		seen = nil
		for at := 0; at < len(want); at += 700 {
			var out record.Column
			n := min(700, len(want)-at)
			if err := r.Fill(n, &out); err != nil {
				t.Fatal(err)
			}
			show(&out, n)
		}
		if err := r.Finish(); err != nil || !slices.Equal(seen, want) {
			t.Fatalf("round %d: %v, or other values than before", round, err)
		}
	}
}
