package column

import (
	"bytes"
	"io"
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // of zones, wherever the tests run

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"

	"hindcast/internal/record"
)

// bigEndian is v in two's complement in at least least bytes.
func bigEndian(v *big.Int, least int) []byte {
	n := max(least, v.BitLen()/8+1)
	u := new(big.Int).Set(v)
	if v.Sign() < 0 {
		u.Add(u, new(big.Int).Lsh(big.NewInt(1), uint(8*n)))
	}
	return u.FillBytes(make([]byte, n))
}

// Decimals come out exactly or not at all, whatever their width; the reference is arithmetic without bounds.
func TestDecimalsAreExactOrRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	fits, refused := 0, 0
	for range 20_000 {
		v := new(big.Int).SetUint64(rng.Uint64())
		v.Rsh(v, rng.UintN(64))
		if rng.IntN(3) == 0 {
			v.Mul(v, new(big.Int).Exp(big.NewInt(10), big.NewInt(rng.Int64N(60)), nil))
		}
		if rng.IntN(2) == 0 {
			v.Neg(v)
		}
		by := rng.IntN(44) - 25
		unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(by, -by))), nil)
		want, rest := new(big.Int).Mul(v, unit), new(big.Int)
		if by < 0 {
			want, rest = new(big.Int).QuoRem(v, unit, rest)
		}
		ok := rest.Sign() == 0 && want.IsInt64()
		b := bigEndian(v, rng.IntN(20))
		got, err := decimal(b, by)
		// The least integer of 64 bits has no opposite; multiplied or not, it may be refused.
		if ok != (err == nil) && want.Cmp(big.NewInt(math.MinInt64)) != 0 || err == nil && got != want.Int64() {
			t.Fatalf("%d·10^%d from %x is %d (%v), want %d (%v)", v, by, b, got, err, want, ok)
		}
		if ok {
			fits++
		} else {
			refused++
		}
		if v.IsInt64() {
			one := []int64{v.Int64()}
			s := Shape{Conv: FromDecimal, Scale: by}
			if err := s.Convert(one); (err == nil) != (ok || v.Sign() == 0) && want.Cmp(big.NewInt(math.MinInt64)) != 0 || err == nil && one[0] != want.Int64() {
				t.Fatalf("%d·10^%d is %d (%v), want %d", v, by, one[0], err, want)
			}
		}
		scale := rng.IntN(30)
		text, err := decimalText(nil, b, scale)
		if err != nil {
			t.Fatal(err)
		}
		r, valid := new(big.Rat).SetString(string(text))
		if !valid || r.Cmp(new(big.Rat).SetFrac(v, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil))) != 0 {
			t.Fatalf("%d with %d places is written %q", v, scale, text)
		}
		if _, frac, _ := strings.Cut(string(text), "."); len(frac) != scale {
			t.Fatalf("%q has not %d places", text, scale)
		}
	}
	if fits < 1000 || refused < 1000 {
		t.Errorf("%d fit, %d are refused: one side is not covered", fits, refused)
	}
	if v, err := decimal(nil, 3); v != 0 || err != nil {
		t.Error("a decimal without bytes is zero", v, err)
	}
	if _, err := decimal(append([]byte{1}, make([]byte, 5_000_000)...), -70); err == nil {
		t.Error("a decimal of five million bytes was read")
	}
	if text := string(intText(nil, math.MinInt64, 18)); text != "-9.223372036854775808" {
		t.Error(text)
	}
}

func TestHalfPrecision(t *testing.T) {
	for bits, want := range map[uint16]float64{
		0: 0, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 0x0001: math.Ldexp(1, -24), 0x03ff: math.Ldexp(1023, -24), 0x0400: math.Ldexp(1, -14),
		0x7c00: math.Inf(1), 0xfc00: math.Inf(-1), 0x3555: 0.333251953125,
	} {
		if got := half(bits); got != want {
			t.Errorf("%04x is %v, want %v", bits, got, want)
		}
	}
	if !math.IsNaN(half(0x7e00)) || !math.Signbit(half(0x8000)) {
		t.Error("no NaN, or a zero without its sign")
	}
}

