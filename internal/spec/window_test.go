package spec

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"hindcast/internal/partition"
)

func by(unit partition.Unit, zone string) Output {
	return Output{Table: "t-" + string(unit), Scheme: partition.Scheme{Unit: unit, Column: "t", Zone: zone}}
}

var now = time.Date(2011, 12, 10, 12, 34, 56, 0, time.UTC)

func TestWindows(t *testing.T) {
	london, auckland := by(partition.Day, "Europe/London"), by(partition.Day, "Pacific/Auckland")
	hours := by(partition.Hour, "UTC")
	for _, c := range []struct {
		name    string
		flags   WindowFlags
		outputs []Output
		want    string // the window, or what an error says
	}{
		{"instants", WindowFlags{From: "2011-11-01T00:00:00Z", To: "2011-11-22T00:00:00Z"}, []Output{london}, "2011-11-01T00:00:00Z/2011-11-22T00:00:00Z"},
		{"offsets", WindowFlags{From: "2011-10-30T00:00:00+01:00", To: "2011-10-31T00:00:00+00:00"}, []Output{london}, "2011-10-29T23:00:00Z/2011-10-31T00:00:00Z"},
		{"dates in the output's zone", WindowFlags{From: "2011-10-30", To: "2011-10-31"}, []Output{london}, "2011-10-29T23:00:00Z/2011-10-31T00:00:00Z"},
		{"dates in Auckland", WindowFlags{From: "2011-11-01", To: "2011-11-22"}, []Output{auckland}, "2011-10-31T11:00:00Z/2011-11-21T11:00:00Z"},
		{"dates with their zone", WindowFlags{From: "2011-11-01[Europe/London]", To: "2011-11-02[Europe/London]"}, []Output{hours}, "2011-11-01T00:00:00Z/2011-11-02T00:00:00Z"},
		{"dates with --zone", WindowFlags{From: "2011-07-01", To: "2011-07-02", Zone: "Europe/London"}, []Output{hours}, "2011-06-30T23:00:00Z/2011-07-01T23:00:00Z"},
		{"times with a zone", WindowFlags{From: "2011-07-01T06:00[Europe/London]", To: "2011-07-01T07:00:00[Europe/London]"}, []Output{hours}, "2011-07-01T05:00:00Z/2011-07-01T06:00:00Z"},
		{"times with --zone", WindowFlags{From: "2011-07-01T06:00", To: "2011-07-01T07:00:00Z", Zone: "Europe/London"}, []Output{hours}, "2011-07-01T05:00:00Z/2011-07-01T07:00:00Z"},
		{"last hours", WindowFlags{Last: "PT6H", AsOf: "2011-12-01T12:00:00Z"}, []Output{hours}, "2011-12-01T06:00:00Z/2011-12-01T12:00:00Z"},
		{"last days", WindowFlags{Last: "21d", AsOf: "2011-11-22"}, []Output{london}, "2011-11-01T00:00:00Z/2011-11-22T00:00:00Z"},
		{"expanded", WindowFlags{From: "2011-11-01T01:00:00Z", To: "2011-11-02T01:00:00Z", Align: "expand"}, []Output{london}, "2011-11-01T00:00:00Z/2011-11-03T00:00:00Z"},
		{"expanded for both outputs", WindowFlags{From: "2011-11-03", To: "2011-11-04", Align: "expand"}, []Output{london, by(partition.Month, "Europe/London")}, "2011-11-01T00:00:00Z/2011-12-01T00:00:00Z"},
		{"ends now", WindowFlags{From: "2011-12-10T12:00:00Z", To: "2011-12-10T12:34:00Z"}, []Output{by(partition.Hour, "Asia/Kolkata")}, "cuts a partition of t-hour, by hour in Asia/Kolkata: the last partition that is complete ends at 2011-12-10T12:30:00Z, and --from begins one at 2011-12-10T11:30:00Z"},
		{"half-hour zone", WindowFlags{From: "2011-12-10T11:30:00Z", To: "2011-12-10T12:30:00Z"}, []Output{by(partition.Hour, "Asia/Kolkata")}, "2011-12-10T11:30:00Z/2011-12-10T12:30:00Z"},

		{"nothing", WindowFlags{}, []Output{london}, "no window was given: give --from and --to, or --last PT6H"},
		{"half", WindowFlags{From: "2011-11-01"}, []Output{london}, "--from and --to belong together"},
		{"both", WindowFlags{From: "2011-11-01", To: "2011-11-02", Last: "1d"}, []Output{london}, "both say what the window is"},
		{"time without zone", WindowFlags{From: "2011-11-01T06:00", To: "2011-11-02"}, []Output{london}, `--from: "2011-11-01T06:00" does not say in which zone: write 2011-11-01T06:00[Europe/London], or an instant with its offset, as 2011-11-01T06:00:00Z`},
		{"date without zone", WindowFlags{From: "2011-11-01", To: "2011-11-02"}, nil, `"2011-11-01" does not say in which zone: write 2011-11-01[Europe/London]`},
		{"date in two zones", WindowFlags{From: "2011-11-01", To: "2011-11-02"}, []Output{london, auckland}, "the outputs have several: Europe/London, Pacific/Auckland"},
		{"no instant", WindowFlags{From: "yesterday", To: "2011-11-02"}, []Output{london}, `--from: "yesterday" is not an instant: write 2011-11-01T06:00:00Z`},
		{"no such date", WindowFlags{From: "2011-11-31", To: "2011-12-02"}, []Output{london}, `"2011-11-31" is not an instant`},
		{"no such zone", WindowFlags{From: "2011-11-01[Europe/Londn]", To: "2011-12-02"}, []Output{london}, `unknown zone "Europe/Londn"`},
		{"skipped time", WindowFlags{From: "2011-03-27T01:30[Europe/London]", To: "2011-12-02"}, []Output{london}, `the clocks of Europe/London skip that time`},
		{"skipped date", WindowFlags{From: "2011-12-30[Pacific/Apia]", To: "2011-12-31"}, []Output{by(partition.Day, "Pacific/Apia")}, `the clocks of Pacific/Apia skip that date`},
		{"repeated time", WindowFlags{From: "2011-10-30T01:30[Europe/London]", To: "2011-12-02"}, []Output{london}, "show that time twice: write 2011-10-30T01:30:00+01:00 or 2011-10-30T01:30:00Z"},
		{"nanoseconds", WindowFlags{From: "2011-11-01T00:00:00.0000001Z", To: "2011-12-02"}, []Output{london}, "finer than a microsecond"},
		{"reversed", WindowFlags{From: "2011-11-02", To: "2011-11-01"}, []Output{london}, "swap --from and --to"},
		{"empty", WindowFlags{From: "2011-11-01", To: "2011-11-01"}, []Output{london}, "for a single day, give the day after it"},
		{"cut", WindowFlags{From: "2011-11-01T01:00:00Z", To: "2011-11-02T01:00:00Z"}, []Output{london}, "cuts a partition of t-day, by day in Europe/London: give --align expand for --from 2011-11-01T00:00:00Z --to 2011-11-03T00:00:00Z"},
		{"cut to the microsecond", WindowFlags{From: "2011-11-01T00:00:00.000001Z", To: "2011-11-02"}, []Output{london}, "cuts a partition"},
		{"never aligned", WindowFlags{From: "2011-11-01T00:00:00Z", To: "2011-11-02T00:00:00Z", Align: "expand"}, []Output{london, auckland}, "never begin at the same instant"},
		{"unknown align", WindowFlags{From: "2011-11-01", To: "2011-11-02", Align: "shrink"}, []Output{london}, "--align shrink is not known"},
		{"future", WindowFlags{From: "2011-12-10", To: "2011-12-11"}, []Output{london}, "ends after 2011-12-10T12:34:56Z, for which the plan is made"},
		{"after as-of", WindowFlags{From: "2011-11-01", To: "2011-11-22", AsOf: "2011-11-20"}, []Output{london}, "ends after 2011-11-20T00:00:00Z"},
		{"expanded into the future", WindowFlags{From: "2011-12-09", To: "2011-12-10T01:00:00Z", Align: "expand"}, []Output{london}, "ends after 2011-12-10T12:34:56Z"},
		{"as-of in the future", WindowFlags{Last: "1d", AsOf: "2011-12-11T00:00:00Z"}, []Output{hours}, "--as-of 2011-12-11T00:00:00Z is in the future"},
		{"no length", WindowFlags{Last: "0s"}, []Output{hours}, "--last 0s is no window"},
		{"no duration", WindowFlags{Last: "six hours"}, []Output{hours}, `--last: "six hours" is not a duration`},
		{"of buckets", WindowFlags{From: "2011-11-01", To: "2011-11-22"}, []Output{london, {Table: "b", Scheme: partition.Scheme{Buckets: 4}}}, "computed from the whole log and has no window"},
	} {
		w, _, err := ParseWindow(c.flags, now, c.outputs)
		if err != nil {
			var u *UsageError
			if !strings.Contains(err.Error(), c.want) || !errors.As(err, &u) {
				t.Errorf("%s: %v; want %s", c.name, err, c.want)
			}
			continue
		}
		if w.String() != c.want {
			t.Errorf("%s: %s, want %s", c.name, w, c.want)
		}
	}
	buckets := []Output{{Scheme: partition.Scheme{Buckets: 4}}}
	if w, _, err := ParseWindow(WindowFlags{}, now, buckets); w != nil || err != nil {
		t.Errorf("buckets without a window: %v, %v", w, err)
	}
	for _, f := range []WindowFlags{{AsOf: "2011-12-01T00:00:00Z"}, {Zone: "Europe/London"}} {
		if _, _, err := ParseWindow(f, now, buckets); err == nil {
			t.Errorf("%+v is taken for a table of buckets, where it has no effect", f)
		}
	}
}

