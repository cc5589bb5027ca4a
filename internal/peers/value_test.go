package peers

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"
)

// digest is a column's values in the one form in which readers are compared: the logical value with its class, so that equal
// means equal whatever a reader's types are.
//
//	null
//	bool true
//	int 42
//	float 3ff0000000000000      bits of the double; every NaN is one
//	bytes 6162                  strings, too
//	decimal 1.25                exact, without trailing zeros
//	time 1700000000000000       µs since 1970, of instants and of wall clocks; nanoseconds are floored
//	clock 3600000000            µs since midnight, floored
//	date 19000                  days since 1970
//	interval 1 2 3000           months, days, ms
type digest struct {
	Rows   int64
	Nulls  int64
	Blocks []uint64 // hashes of blockRows rows each
	Values []string // those that were asked for

	hash *xxh3.Hasher
	want request
}

const blockRows = 256

func newDigest(name string, req request) digest {
	d := digest{hash: xxh3.New()}
	if req.Column == name {
		d.want = req
	}
	return d
}

func (d *digest) add(class string, text []byte) {
	if d.Rows >= d.want.From && d.Rows < d.want.To {
		d.Values = append(d.Values, class+" "+string(text))
	}
	var n [4]byte
	binary.LittleEndian.PutUint32(n[:], uint32(len(text)))
	_, _ = d.hash.WriteString(class)
	_, _ = d.hash.Write(n[:])
	_, _ = d.hash.Write(text)
	if d.Rows++; d.Rows%blockRows == 0 {
		d.cut()
	}
}

func (d *digest) cut() {
	d.Blocks = append(d.Blocks, d.hash.Sum64())
	d.hash.Reset()
}

// end must follow the last value.
func (d *digest) end() {
	if d.Rows%blockRows != 0 {
		d.cut()
	}
}

func (d *digest) null() {
	d.Nulls++
	d.add("null", nil)
}

func (d *digest) boolean(v bool)   { d.add("bool", strconv.AppendBool(nil, v)) }
func (d *digest) int(v int64)      { d.add("int", strconv.AppendInt(nil, v, 10)) }
func (d *digest) uint(v uint64)    { d.add("int", strconv.AppendUint(nil, v, 10)) }
func (d *digest) bytes(v []byte)   { d.add("bytes", fmt.Appendf(nil, "%x", v)) }
func (d *digest) micros(v int64)   { d.add("time", strconv.AppendInt(nil, v, 10)) }
func (d *digest) clock(v int64)    { d.add("clock", strconv.AppendInt(nil, v, 10)) }
func (d *digest) date(v int64)     { d.add("date", strconv.AppendInt(nil, v, 10)) }
func (d *digest) big(v *big.Int)   { d.add("int", []byte(v.String())) }
func (d *digest) decimal(v string) { d.add("decimal", []byte(v)) }
func (d *digest) interval(months, days, ms int64) {
	d.add("interval", fmt.Appendf(nil, "%d %d %d", months, days, ms))
}

func (d *digest) float(v float64) {
	if math.IsNaN(v) {
		v = math.NaN()
	}
	d.add("float", fmt.Appendf(nil, "%016x", math.Float64bits(v)))
}

// unscaled renders v·10^-scale.
func unscaled(v *big.Int, scale int) string {
	text := new(big.Int).Abs(v).String()
	if scale > 0 {
		if len(text) <= scale {
			text = strings.Repeat("0", scale-len(text)+1) + text
		}
		text = text[:len(text)-scale] + "." + text[len(text)-scale:]
	} else {
		text += strings.Repeat("0", -scale)
	}
	if v.Sign() < 0 {
		text = "-" + text
	}
	return trimDecimal(text)
}

// trimDecimal drops what does not change a decimal's value.
func trimDecimal(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" || s == "" {
		return "0"
	}
	return s
}

// signed is the big-endian two's complement number in b.
func signed(b []byte) *big.Int {
	v := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return v
}

func floorDiv(v, by int64) int64 {
	q := v / by
	if v%by < 0 {
		q--
	}
	return q
}

// intervalBytes adds three little-endian numbers.
func intervalBytes(b []byte, d *digest) {
	if len(b) != 12 {
		d.bytes(b)
		return
	}
	u := func(at int) int64 { return int64(binary.LittleEndian.Uint32(b[at:])) }
	d.interval(u(0), u(4), u(8))
}

// int96 is the µs since 1970 of a Julian day and nanoseconds, floored.
func int96(b []byte) *big.Int {
	nanos := big.NewInt(int64(binary.LittleEndian.Uint64(b)))
	day := big.NewInt(int64(int32(binary.LittleEndian.Uint32(b[8:]))))
	day.Sub(day, big.NewInt(2440588)).Mul(day, big.NewInt(86_400_000_000_000)).Add(day, nanos)
	return day.Div(day, big.NewInt(1000)) // Euclidean, by a positive number: it floors
}