func TestInt96(t *testing.T) {
	for _, c := range []struct {
		day   uint32
		nanos uint64
		want  string
	}{
		{2_440_588, 0, "1970-01-01T00:00:00Z"}, {2_440_587, 86_399_999_999_999, "1969-12-31T23:59:59.999999Z"}, {2_454_923, 3_600_000_001_999, "2009-04-01T01:00:00.000001Z"},
	} {
		b := []byte{
			byte(c.nanos), byte(c.nanos >> 8), byte(c.nanos >> 16), byte(c.nanos >> 24), byte(c.nanos >> 32), byte(c.nanos >> 40), byte(c.nanos >> 48), 0,
			byte(c.day), byte(c.day >> 8), byte(c.day >> 16), byte(c.day >> 24),
		}
		v, err := int96(b)
		if got := time.UnixMicro(v).UTC().Format(time.RFC3339Nano); err != nil || got != c.want {
			t.Errorf("%s (%v), want %s", got, err, c.want)
		}
	}
	for name, b := range map[string][]byte{
		"a day of 25 hours": {0, 0, 0, 0, 0, 0x60, 0, 0, 0, 0, 0x25, 0}, "a day past 64 bits": {0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f},
	} {
		if v, err := int96(b); err == nil {
			t.Errorf("%s gives %d", name, v)
		}
	}
}

// What clocks showed twice is the first of the two instants, what they never showed an error, all else what the zone says.
func TestLocalTimesBecomeInstantsByTheZone(t *testing.T) {
	for _, c := range []struct{ zone, local, want string }{
		{"America/New_York", "2024-03-10T01:59:59", "2024-03-10T06:59:59Z"},
		{"America/New_York", "2024-03-10T02:00:00", ""},
		{"America/New_York", "2024-03-10T02:59:59.999999", ""},
		{"America/New_York", "2024-03-10T03:00:00", "2024-03-10T07:00:00Z"},
		{"America/New_York", "2024-11-03T00:59:59", "2024-11-03T04:59:59Z"},
		{"America/New_York", "2024-11-03T01:30:00", "2024-11-03T05:30:00Z"},
		{"America/New_York", "2024-11-03T02:00:00", "2024-11-03T07:00:00Z"},
		{"Asia/Kolkata", "2024-06-01T00:00:00", "2024-05-31T18:30:00Z"},
		{"Pacific/Apia", "2011-12-30T12:00:00", ""}, // a day that Samoa left out
		{"Pacific/Apia", "2011-12-31T00:00:00", "2011-12-30T10:00:00Z"},
		{"Pacific/Kwajalein", "1969-09-30T12:00:00", "1969-09-30T01:00:00Z"}, // clocks were set back by 23 hours
		{"Asia/Shanghai", "2024-06-01T08:00:00", "2024-06-01T00:00:00Z"},
		{"America/New_York", "2040-12-31T23:59:59", "2041-01-01T04:59:59Z"}, // Go's table has ended, in a leap year
		{"UTC", "0001-01-01T00:00:00", "0001-01-01T00:00:00Z"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		local, err := time.Parse("2006-01-02T15:04:05", c.local)
		if err != nil {
			t.Fatal(err)
		}
		v := []int64{local.UnixMicro()}
		err = instants(v, zone)
		if got := time.UnixMicro(v[0]).UTC().Format(time.RFC3339Nano); (err != nil) != (c.want == "") || err == nil && got != c.want {
			t.Errorf("%s in %s is %s (%v), want %q", c.local, c.zone, got, err, c.want)
		}
	}
	for _, v := range []int64{math.MaxInt64, math.MinInt64} {
		if err := instants([]int64{v}, time.UTC); err == nil {
			t.Errorf("%d µs were placed", v)
		}
	}
}

// Every instant's local time comes back as that instant, or as the earlier one that has the same; order and batches do not matter.
func TestLocalTimesOfInstantsComeBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 24))
	for _, name := range []string{"America/New_York", "Europe/London", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia", "Africa/Casablanca"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]int64, 4_000)
		local := make([]int64, len(want))
		for i := range want {
			want[i] = rng.Int64N(200*365*86_400*1_000_000) - 100*365*86_400*1_000_000
			_, offset := time.UnixMicro(want[i]).In(zone).Zone()
			local[i] = want[i] + int64(offset)*1_000_000
		}
		if err := instants(local, zone); err != nil {
			t.Fatal(err)
		}
		for i, got := range local {
			if got > want[i] || want[i]-got > 24*3600*1_000_000 {
				t.Fatalf("%s: %d came back as %d", name, want[i], got)
			}
			_, one := time.UnixMicro(got).In(zone).Zone()
			_, other := time.UnixMicro(want[i]).In(zone).Zone()
			if got != want[i] && got+int64(one)*1_000_000 != want[i]+int64(other)*1_000_000 {
				t.Fatalf("%s: %d came back as %d, which clocks did not show alike", name, want[i], got)
			}
		}
	}
}

