package column

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"

	"hindcast/internal/record"
)

// Conversion is what is done to a stored number.
type Conversion uint8

// The conversions. Those from FromBytes on are of numbers that are stored as bytes.
const (
	AsIs        Conversion = iota
	FromMillis             // to microseconds
	FromNanos              // to microseconds, floored
	FromUint32             // stored as a signed integer
	FromUint64             // refused past the range of int64
	FromDecimal            // an unscaled integer, to one of another scale
	FromBytes              // the same in big-endian bytes
	FromInt96              // nanoseconds of a Julian day, to microseconds, floored
	FromHalf               // 16-bit floating point
)

// MaxScale is the most digits behind the point of decimals that are read: of what is stored, not of what is read.
const MaxScale = 76

// wide reports whether values are numbers that are stored as bytes.
func (s *Shape) wide() bool { return s.Conv >= FromBytes }

// text reports whether values are numbers that are written out.
func (s *Shape) text() bool { return s.Kind == record.String && s.Conv != AsIs }

// Convert changes stored integers to those of a batch, in place.
func (s *Shape) Convert(v []int64) error {
	switch s.Conv {
	case FromMillis:
		for i, x := range v {
			if x > math.MaxInt64/1000 || x < math.MinInt64/1000 {
				return fmt.Errorf("the time %d ms is past what microseconds hold", x)
			}
			v[i] = x * 1000
		}
	case FromNanos:
		for i, x := range v {
			q := x / 1000
			if x%1000 < 0 {
				q--
			}
			v[i] = q
		}
	case FromUint32:
		for i, x := range v {
			v[i] = int64(uint32(x))
		}
	case FromUint64:
		for _, x := range v {
			if x < 0 {
				return fmt.Errorf("the unsigned value %d is past the range of int64; it can be read as text", uint64(x))
			}
		}
	case FromDecimal:
		if s.Scale != 0 {
			return rescale(v, s.Scale)
		}
	}
	if s.Zone != nil {
		return instants(v, s.Zone)
	}
	return nil
}

var powers = func() (p [19]int64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = 10 * p[i-1]
	}
	return p
}()

// rescale multiplies v by 10^by, exactly.
func rescale(v []int64, by int) error {
	size := max(by, -by)
	if size >= len(powers) { // only zero is a multiple of it, or has a multiple, in 64 bits
		for _, x := range v {
			if x != 0 {
				return rescaleError(big.NewInt(x), by)
			}
		}
		return nil
	}
	p := powers[size]
	if by < 0 {
		for i, x := range v {
			q := x / p
			if q*p != x {
				return rescaleError(big.NewInt(x), by)
			}
			v[i] = q
		}
		return nil
	}
	most := math.MaxInt64 / p
	for i, x := range v {
		if x > most || x < -most {
			return rescaleError(big.NewInt(x), by)
		}
		v[i] = x * p
	}
	return nil
}

func rescaleError(v *big.Int, by int) error {
	if by < 0 {
		return fmt.Errorf("the decimal of the digits %d has more places than the %d fewer that are read would leave whole", v, -by)
	}
	return fmt.Errorf("the decimal of the digits %d does not fit 64 bits with %d more places; it can be read as text", v, by)
}

// wideInts converts numbers in bytes.
func (s *Shape) wideInts(dst []int64, src *record.Strings) (err error) {
	for i := range dst {
		b := src.At(i)
		if s.Conv == FromInt96 {
			dst[i], err = int96(b)
		} else {
			dst[i], err = decimal(b, s.Scale)
		}
		if err != nil {
			return err
		}
	}
	if s.Zone != nil {
		return instants(dst, s.Zone)
	}
	return nil
}

// maxDecimal is the most bytes of a decimal, without those that only repeat its sign: 154 digits.
const maxDecimal = 64

