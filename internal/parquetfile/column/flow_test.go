package column

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"hindcast/internal/parquetfile/footer"
	"hindcast/internal/record"
	"hindcast/internal/testenv"
)

// plainPages are pages of random plain values, compressed by enc, and what the values are as text, "" where they are null.
func plainPages(t *testing.T, rng *rand.Rand, shape Shape, enc *zstd.Encoder, sizes []int) (chunk []byte, want []string) {
	for _, n := range sizes {
		var values, present []byte
		nulls := int32(0)
		levels := make([]uint32, n)
		for i := range n {
			if shape.Level > 0 && rng.IntN(4) == 0 {
				want, nulls = append(want, ""), nulls+1
				continue
			}
			levels[i] = 1
			switch v := uint64(rng.IntN(1000)); shape.Type { //nolint:exhaustive // those of the test
			case format.Int32:
				values = binary.LittleEndian.AppendUint32(values, uint32(v)) //nolint:gosec // it is small
				want = append(want, fmt.Sprint(v))
			case format.Int64:
				values = binary.LittleEndian.AppendUint64(values, v)
				want = append(want, fmt.Sprint(v))
			case format.FixedLenByteArray:
				text := fmt.Sprintf("%03d", v)
				values, want = append(values, text...), append(want, text)
			default:
				text := fmt.Sprint(v, string(bytes.Repeat([]byte{'x'}, rng.IntN(1+rng.IntN(300)))))
				values = append(binary.LittleEndian.AppendUint32(values, uint32(len(text))), text...) //nolint:gosec // it is short
				want = append(want, text)
			}
		}
		if shape.Level > 0 {
			present = encodeHybrid(rng, levels, 1)
		}
		h := format.PageHeader{Type: format.DataPageV2}
		var body []byte
		if rng.IntN(2) == 0 {
			body = append(bytes.Clone(present), enc.EncodeAll(values, nil)...)
			h.DataPageHeaderV2 = thrift.New(format.DataPageHeaderV2{
				NumValues: int32(n), NumNulls: nulls, NumRows: int32(n), DefinitionLevelsByteLength: int32(len(present)), IsCompressed: thrift.New(true), //nolint:gosec // small
			})
		} else {
			if shape.Level > 0 {
				present = append(binary.LittleEndian.AppendUint32(nil, uint32(len(present))), present...) //nolint:gosec // small
			}
			body = enc.EncodeAll(append(bytes.Clone(present), values...), nil)
			h.Type = format.DataPage
			h.DataPageHeader = thrift.New(format.DataPageHeader{NumValues: int32(n), DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE}) //nolint:gosec // small
		}
		h.UncompressedPageSize, h.CompressedPageSize = int32(len(present)+len(values)), int32(len(body)) //nolint:gosec // small
		var out bytes.Buffer
		if err := thrift.NewEncoder(new(thrift.CompactProtocol).NewWriter(&out)).Encode(&h); err != nil {
			t.Fatal(err)
		}
		chunk = append(append(chunk, out.Bytes()...), body...)
	}
	return chunk, want
}

// text is a row of a column as plainPages tells it.
func text(c *record.Column, row int) string {
	switch {
	case c.Nulls.Get(row):
		return ""
	case c.Kind == record.String:
		return string(c.Strings.At(row))
	}
	return fmt.Sprint(c.Int64s[row])
}

// Pages that are decompressed as their values are asked for have the values that they have, whichever are left out; damage to them is an error, and is not taken for the
// end of the file.
func TestPagesAreDecompressedAsTheirValuesAreAskedFor(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 42))
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstd.MinWindowSize), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	var codecs Codecs
	var budget Budget
	rounds, damaged := 16, 0
	if testenv.Full() {
		rounds = 400
	}
	for round := range rounds {
		shape := Shape{Kind: record.Int64, Level: round % 2, Type: []format.Type{format.Int32, format.Int64, format.ByteArray, format.FixedLenByteArray}[round/2%4]}
		if round/2%4 > 1 {
			shape.Kind, shape.Length = record.String, 3
		}
		chunk, want := plainPages(t, rng, shape, enc, []int{1 + rng.IntN(2000), 1 + rng.IntN(20), 1 + rng.IntN(4000)})
		for try := range 8 {
			data := padded(chunk)
			if try > 3 {
				data[rng.IntN(len(data))] ^= 1 << rng.IntN(8)
			}
			meta := &footer.Chunk{Codec: format.Zstd, Values: int64(len(want)), Compressed: int64(len(chunk))}
			r := NewReader(shape, &codecs, &budget)
			r.Lazy = 1 + rng.IntN(2)*(8<<10)
			err := r.Start(meta, data)
			flowed := false
			var out record.Column
			for at := 0; at < len(want) && err == nil; {
				n := min(1+rng.IntN(1+rng.IntN(1000)), len(want)-at)
				if rng.IntN(3) == 0 {
					r.Skip(n)
				} else if err = r.Fill(n, &out); err == nil {
					for i := range n {
						if got := text(&out, i); got != want[at+i] && try <= 3 {
							t.Fatalf("round %d, %v: row %d is %q, want %q", round, shape.Type, at+i, got, want[at+i])
						}
					}
				}
				flowed = flowed || r.flow.left > 0
				at += n
			}
			if err == nil {
				err = r.Finish()
			}
			switch {
			case errors.Is(err, io.EOF):
				t.Fatalf("round %d: %v", round, err)
			case try <= 3 && err != nil:
				t.Fatalf("round %d, %v: %v", round, shape.Type, err)
			case try <= 3 && !flowed && len(chunk) > 50_000:
				t.Fatalf("round %d, %v: no page was decompressed as its values were asked for", round, shape.Type)
			case err != nil:
				damaged++
			}
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if damaged < rounds {
		t.Errorf("of %d chunks that were damaged only %d were found to be", 4*rounds, damaged)
	}
}

// What nobody asks for is not decompressed: a page whose end is damaged gives what lies before.
func TestEndsOfPagesThatNobodyWantsAreLeftAlone(t *testing.T) {
	rng := rand.New(rand.NewPCG(43, 44))
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstd.MinWindowSize), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	shape := Shape{Kind: record.String, Type: format.ByteArray}
	chunk, want := plainPages(t, rng, shape, enc, []int{5000})
	data := padded(chunk)
	clear(data[len(data)-100:])
	for _, lazy := range []int{0, 1} {
		r := NewReader(shape, new(Codecs), new(Budget))
		r.Lazy = lazy
		var out record.Column
		err := errors.Join(r.Start(&footer.Chunk{Codec: format.Zstd, Values: 5000, Compressed: int64(len(chunk))}, data))
		r.Skip(1000)
		if err == nil {
			err = r.Fill(1000, &out)
		}
		if lazy == 0 {
			if err == nil {
				t.Error("a page was decompressed whose end is damaged")
			}
			continue
		}
		for i := range 1000 {
			if got := text(&out, i); got != want[1000+i] {
				t.Fatalf("row %d is %q, want %q", i, got, want[1000+i])
			}
		}
		r.Skip(3000)
		if err = errors.Join(err, r.Finish()); err != nil {
			t.Error(err)
		}
	}
}
