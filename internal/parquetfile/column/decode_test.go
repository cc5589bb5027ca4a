package column

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	parquetdelta "github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/format"

	"hindcast/internal/parquetfile/footer"
	"hindcast/internal/record"
)

// padded copies b into memory with the capacity that the bit unpacker needs.
func padded(b []byte) []byte { return append(make([]byte, 0, len(b)+Padding), b...) }

// encodeHybrid writes values as random runs, repeated where they can be.
func encodeHybrid(rng *rand.Rand, values []uint32, width int) []byte {
	var out []byte
	for at := 0; at < len(values); {
		same := 1
		for at+same < len(values) && values[at+same] == values[at] {
			same++
		}
		if n := same; n > 8 || rng.IntN(2) == 0 {
			out = binary.AppendUvarint(out, uint64(n)<<1)
			for i := range (width + 7) / 8 {
				out = append(out, byte(values[at]>>(8*i)))
			}
			at += n
			continue
		}
		// Only a last run may be padded.
		groups := min(1+rng.IntN(4), (len(values)-at+7)/8)
		out = binary.AppendUvarint(out, uint64(groups)<<1|1)
		packed := make([]byte, groups*width)
		for i := range min(groups*8, len(values)-at) {
			for bit := range width {
				if values[at+i]>>bit&1 == 1 {
					packed[(i*width+bit)/8] |= 1 << ((i*width + bit) % 8)
				}
			}
		}
		out = append(out, packed...)
		at += min(groups*8, len(values)-at)
	}
	return out
}

func TestHybrid(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		width := 1 + rng.IntN(32)
		values := make([]uint32, rng.IntN(500))
		for i := range values {
			if values[i] = rng.Uint32() >> (32 - width); i > 0 && rng.IntN(3) > 0 {
				values[i] = values[i-1]
			}
		}
		h, err := newHybrid(padded(encodeHybrid(rng, values, width)), uint(width))
		if err != nil {
			t.Fatal(err)
		}
		got := make([]uint32, len(values))
		for at := 0; at < len(got); {
			n := min(len(got)-at, 1+rng.IntN(60))
			if rng.IntN(3) == 0 {
				err = h.skip(n)
				copy(got[at:], values[at:at+n])
			} else {
				err = h.fill(got[at : at+n])
			}
			if err != nil {
				t.Fatal(err)
			}
			at += n
		}
		if !slices.Equal(got, values) {
			t.Fatalf("width %d: decoded %v, want %v", width, got, values)
		}
		if width > 6 {
			continue
		}
		for full := uint32(1) << (width - 1); full < 1<<width; full++ { // the levels that take so many bits
			h, _ = newHybrid(padded(encodeHybrid(rng, values, width)), uint(width))
			nulls, present := record.NewBitmap(len(values)), 0
			var got int
			var err error
			for at := 0; at < len(values) && err == nil; {
				n, k := min(len(values)-at, 1+rng.IntN(200)), 0
				k, err = h.levels(int(full), nulls, at, n, make([]uint32, 64))
				at, got = at+n, got+k
			}
			if len(values) > 0 && slices.Max(values) > full {
				if err == nil {
					t.Fatalf("width %d: a level of %d is taken where values have %d", width, slices.Max(values), full)
				}
				continue
			}
			for i, v := range values {
				if v == full {
					present++
				}
				if nulls.Get(i) == (v == full) {
					t.Fatalf("level %d is %d of %d, null: %v", i, v, full, nulls.Get(i))
				}
			}
			if err != nil || got != present {
				t.Fatalf("%d of %d are present (%v)", got, present, err)
			}
		}
	}
}

// A run costs nothing until its values are wanted, whatever length it states.
func TestHybridTakesNoLengthOnTrust(t *testing.T) {
	b := binary.AppendUvarint(nil, 3_800_000_000<<1)
	h, err := newHybrid(padded(append(b, 1)), 1)
	if err != nil {
		t.Fatal(err)
	}
	var few [20]uint32
	if err := h.fill(few[:]); err != nil || few[19] != 1 {
		t.Error(few, err)
	}
	for _, bad := range [][]byte{nil, {0xff}, {0x03}, {0x10}, {0x10, 2}} {
		h, _ := newHybrid(padded(bad), 1)
		if err := h.fill(few[:]); err == nil {
			t.Errorf("%x was decoded", bad)
		}
	}
	if _, err := newHybrid(nil, 33); err == nil {
		t.Error("values of 33 bits were accepted")
	}
}