// significant drops the leading bytes that only repeat the sign of a number in two's complement. No byte at all is zero: some writers mean that.
func significant(b []byte) ([]byte, error) {
	for len(b) > 1 && b[0] == byte(int8(b[1])>>7) {
		b = b[1:]
	}
	if len(b) > maxDecimal {
		return nil, fmt.Errorf("a decimal has %d bytes, more than the %d that are read", len(b), maxDecimal)
	}
	return b, nil
}

// short is the number in at most eight bytes.
func short(b []byte) (v int64) {
	if len(b) > 0 {
		v = int64(int8(b[0])) >> 7
	}
	for _, c := range b {
		v = v<<8 | int64(c)
	}
	return v
}

func long(b []byte) *big.Int {
	v := new(big.Int).SetBytes(b)
	if b[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return v
}

// decimal is the number that b holds in two's complement, big-endian, times 10^by.
func decimal(b []byte, by int) (int64, error) {
	b, err := significant(b)
	if err != nil {
		return 0, err
	}
	if len(b) <= 8 {
		one := [1]int64{short(b)}
		if by != 0 {
			err = rescale(one[:], by)
		}
		return one[0], err
	}
	v := long(b)
	if by < 0 {
		unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-by)), nil)
		q, rest := new(big.Int).QuoRem(v, unit, new(big.Int))
		if rest.Sign() != 0 {
			return 0, rescaleError(v, by)
		}
		v = q
	}
	if by > 0 || !v.IsInt64() {
		return 0, fmt.Errorf("the decimal of the digits %d does not fit 64 bits; it can be read as text", v)
	}
	return v.Int64(), nil
}

// decimalText appends the decimal that b holds, with scale digits behind the point.
func decimalText(dst, b []byte, scale int) ([]byte, error) {
	b, err := significant(b)
	if err != nil {
		return nil, err
	}
	if len(b) <= 8 {
		return intText(dst, short(b), scale), nil
	}
	v := long(b)
	return places(dst, v.Sign() < 0, v.Abs(v).Append(nil, 10), scale), nil
}

func intText(dst []byte, v int64, scale int) []byte {
	digits, u := [20]byte{}, uint64(v)
	if v < 0 {
		u = -u
	}
	return places(dst, v < 0, strconv.AppendUint(digits[:0], u, 10), scale)
}

// places appends digits with a point before the last scale of them.
func places(dst []byte, negative bool, digits []byte, scale int) []byte {
	if negative {
		dst = append(dst, '-')
	}
	whole := len(digits) - scale
	if whole <= 0 {
		dst = append(dst, '0')
	} else {
		dst = append(dst, digits[:whole]...)
	}
	if scale == 0 {
		return dst
	}
	dst = append(dst, '.')
	for ; whole < 0; whole++ {
		dst = append(dst, '0')
	}
	return append(dst, digits[whole:]...)
}

// writeInts appends numbers as text.
func (s *Shape) writeInts(dst *record.Strings, v []int64) error {
	for _, x := range v {
		if s.Conv == FromUint64 {
			dst.Data = strconv.AppendUint(dst.Data, uint64(x), 10)
		} else {
			dst.Data = intText(dst.Data, x, s.Scale)
		}
		if err := room(dst, 0); err != nil {
			return err
		}
		dst.Offsets = append(dst.Offsets, uint32(len(dst.Data)))
	}
	return nil
}

// writeDecimals appends the first n of src, decimals in bytes, as text.
func (s *Shape) writeDecimals(dst, src *record.Strings, n int) (err error) {
	for i := range n {
		if dst.Data, err = decimalText(dst.Data, src.At(i), s.Scale); err != nil {
			return err
		}
		if err := room(dst, 0); err != nil {
			return err
		}
		dst.Offsets = append(dst.Offsets, uint32(len(dst.Data)))
	}
	return nil
}

