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
		chunk = appendPage(t, chunk, &h, body)
	}
	return chunk, want
}

// appendPage appends a page to a chunk.
func appendPage(t *testing.T, chunk []byte, h *format.PageHeader, body []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := thrift.NewEncoder(new(thrift.CompactProtocol).NewWriter(&out)).Encode(h); err != nil {
		t.Fatal(err)
	}
	return append(append(chunk, out.Bytes()...), body...)
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

// Values that are left out leave those behind them as they are; damage is an error, and is not taken for the end of the file.
func TestValuesAreLeftOut(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 42))
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstd.MinWindowSize))
	if err != nil {
		t.Fatal(err)
	}
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
			r := NewReader(shape, new(Codecs), new(Budget))
			err := r.Start(&footer.Chunk{Codec: format.Zstd, Values: int64(len(want)), Compressed: int64(len(chunk))}, data)
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
				at += n
			}
			if err == nil {
				err = r.Finish()
			}
			switch {
			case errors.Is(err, io.EOF), try <= 3 && err != nil:
				t.Fatalf("round %d, %v: %v", round, shape.Type, err)
			case err != nil:
				damaged++
			}
		}
	}
	if damaged < rounds {
		t.Errorf("of %d chunks that were damaged only %d were found to be", 4*rounds, damaged)
	}
}