func TestWindowSaysWhatItDecided(t *testing.T) {
	_, notes, err := ParseWindow(WindowFlags{From: "2011-11-01T01:00:00Z", To: "2011-11-21", Align: "expand"}, now, []Output{by(partition.Day, "Europe/London")})
	want := []string{
		"--to is not part of the window: its last day is 2011-11-20",
		"the window was widened from 2011-11-01T01:00:00Z/2011-11-21T00:00:00Z to 2011-11-01T00:00:00Z/2011-11-21T00:00:00Z, so that it cuts no partition of t-day (by day in Europe/London)",
	}
	if err != nil || !slices.Equal(notes, want) {
		t.Errorf("%q, %v", notes, err)
	}
}

func TestWindowIsHalfOpen(t *testing.T) {
	w, _, err := ParseWindow(WindowFlags{From: "2011-11-01", To: "2011-11-02"}, now, []Output{by(partition.Day, "Europe/London")})
	if err != nil {
		t.Fatal(err)
	}
	for s, in := range map[string]bool{
		"2011-10-31T23:59:59.999999Z": false, "2011-11-01T00:00:00Z": true, "2011-11-01T23:59:59.999Z": true, "2011-11-02T00:00:00Z": false, "2011-11-02T00:00:00.001Z": false,
	} {
		at, err := ParseInstant(s)
		if err != nil || w.Contains(at) != in {
			t.Errorf("%s: in the window %v, %v", s, w.Contains(at), err)
		}
	}
	b, err := w.MarshalJSON()
	var back Window
	if err != nil || string(b) != `{"from":"2011-11-01T00:00:00Z","to":"2011-11-02T00:00:00Z"}` || back.UnmarshalJSON(b) != nil || back != *w {
		t.Errorf("%s, %v, %v", b, err, back)
	}
}

func FuzzInstant(f *testing.F) {
	for _, s := range []string{"2011-11-01T00:00:00Z", "2011-11-01[Europe/London]", "2011-11-01 06:00[Asia/Kolkata]", "2011-11-01[", "0000-01-01[UTC]", "9999-12-31"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, err := ParseInstant(s, "Europe/London")
		if err != nil {
			return
		}
		if back, err := ParseInstant(FormatInstant(at)); err != nil || back != at {
			t.Fatalf("%q is %s, read as %d, %v; want %d", s, FormatInstant(at), back, err, at)
		}
	})
}