// int96 is what Impala, Hive and Spark wrote as timestamps: nanoseconds of the day, then the Julian day, both little-endian.
func int96(b []byte) (int64, error) {
	const (
		epoch  = 2_440_588 // the Julian day of 1970-01-01
		perDay = 86_400_000_000
		most   = math.MaxInt64/perDay - 1
	)
	nanos := binary.LittleEndian.Uint64(b)
	day := int64(int32(binary.LittleEndian.Uint32(b[8:]))) - epoch
	if nanos >= perDay*1000 {
		return 0, fmt.Errorf("an INT96 timestamp has %d ns of a day", nanos)
	}
	if day > most || day < -most {
		return 0, fmt.Errorf("an INT96 timestamp of day %d from 1970 on is past what microseconds hold", day)
	}
	return day*perDay + int64(nanos/1000), nil
}

// wideFloats converts 16-bit numbers.
func wideFloats(dst []float64, src *record.Strings) error {
	for i := range dst {
		b := src.At(i)
		if len(b) != 2 {
			return fmt.Errorf("a 16-bit number of %d bytes", len(b))
		}
		dst[i] = half(binary.LittleEndian.Uint16(b))
	}
	return nil
}

// half is the value of a 16-bit floating-point number, which a float64 holds exactly.
func half(h uint16) float64 {
	mantissa, exponent := float64(h&0x3ff), int(h>>10&0x1f)
	v := math.Ldexp(mantissa, -24)
	switch {
	case exponent == 0x1f && mantissa == 0:
		v = math.Inf(1)
	case exponent == 0x1f:
		return math.NaN()
	case exponent > 0:
		v = math.Ldexp(1024+mantissa, exponent-25)
	}
	if h&0x8000 != 0 {
		v = math.Copysign(v, -1)
	}
	return v
}

// instants turns what clocks of a zone showed into instants, all in microseconds. A time that they showed twice, when they were set
// back, is the first of the two. One that they never showed, when they were set forward, is an error: whoever wrote it did not follow that zone.
func instants(v []int64, zone *time.Location) error {
	var p period
	for i, x := range v {
		if x < p.lo || x >= p.hi {
			var err error
			if p, err = periodOf(x, zone); err != nil {
				return err
			}
		}
		v[i] = x - p.offset
	}
	return nil
}

// period is a span of what clocks showed, [lo, hi), during which they were offset from UTC by as much.
type period struct{ lo, hi, offset int64 }

// periodOf returns the period that has x.
func periodOf(x int64, zone *time.Location) (period, error) {
	const (
		day    = 86_400_000_000
		margin = 3 * day // clocks are never farther from UTC than a day, nor set back by more
		least  = math.MinInt64 + margin + day
		most   = math.MaxInt64 - margin - day
	)
	if x > most || x < least {
		return period{}, fmt.Errorf("the local time %d µs is past what microseconds hold", x)
	}
	for at := time.UnixMicro(x - margin).In(zone); ; {
		start, end := at.ZoneBounds()
		if !end.IsZero() && !end.After(at) {
			end = at.Add(24 * time.Hour) // on the last day of leap years beyond a zone's table, Go has the period end that day
		}
		_, seconds := at.Zone()
		p := period{lo: least, hi: most, offset: int64(seconds) * 1_000_000}
		if !start.IsZero() {
			_, seconds := start.Add(-time.Second).Zone()
			ended := start.UnixMicro() + int64(seconds)*1_000_000 // what clocks showed when the period before was over
			if p.lo = start.UnixMicro() + p.offset; ended <= x && x < p.lo {
				return period{}, fmt.Errorf("the local time %s never was in %s, where clocks were set forward over it: the column's zone is another, or none",
					time.UnixMicro(x).UTC().Format("2006-01-02T15:04:05.999999"), zone)
			}
			p.lo = max(p.lo, ended)
		}
		if !end.IsZero() {
			p.hi = end.UnixMicro() + p.offset
		}
		if x < p.hi || end.IsZero() {
			return p, nil
		}
		at = end
	}
}