// hadoop frames src as Hadoop's BlockCompressorStream does: blocks of at most outer bytes, in parts of at most inner.
func hadoop(t *testing.T, src []byte, outer, inner int) (out []byte) {
	t.Helper()
	number := func(n int) { out = append(out, byte(n>>24), byte(n>>16), byte(n>>8), byte(n)) }
	for len(src) > 0 {
		block := src[:min(outer, len(src))]
		src = src[len(block):]
		number(len(block))
		for len(block) > 0 {
			part := block[:min(inner, len(block))]
			block = block[len(part):]
			buf := make([]byte, lz4.CompressBlockBound(len(part)))
			n := bare(t, buf, part)
			number(n)
			out = append(out, buf[:n]...)
		}
	}
	return out
}

// bare compresses a block, which the library does not do where it gains nothing.
func bare(t *testing.T, dst, src []byte) int {
	t.Helper()
	n, err := lz4.CompressBlock(src, dst, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n > 0 {
		return n
	}
	if len(src) > 14 {
		dst[0] = 0xf0
		rest, at := len(src)-15, 1
		for ; rest >= 255; rest, at = rest-255, at+1 {
			dst[at] = 255
		}
		dst[at] = byte(rest)
		return at + 1 + copy(dst[at+1:], src)
	}
	dst[0] = byte(len(src) << 4)
	return 1 + copy(dst[1:], src)
}

// R1: "LZ4" has meant three framings. Each is told from the others, and gives what was compressed or an error.
func TestLz4OfEachFraming(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 26))
	var codecs Codecs
	for range 60 {
		src := make([]byte, 1+rng.IntN(70_000))
		for i := range src {
			src[i] = byte(rng.Uint32())
			if rng.IntN(8) > 0 && i > 9 {
				src[i] = src[i-1-rng.IntN(9)]
			}
		}
		buf := make([]byte, lz4.CompressBlockBound(len(src)))
		var frame strings.Builder
		w := lz4.NewWriter(&frame)
		if _, err := w.Write(src); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{
			"bare": buf[:bare(t, buf, src)], "Hadoop": hadoop(t, src, 1+rng.IntN(80_000), 1+rng.IntN(40_000)), "frame": []byte(frame.String()),
		} {
			got, err := codecs.decode(format.Lz4, nil, data, len(src))
			if err != nil || string(got) != string(src) {
				t.Fatalf("%s of %d bytes: %v", name, len(src), err)
			}
			for _, size := range []int{len(src) - 1, len(src) + 1} {
				if _, err := codecs.decode(format.Lz4, nil, data, size); err == nil {
					t.Fatalf("%s: a page of %d bytes was read where %d are stated", name, len(src), size)
				}
			}
			data[rng.IntN(len(data))] ^= byte(1 + rng.IntN(255))
			_, _ = codecs.decode(format.Lz4, nil, data, len(src)) // whatever comes, no panic
		}
	}
}

// Old parquet-mr packed levels from the greatest bit on.
func TestBitPackedLevels(t *testing.T) {
	h := bitPacked([]byte{0b1011_0000, 0b1000_0000})
	nulls := record.NewBitmap(9)
	present, err := h.levels(1, nulls, 0, 9, make([]uint32, 64))
	var got strings.Builder
	for i := range 9 {
		got.WriteString(strconv.FormatBool(!nulls.Get(i))[:1])
	}
	if err != nil || present != 4 || got.String() != "tfttfffft" {
		t.Error(got.String(), present, err)
	}
}

// P12: what inflates past what its page states is refused, and costs no more than that.
func TestBombsAreNotInflated(t *testing.T) {
	zeros := make([]byte, 64<<20)
	var gz, br bytes.Buffer
	for w, out := range map[io.WriteCloser]*bytes.Buffer{gzip.NewWriter(&gz): &gz, brotli.NewWriterLevel(&br, 3): &br} {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(out.Len(), err)
		}
	}
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	raw := make([]byte, lz4.CompressBlockBound(len(zeros)))
	raw = raw[:bare(t, raw, zeros)]
	for codec, data := range map[format.CompressionCodec][]byte{
		format.Gzip: gz.Bytes(), format.Brotli: br.Bytes(), format.Zstd: enc.EncodeAll(zeros, nil), format.Snappy: snappy.Encode(nil, zeros),
		format.Lz4Raw: raw, format.Lz4: hadoop(t, zeros, len(zeros), len(zeros)),
	} {
		var codecs Codecs
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := codecs.decode(codec, nil, data, 1000)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; err == nil || n > 20<<20 {
			t.Errorf("%v: %d bytes for a page of 1,000: %v; %d MiB allocated", codec, len(data), err, n>>20)
		}
	}
}
