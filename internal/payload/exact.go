package payload

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"hindcast/internal/partition"
	"hindcast/internal/spec"
)

const (
	secondsPerDay   = 24 * 60 * 60
	microsPerSecond = 1_000_000
)

// decimal reads a decimal number as an integer in units of 10^-scale: exactly, or it is not ok.
func decimal(text []byte, scale int) (v int64, ok bool) {
	minus := len(text) > 0 && text[0] == '-'
	if minus {
		text = text[1:]
	}
	var u uint64
	digits, shift, point := 0, 0, false
	zeros := 0 // that were read and not yet taken into u
	i := 0
	for ; i < len(text); i++ {
		c := text[i]
		if c == '.' && !point {
			point = true
			continue
		}
		if c < '0' || c > '9' {
			break
		}
		digits++
		if point {
			shift++
		}
		if c == '0' {
			zeros++
			continue
		}
		if u, ok = grow(u, zeros+1, uint64(c-'0')); !ok {
			return 0, false
		}
		zeros = 0
	}
	if digits == 0 {
		return 0, false
	}
	exp := 0
	if i < len(text) {
		if exp, ok = exponent(text[i:]); !ok {
			return 0, false
		}
	}
	if u == 0 {
		return 0, true
	}
	// The number is u * 10^(zeros - shift + exp).
	power := zeros - shift + exp + scale
	if power < 0 {
		// u has no zero at its end that was not counted.
		return 0, false
	}
	if u, ok = grow(u, power, 0); !ok || u > 1<<63 || u == 1<<63 && !minus {
		return 0, false
	}
	if minus {
		return int64(-u), true
	}
	return int64(u), true
}

// grow appends n decimal digits to u: zeros, and last one that is given.
func grow(u uint64, n int, last uint64) (uint64, bool) {
	if u == 0 {
		return last, true
	}
	for range n {
		if u > math.MaxUint64/10 {
			return 0, false
		}
		u *= 10
	}
	if u > math.MaxUint64-last {
		return 0, false
	}
	return u + last, true
}

// exponent reads e+12.
func exponent(text []byte) (int, bool) {
	if text[0] != 'e' && text[0] != 'E' {
		return 0, false
	}
	text = text[1:]
	minus := len(text) > 0 && text[0] == '-'
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		text = text[1:]
	}
	n := 0
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = min(n*10+int(c-'0'), 1<<20) // beyond any number of digits that fits
	}
	if minus {
		n = -n
	}
	return n, len(text) > 0
}

// rescale changes the unit of a decimal from 10^-from to 10^-to: exactly, or it is not ok.
func rescale(v int64, from, to int) (int64, bool) {
	for ; from > to; from-- {
		if v%10 != 0 {
			return 0, false
		}
		if v /= 10; v == 0 {
			return 0, true
		}
	}
	for ; from < to && v != 0; from++ {
		var ok bool
		if v, ok = times(v, 10); !ok {
			return 0, false
		}
	}
	return v, true
}

// fromUnit makes microseconds of an integer that counts something else. Nanoseconds are cut to the microsecond that they lie in.
func fromUnit(v int64, unit spec.TimeUnit) (int64, bool) {
	switch unit {
	case spec.Seconds:
		return times(v, microsPerSecond)
	case spec.Millis:
		return times(v, 1000)
	case spec.Nanos:
		q := v / 1000
		if v%1000 < 0 {
			q--
		}
		return q, true
	default:
		return v, true
	}
}

// Zone reads what a zone's clocks show. It is not safe for concurrent use.
type Zone struct {
	name string
	loc  *time.Location
	days map[int64]int64 // when they begin; of those that were asked for
}

// NewZone finds an IANA zone.
func NewZone(name string) (*Zone, error) {
	loc, err := partition.LoadZone(name)
	if err != nil {
		return nil, err
	}
	return &Zone{name: name, loc: loc, days: map[int64]int64{}}, nil
}

// Location is the zone.
func (z *Zone) Location() *time.Location { return z.loc }

// timestamp reads a time as microseconds: with its offset, or as the zone's clocks show it. A date is the instant at which it begins
// there. Without a zone (nil) an offset is needed. The error says why a time of the right form is none.
func (z *Zone) timestamp(text string) (v int64, ok bool, err error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.UnixMicro(), true, nil // floors
	}
	if z == nil {
		return 0, false, nil
	}
	form := "2006-01-02T15:04:05"
	switch {
	case len(text) == len(time.DateOnly):
		form = time.DateOnly
	case strings.Contains(text, " "):
		form = "2006-01-02 15:04:05"
	}
	t, errForm := time.Parse(form, text)
	if errForm != nil {
		return 0, false, nil //nolint:nilerr // it is another form
	}
	if form == time.DateOnly {
		v, err = z.Midnight(t.Unix() / secondsPerDay)
	} else {
		v, err = z.Instant(t.UnixMicro())
	}
	return v, err == nil, err
}

// Instant is when the zone's clocks show a time, given as microseconds since they would have shown 1970-01-01T00:00:00. Of a time that
// they show twice it is the first, as for columns of Parquet files; one that they skip is an error.
func (z *Zone) Instant(wall int64) (int64, error) {
	sec := floorDiv(wall, microsPerSecond)
	var found []int64
	for _, around := range []int64{sec - secondsPerDay, sec + secondsPerDay} {
		_, offset := time.Unix(around, 0).In(z.loc).Zone()
		at := sec - int64(offset)
		if _, there := time.Unix(at, 0).In(z.loc).Zone(); there == offset && (len(found) == 0 || found[0] != at) {
			found = append(found, at)
		}
	}
	text := time.UnixMicro(wall).UTC().Format("2006-01-02T15:04:05.999999")
	if len(found) == 0 {
		return 0, fmt.Errorf("the clocks of %s skip %s", z.name, text)
	}
	micros, ok := times(slices.Min(found), microsPerSecond)
	if !ok {
		return 0, fmt.Errorf("%s is beyond any calendar", text)
	}
	return micros + wall - sec*microsPerSecond, nil
}

// Midnight is the instant at which a date, as days since 1970-01-01, begins in the zone.
func (z *Zone) Midnight(day int64) (int64, error) {
	if v, ok := z.days[day]; ok {
		return v, nil
	}
	const maxDay = 1 << 32
	if day < -maxDay || day > maxDay {
		return 0, fmt.Errorf("day %d is beyond any calendar", day)
	}
	label := time.Unix(day*secondsPerDay, 0).UTC().Format(time.DateOnly)
	slot, err := partition.Scheme{Unit: partition.Day, Zone: z.name, Column: "day"}.Parse(label)
	if err != nil {
		return 0, err
	}
	z.days[day] = slot.From
	return slot.From, nil
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