func TestSpread(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		n, of := rng.IntN(400), rng.IntN(150)
		nulls := record.NewBitmap(of + n)
		var want, values []int64
		for at := 0; at < n; {
			null, run := rng.IntN(2) == 0, 1+rng.IntN(4)
			if rng.IntN(4) == 0 {
				run += rng.IntN(200)
			}
			for ; run > 0 && at < n; run, at = run-1, at+1 {
				v := int64(0)
				if null {
					nulls.Set(of + at)
				} else {
					v = 1 + rng.Int64N(1000)
					values = append(values, v)
				}
				want = append(want, v)
			}
		}
		ints, floats, codes := make([]int64, n), make([]float64, n), make([]uint32, n)
		for i := range n { // what lies behind the values does not matter
			v := rng.Int64N(1000)
			if i < len(values) {
				v = values[i]
			}
			ints[i], floats[i], codes[i] = v, float64(v), uint32(v)
		}
		spread(ints, len(values), nulls, of)
		spread(floats, len(values), nulls, of)
		spread(codes, len(values), nulls, of)
		for i, v := range want {
			if ints[i] != v || floats[i] != float64(v) || codes[i] != uint32(v) {
				t.Fatalf("row %d of %d, from bit %d on, is %d, %g and %d, want %d", i, n, of, ints[i], floats[i], codes[i], v)
			}
		}
	}
}

// A dictionary may have values outside the bounds that statistics state, as long as no row has them.
func TestDictionariesAgainstBounds(t *testing.T) {
	for _, c := range []struct {
		lo, hi int64
		codes  []byte // of two bits
		says   string
	}{
		{10, 30, []byte{0, 1, 2, 0}, ""},
		{10, 20, []byte{0, 1, 1, 0}, ""},
		{20, 30, []byte{2, 2, 2, 0}, ""},
		{10, 20, []byte{0, 1, 2, 0}, "it has values from 10 to 30 where its statistics state 10 to 20"},
		{20, 30, []byte{2, 1, 2, 0}, "it has values from 10 to 30 where its statistics state 20 to 30"},
		{10, 30, []byte{0, 1, 3, 0}, "a value refers to entry 3 of a dictionary of 3"},
		{11, 29, []byte{0, 1, 3, 0}, "a value refers to entry 3 of a dictionary of 3"},
	} {
		r := NewReader(Shape{Kind: record.Int64, Type: format.Int64}, &Codecs{}, &Budget{})
		if err := r.Start(&footer.Chunk{}, padded(nil)); err != nil {
			t.Fatal(err)
		}
		var dict []byte
		for _, v := range []uint64{20, 10, 30} {
			dict = binary.LittleEndian.AppendUint64(dict, v)
		}
		if err := r.dictionary(footer.PageHeader{Described: true, Values: 3, Uncompressed: 24}, padded(dict)); err != nil {
			t.Fatal(err)
		}
		r.Expect(c.lo, c.hi)
		r.header.Encoding, r.scratch = format.RLEDictionary, make([]uint32, 8)
		r.codes, _ = newHybrid(padded([]byte{3, c.codes[0] | c.codes[1]<<2 | c.codes[2]<<4 | c.codes[3]<<6, 0}), 2)
		err := r.readInts(make([]int64, 4))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("codes %v within %d to %d: %v; want: %q", c.codes, c.lo, c.hi, err, c.says)
		}
	}
}

func TestDelta(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		values := make([]int64, rng.IntN(700))
		narrow := rng.IntN(2) == 0
		small := make([]int32, len(values))
		shift := rng.IntN(60)
		for i := range values {
			values[i] = int64(rng.Uint64()) >> shift
			if i > 0 && rng.IntN(2) == 0 {
				values[i] = values[i-1] + rng.Int64N(5)
			}
			if narrow {
				small[i] = int32(values[i])
				values[i] = int64(small[i])
			}
		}
		var enc parquetdelta.BinaryPackedEncoding
		var data []byte
		var err error
		if narrow {
			data, err = enc.EncodeInt32(nil, small)
		} else {
			data, err = enc.EncodeInt64(nil, values)
		}
		if err != nil {
			t.Fatal(err)
		}
		var d delta
		if err := d.reset(padded(data), narrow); err != nil {
			t.Fatal(err)
		}
		got := make([]int64, len(values))
		for at := 0; at < len(got); {
			n := min(len(got)-at, 1+rng.IntN(90))
			if err := d.fill(got[at : at+n]); err != nil {
				t.Fatal(err)
			}
			at += n
		}
		if !slices.Equal(got, values) {
			t.Fatalf("narrow %v: decoded %v, want %v", narrow, got, values)
		}
		if err := d.fill(make([]int64, 1)); err == nil {
			t.Fatal("there is a value more than was encoded")
		}
	}
}
