package spec

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Duration is a length of time in microseconds. A day is 24 hours.
type Duration int64

// The units of durations.
const (
	Microsecond Duration = 1
	Millisecond          = 1000 * Microsecond
	Second               = 1000 * Millisecond
	Minute               = 60 * Second
	Hour                 = 60 * Minute
	Day                  = 24 * Hour
	Week                 = 7 * Day
)

var durationUnits = []struct {
	name string
	unit Duration
}{{"d", Day}, {"h", Hour}, {"m", Minute}, {"s", Second}, {"ms", Millisecond}, {"us", Microsecond}}

// String writes d as "21d", "1d12h" or "0s": ParseDuration reads it back.
func (d Duration) String() string {
	if d == 0 {
		return "0s"
	}
	var b strings.Builder
	u := uint64(d)
	if d < 0 {
		b.WriteByte('-')
		u = -u
	}
	for _, unit := range durationUnits {
		if n := u / uint64(unit.unit); n > 0 {
			b.WriteString(strconv.FormatUint(n, 10))
			b.WriteString(unit.name)
			u %= uint64(unit.unit)
		}
	}
	return b.String()
}

// MarshalText writes d as String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what ParseDuration reads, and a leading minus.
func (d *Duration) UnmarshalText(b []byte) error {
	s, minus := strings.CutPrefix(string(b), "-")
	v, err := ParseDuration(s)
	if err != nil {
		return err
	}
	if minus {
		v = -v
	}
	*d = v
	return nil
}

// ParseDuration reads "21d", "36h", "1d12h", "90m", "250ms" or ISO 8601 ("PT6H", "P1DT12H", "P3W").
// Months and years have no fixed length and are refused.
func ParseDuration(s string) (Duration, error) {
	rest, iso := strings.CutPrefix(s, "P")
	if rest == "" {
		return 0, badDuration(s)
	}
	var total Duration
	afterT := false
	last := Duration(math.MaxInt64) // units come in descending order, each once
	for rest != "" {
		if iso && !afterT && rest[0] == 'T' {
			afterT, rest = true, rest[1:]
			if rest == "" {
				return 0, badDuration(s)
			}
			continue
		}
		n := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if n <= 0 {
			return 0, badDuration(s)
		}
		v, err := strconv.ParseInt(rest[:n], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("duration %q is too long", s)
		}
		rest = rest[n:]
		m := strings.IndexFunc(rest, func(r rune) bool { return r >= '0' && r <= '9' })
		if m < 0 || iso {
			m = len(rest)
		}
		if iso {
			m = 1
		}
		unit, err := durationUnit(rest[:m], iso, afterT)
		if err != nil {
			return 0, fmt.Errorf("duration %q: %w", s, err)
		}
		if unit >= last {
			return 0, badDuration(s)
		}
		last, rest = unit, rest[m:]
		if v > int64(math.MaxInt64-total)/int64(unit) {
			return 0, fmt.Errorf("duration %q is too long", s)
		}
		total += Duration(v) * unit
	}
	return total, nil
}

func durationUnit(name string, iso, afterT bool) (Duration, error) {
	if !iso {
		for _, u := range durationUnits {
			if u.name == name {
				return u.unit, nil
			}
		}
		if name == "w" {
			return Week, nil
		}
		return 0, fmt.Errorf("unknown unit %q: units are w, d, h, m, s, ms, us", name)
	}
	switch name {
	case "W":
		if !afterT {
			return Week, nil
		}
	case "D":
		if !afterT {
			return Day, nil
		}
	case "H":
		if afterT {
			return Hour, nil
		}
	case "M":
		if afterT {
			return Minute, nil
		}
		return 0, fmt.Errorf("a month has no fixed length; write days, as P30D")
	case "S":
		if afterT {
			return Second, nil
		}
	case "Y":
		return 0, fmt.Errorf("a year has no fixed length; write days, as P365D")
	}
	return 0, fmt.Errorf("%q does not belong there: ISO durations read P3W, P21D, PT6H or P1DT12H30M", name)
}

func badDuration(s string) error {
	return fmt.Errorf("%q is not a duration: write 21d, 36h, 1d12h, 90m or ISO 8601, as PT6H", s)
}

// Percent is a share in hundredths of a percent: 5% is 500.
type Percent int64

// String writes p as "5%" or "0.25%".
func (p Percent) String() string {
	sign, u := "", uint64(p)
	if p < 0 {
		sign, u = "-", -u
	}
	s := fmt.Sprintf("%s%d.%02d", sign, u/100, u%100)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") + "%"
}

// MarshalText writes p as String does.
func (p Percent) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what ParsePercent reads.
func (p *Percent) UnmarshalText(b []byte) error {
	v, err := ParsePercent(string(b))
	if err != nil {
		return err
	}
	*p = v
	return nil
}

// ParsePercent reads "5%" or "0.25%": at most two decimals, and not negative.
func ParsePercent(s string) (Percent, error) {
	bad := fmt.Errorf("%q is not a share: write a percentage with at most two decimals, as 5%% or 0.25%%", s)
	num, ok := strings.CutSuffix(s, "%")
	if !ok {
		return 0, bad
	}
	whole, frac, dot := strings.Cut(num, ".")
	if dot && (frac == "" || len(frac) > 2) {
		return 0, bad
	}
	for len(frac) < 2 {
		frac += "0"
	}
	w, err := strconv.ParseUint(whole, 10, 32)
	if err != nil {
		return 0, bad
	}
	f, err := strconv.ParseUint(frac, 10, 32)
	if err != nil {
		return 0, bad
	}
	return Percent(w*100 + f), nil
}
