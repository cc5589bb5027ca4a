package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hindcast/internal/partition"
)

// Window is a half-open range of event time, in microseconds since the epoch.
type Window struct {
	From, To int64
}

// String writes w as two instants in UTC: "2011-11-01T00:00:00Z/2011-11-22T00:00:00Z".
func (w Window) String() string { return FormatInstant(w.From) + "/" + FormatInstant(w.To) }

// Contains reports whether an instant lies in w.
func (w Window) Contains(t int64) bool { return w.From <= t && t < w.To }

type windowJSON struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// MarshalJSON writes the two instants in RFC 3339.
func (w Window) MarshalJSON() ([]byte, error) {
	return json.Marshal(windowJSON{FormatInstant(w.From), FormatInstant(w.To)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (w *Window) UnmarshalJSON(b []byte) error {
	var v windowJSON
	if err := json.Unmarshal(b, &v); err != nil {
		return fmt.Errorf("window: %w", err)
	}
	from, err := time.Parse(time.RFC3339, v.From)
	if err != nil {
		return fmt.Errorf("window: %w", err)
	}
	to, err := time.Parse(time.RFC3339, v.To)
	if err != nil {
		return fmt.Errorf("window: %w", err)
	}
	w.From, w.To = from.UnixMicro(), to.UnixMicro()
	return nil
}

// FormatInstant writes microseconds since the epoch in RFC 3339, in UTC.
func FormatInstant(t int64) string { return time.UnixMicro(t).UTC().Format(time.RFC3339Nano) }

// UsageError is a mistake in what the user asked for on the command line, with what to do about it.
type UsageError struct{ What, Hint string }

func (e *UsageError) Error() string {
	if e.Hint == "" {
		return e.What
	}
	return e.What + ": " + e.Hint
}

func usage(hint, format string, args ...any) error {
	return &UsageError{fmt.Sprintf(format, args...), hint}
}

// WindowFlags are how a user says what to recompute, as given.
type WindowFlags struct {
	From, To string // instants or dates; see ParseInstant
	Last     string // a duration that ends at AsOf
	AsOf     string // an instant or date; empty means now
	Align    string // "expand" widens a window that cuts a partition; empty refuses it
	Zone     string // the zone of dates, where they and the outputs name none
}

// Given reports whether a window was asked for.
func (f WindowFlags) Given() bool { return f.From != "" || f.To != "" || f.Last != "" }

// AsOfInstant returns the instant that a plan is made for: that of --as-of, else now.
func (f WindowFlags) AsOfInstant(now time.Time, outputs []Output) (int64, error) {
	if f.AsOf == "" {
		return now.UnixMicro(), nil
	}
	t, err := f.instant(f.AsOf, outputs)
	if err != nil {
		return 0, fmt.Errorf("--as-of: %w", err)
	}
	if t > now.UnixMicro() {
		return 0, usage("leave it out to plan for now", "--as-of %s is in the future: it is %s", FormatInstant(t), FormatInstant(now.UnixMicro()))
	}
	return t, nil
}

// instant reads an instant as ParseInstant does; dates may be in the zone of the outputs, and --zone counts as written.
func (f WindowFlags) instant(s string, outputs []Output) (int64, error) {
	if _, err := time.Parse(time.RFC3339Nano, s); err != nil && f.Zone != "" && !strings.Contains(s, "[") {
		s += "[" + f.Zone + "]"
	}
	var zones []string
	for _, o := range outputs {
		if z := o.Scheme.Zone; z != "" && !slices.Contains(zones, z) {
			zones = append(zones, z)
		}
	}
	return ParseInstant(s, zones...)
}

// ParseWindow makes a run's window of flags; nil where the outputs have none, being computed from
// the whole log. Notes tell the user what was decided for them. Mistakes are a [UsageError].
func ParseWindow(f WindowFlags, now time.Time, outputs []Output) (w *Window, notes []string, err error) {
	if slices.ContainsFunc(outputs, func(o Output) bool { return !o.ByTime() }) {
		if f.Given() || f.Align != "" || f.AsOf != "" || f.Zone != "" {
			return nil, nil, usage("leave out --from, --to, --last, --as-of, --zone and --align",
				"a table of this job is cut by key bucket: it is computed from the whole log and has no window")
		}
		return nil, nil, nil
	}
	asOf, err := f.AsOfInstant(now, outputs)
	if err != nil {
		return nil, nil, err
	}
	w = &Window{}
	switch {
	case f.Last != "" && (f.From != "" || f.To != ""):
		return nil, nil, usage("give one or the other", "--last and --from/--to both say what the window is")
	case f.Last != "":
		d, err := ParseDuration(f.Last)
		if err != nil {
			return nil, nil, usage("", "--last: %v", err)
		}
		if d <= 0 || d > maxDuration {
			return nil, nil, usage("give a length of time, as PT6H or 21d", "--last %s is no window", f.Last)
		}
		w.From, w.To = asOf-int64(d), asOf
	case f.From == "" && f.To == "":
		return nil, nil, usage("give --from and --to, or --last PT6H", "no window was given")
	case f.From == "" || f.To == "":
		return nil, nil, usage("give both, or --last PT6H", "--from and --to belong together")
	default:
		if w.From, err = f.instant(f.From, outputs); err != nil {
			return nil, nil, fmt.Errorf("--from: %w", err)
		}
		if w.To, err = f.instant(f.To, outputs); err != nil {
			return nil, nil, fmt.Errorf("--to: %w", err)
		}
		if w.From > w.To {
			return nil, nil, usage("swap --from and --to", "the window ends (%s) before it begins (%s)", FormatInstant(w.To), FormatInstant(w.From))
		}
		if w.From == w.To {
			return nil, nil, usage("--to is not part of the window: for a single day, give the day after it",
				"the window is empty: it begins and ends at %s", FormatInstant(w.From))
		}
	}
	if day, ok := dateOf(f.To); ok {
		notes = append(notes, fmt.Sprintf("--to is not part of the window: its last day is %s", day.AddDate(0, 0, -1).Format(time.DateOnly)))
	}
	widened, err := f.align(w, asOf, outputs)
	if err != nil {
		return nil, nil, err
	}
	notes = append(notes, widened...)
	if w.To > asOf {
		hint := "end it earlier"
		if f.AsOf != "" {
			hint = "end it earlier, or give a later --as-of"
		}
		return nil, nil, usage(hint, "the window %s ends after %s, for which the plan is made: its last events have not happened yet", w, FormatInstant(asOf))
	}
	return w, notes, nil
}

// align makes sure that the window cuts no output's partition. It may widen w.
func (f WindowFlags) align(w *Window, asOf int64, outputs []Output) (notes []string, err error) {
	if f.Align != "" && f.Align != "expand" {
		return nil, usage("give --align expand, or leave it out", "--align %s is not known", f.Align)
	}
	wide, cut, err := expand(*w, outputs)
	if err != nil || cut == nil {
		return nil, err
	}
	if f.Align == "" {
		hint := fmt.Sprintf("give --align expand for --from %s --to %s", FormatInstant(wide.From), FormatInstant(wide.To))
		if f.Last != "" || wide.To > asOf {
			if last, err := cut.Scheme.Slot(w.To); err == nil {
				hint = fmt.Sprintf("the last partition that is complete ends at %s, and --from begins one at %s", FormatInstant(last.From), FormatInstant(wide.From))
			}
		}
		return nil, usage(hint, "the window %s cuts a partition of %s, by %s in %s", w, cut.Table, cut.Scheme.Unit, cut.Scheme.Zone)
	}
	notes = []string{fmt.Sprintf("the window was widened from %s to %s, so that it cuts no partition of %s (by %s in %s)",
		w, wide, cut.Table, cut.Scheme.Unit, cut.Scheme.Zone)}
	*w = wide
	return notes, nil
}

// expand widens a window until it cuts no output's partition; cut is the first output of which it cut one.
func expand(w Window, outputs []Output) (wide Window, cut *Output, err error) {
	// Days of zones far apart never line up. What can, does so in a few rounds.
	const rounds = 40
	wide = w
	for range rounds {
		before := wide
		for i := range outputs {
			from, to, err := outputs[i].Scheme.Expand(wide.From, wide.To)
			if err != nil {
				return w, nil, err
			}
			if (Window{from, to}) != wide && cut == nil {
				cut = &outputs[i]
			}
			wide = Window{from, to}
		}
		if wide == before {
			return wide, cut, nil
		}
	}
	return w, nil, usage("make jobs of them that have outputs of one zone each", "the partitions of the job's outputs never begin at the same instant")
}

// ParseInstant reads an instant, in microseconds since the epoch: RFC 3339 with an offset
// ("2011-11-01T06:00:00Z"), a date, which means its first instant ("2011-11-01[Europe/London]"), or a local time
// ("2011-11-01T06:00[Europe/London]"). A date may do without a zone where there is one in zones, a local time may not.
// One that the clocks skip, or show twice, is refused.
func ParseInstant(s string, zones ...string) (int64, error) {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		if t.Nanosecond()%1000 != 0 {
			return 0, usage("write at most six decimals", "%q is finer than a microsecond", s)
		}
		if y := t.UTC().Year(); y < 1 || y > 9999 {
			return 0, usage("", "%q is outside the years 1 to 9999", s)
		}
		return t.UnixMicro(), nil
	}
	local, zone, own := strings.Cut(s, "[")
	if own {
		var closed bool
		if zone, closed = strings.CutSuffix(zone, "]"); !closed {
			return 0, badInstant(s)
		}
	}
	t, date, err := parseLocal(local)
	if err != nil {
		return 0, badInstant(s)
	}
	switch {
	case own:
	case date && len(zones) == 1:
		zone = zones[0]
	case date && len(zones) > 1:
		return 0, usage(fmt.Sprintf("write %s[%s], or give --zone", s, zones[0]),
			"%q does not say in which zone, and the outputs have several: %s", s, strings.Join(zones, ", "))
	default:
		like := "Europe/London"
		if len(zones) > 0 {
			like = zones[0]
		}
		return 0, usage(fmt.Sprintf("write %s[%s], or an instant with its offset, as %sZ, or give --zone", s, like, t.Format("2006-01-02T15:04:05")),
			"%q does not say in which zone", s)
	}
	if date {
		slot, err := partition.Scheme{Unit: partition.Day, Column: "date", Zone: zone}.Parse(local)
		if err != nil {
			if _, zoneErr := partition.LoadZone(zone); zoneErr != nil {
				return 0, usage("", "%q: %v", s, zoneErr)
			}
			return 0, usage("", "%q: the clocks of %s skip that date", s, zone)
		}
		return slot.From, nil
	}
	loc, err := partition.LoadZone(zone)
	if err != nil {
		return 0, usage("", "%q: %v", s, err)
	}
	return resolve(s, t, loc)
}

// resolve finds the one instant at which the zone's clocks show t.
func resolve(s string, t time.Time, loc *time.Location) (int64, error) {
	var found []time.Time
	for _, around := range []time.Duration{-26 * time.Hour, 26 * time.Hour} {
		_, offset := t.Add(around).In(loc).Zone()
		at := t.Add(-time.Duration(offset) * time.Second).In(loc)
		if _, o := at.Zone(); o == offset && (len(found) == 0 || !found[0].Equal(at)) {
			found = append(found, at)
		}
	}
	switch len(found) {
	case 0:
		return 0, usage("give an instant with its offset", "%q: the clocks of %s skip that time", s, loc)
	case 1:
		return found[0].UnixMicro(), nil
	}
	return 0, usage(fmt.Sprintf("write %s or %s", found[0].Format(time.RFC3339Nano), found[1].Format(time.RFC3339Nano)),
		"%q: the clocks of %s show that time twice", s, loc)
}

func parseLocal(s string) (t time.Time, date bool, err error) {
	if t, err = time.Parse(time.DateOnly, s); err == nil {
		return t, true, nil
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05"} {
		if t, err = time.Parse(layout, s); err == nil && t.Nanosecond()%1000 == 0 {
			return t, false, nil
		}
	}
	return t, false, errors.New("not a date or time")
}

// dateOf returns the date that s is, with or without a zone.
func dateOf(s string) (day time.Time, ok bool) {
	local, _, _ := strings.Cut(s, "[")
	day, err := time.Parse(time.DateOnly, local)
	return day, err == nil
}

func badInstant(s string) error {
	return usage("write 2011-11-01T06:00:00Z, 2011-11-01T06:00[Europe/London] or a date, as 2011-11-01", "%q is not an instant", s)
}
