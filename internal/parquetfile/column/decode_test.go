package column

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	parquetdelta "github.com/parquet-go/parquet-go/encoding/delta"

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
			if err := h.fill(got[at : at+n]); err != nil {
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
			got, err := h.levels(int(full), nulls, 0, len(values), make([]uint32, 64))
			if slices.Max(values) > full {
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
