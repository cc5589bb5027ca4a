package partition

import (
	"errors"
	"fmt"
	"time"
)

const (
	dayLayout   = "2006-01-02"
	monthLayout = "2006-01"
	hourLayout  = "2006-01-02T15"
)

const secondMicros = 1_000_000

// The instants that labels of four digits can name, with a day to spare for zones.
var (
	minInstant = time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC).UnixMicro()
	maxInstant = time.Date(9999, 12, 30, 0, 0, 0, 0, time.UTC).UnixMicro()
)

// Dates are those that a table can be cut by, for people: see [Placeable].
const Dates = "0001-01-02 to 9999-12-29"

// Placeable reports whether a table can have a partition for an instant, whatever its zone: whether it is in [Dates].
func Placeable(t int64) bool { return minInstant <= t && t < maxInstant }

// Slot returns the partition that an instant lies in. One that is not [Placeable] is an error.
func (s Scheme) Slot(t int64) (Slot, error) {
	c, err := s.cutter()
	if err != nil {
		return Slot{}, err
	}
	return c.slot(t)
}

// Slots returns the partitions that [from, to) touches, ascending. They tile: each begins where the one before it ends.
func (s Scheme) Slots(from, to int64) ([]Slot, error) {
	c, err := s.cutter()
	if err != nil {
		return nil, err
	}
	var out []Slot
	for from < to {
		slot, err := c.slot(from)
		if err != nil {
			return nil, err
		}
		out = append(out, slot)
		from = slot.To
	}
	return out, nil
}

// Aligned reports whether both instants lie on boundaries of partitions.
func (s Scheme) Aligned(from, to int64) (bool, error) {
	f, t, err := s.Expand(from, to)
	return f == from && t == to, err
}

// Expand moves from back and to forth to the nearest boundaries of partitions.
func (s Scheme) Expand(from, to int64) (int64, int64, error) {
	c, err := s.cutter()
	if err != nil {
		return 0, 0, err
	}
	first, err := c.slot(from)
	if err != nil {
		return 0, 0, err
	}
	last, err := c.slot(to)
	if err != nil {
		return 0, 0, err
	}
	if last.From != to {
		to = last.To
	}
	return first.From, to, nil
}

// Parse returns the time partition that has a label.
func (s Scheme) Parse(label string) (Slot, error) {
	c, err := s.cutter()
	if err != nil {
		return Slot{}, err
	}
	var near int64 // an instant at or before the slot's start, or in the slot
	switch s.Unit {
	case Hour:
		near, err = hourInstant(label)
	case Day, Month:
		var t time.Time
		if t, err = time.Parse(map[Unit]string{Day: dayLayout, Month: monthLayout}[s.Unit], label); err == nil {
			near = c.start(t.Unix()) * secondMicros
		}
	}
	if err == nil {
		// An hour that an offset change cuts begins after its full hour would have.
		for t := near; t < near+3600*secondMicros; {
			slot, err := c.slot(t)
			if err != nil {
				return Slot{}, err
			}
			if slot.Label == label {
				return slot, nil
			}
			t = slot.To
		}
	}
	return Slot{}, fmt.Errorf("%q is no %s in %s", label, s.Unit, s.Zone)
}

// hourInstant returns when an hour with that label begins, or would if no offset change cut it.
func hourInstant(label string) (int64, error) {
	for _, layout := range []string{hourLayout + "-0700", hourLayout + "-070000"} {
		if t, err := time.Parse(layout, label); err == nil {
			return t.UnixMicro(), nil
		}
	}
	return 0, errors.New("not an hour")
}

// cutter is a scheme by time with its zone. In what follows "local" seconds are what the
// zone's clocks show, counted as if they were UTC.
type cutter struct {
	unit Unit
	loc  *time.Location
}

func (s Scheme) cutter() (cutter, error) {
	if !s.ByTime() {
		return cutter{}, fmt.Errorf("a table cut in %s has no time partitions", s)
	}
	if err := s.Validate(); err != nil {
		return cutter{}, err
	}
	loc, err := LoadZone(s.Zone)
	return cutter{s.Unit, loc}, err
}

func (c cutter) slot(t int64) (Slot, error) {
	if !Placeable(t) {
		return Slot{}, fmt.Errorf("the instant %s is outside the dates that a table can be cut by, %s", time.UnixMicro(t).UTC().Format(time.RFC3339), Dates)
	}
	if c.unit == Hour {
		return c.hour(t), nil
	}
	y, m, d := time.UnixMicro(t).In(c.loc).Date()
	if c.unit == Month {
		d = 1
	}
	// Clocks that are put back over midnight show a date for a second time, while the next one has begun.
	at := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	from := c.start(at.Unix()) * secondMicros
	for {
		next := c.following(at)
		to := c.start(next.Unix()) * secondMicros
		if t < to {
			layout := dayLayout
			if c.unit == Month {
				layout = monthLayout
			}
			return Slot{Label: at.Format(layout), From: from, To: to}, nil
		}
		at, from = next, to
	}
}

func (c cutter) following(t time.Time) time.Time {
	if c.unit == Month {
		return t.AddDate(0, 1, 0)
	}
	return t.AddDate(0, 0, 1)
}

// start returns the first instant at which the zone's clocks show the local time or a later one, in seconds.
func (c cutter) start(local int64) int64 {
	const farthest = 16 * 3600 // no clock was ever more than 15:14 ahead of or behind UTC
	t := local - farthest
	for {
		end := c.change(t, local+farthest)
		if first := max(t, local-c.offset(t)); first < end {
			return first
		}
		t = end
	}
}

func (c cutter) hour(t int64) Slot {
	at := time.UnixMicro(t).In(c.loc)
	unix := at.Unix()
	offset := c.offset(unix)
	start := unix - mod(unix+offset, 3600)
	from, to := start, c.change(unix, start+3600)
	for end := c.change(from, unix+1); end <= unix; end = c.change(from, unix+1) {
		from = end
	}
	layout := hourLayout + "-0700"
	if offset%60 != 0 {
		layout = hourLayout + "-070000"
	}
	return Slot{Label: at.Format(layout), From: from * secondMicros, To: to * secondMicros}
}

// offset returns how many seconds the zone's clocks are ahead of UTC.
func (c cutter) offset(unix int64) int64 {
	_, o := time.Unix(unix, 0).In(c.loc).Zone()
	return int64(o)
}

// change returns the first instant in (from, to) at which the offset is another than at from, else to. It does not
// ask [time.Time.ZoneBounds], which in leap years takes the last of December for a change, and ends before its argument.
func (c cutter) change(from, to int64) int64 {
	const step = 3600 // changes were never so close to each other
	offset := c.offset(from)
	for from < to {
		next := min(from+step, to)
		if c.offset(next) == offset {
			from = next
			continue
		}
		for next-from > 1 {
			if mid := from + (next-from)/2; c.offset(mid) == offset {
				from = mid
			} else {
				next = mid
			}
		}
		return next
	}
	return to
}

func mod(a, b int64) int64 { return (a%b + b) % b }
