package asl

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"hindcast/internal/asl/expr"
)

// waitState is a Wait state.
type waitState struct {
	common
	seconds   amount
	timestamp time.Time
	at        *expr.Path // TimestampPath
}

func loadWait(c common, f *fields) state {
	st := &waitState{common: c}
	st.seconds = f.whole("Seconds", 0, maxSeconds)
	if s, ok := f.text("Timestamp"); ok {
		if st.timestamp, ok = parseTime(s); !ok {
			f.problem("Timestamp", "%q is not of the form 2006-01-02T15:04:05Z", s)
		}
	}
	st.at = f.pathOf("TimestampPath")
	given := 0
	for _, name := range []string{"Seconds", "SecondsPath", "Timestamp", "TimestampPath"} {
		if f.has(name) {
			given++
		}
	}
	if given != 1 {
		f.problem("", "needs one of Seconds, SecondsPath, Timestamp and TimestampPath")
	}
	return st
}

// parseTime parses an ISO 8601 date and time with an offset. What it refuses AWS was
// recorded to refuse.
func parseTime(s string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

func (st *waitState) run(ctx context.Context, f *frame) (exit, error) {
	input, err := f.selectPath(st.input, f.raw)
	if err != nil {
		return exit{}, err
	}
	until, err := st.until(f, input)
	if err != nil {
		return exit{}, err
	}
	from := st.from(f)
	if until.Sub(from) > math.MaxInt32*time.Second {
		return exit{}, f.runtime("Wait state delay is too long.")
	}
	if until.After(from) {
		if err := f.x.engine.clock().Sleep(ctx, until); err != nil {
			return exit{}, err
		}
	}
	return f.pass(input)
}

// from is when the wait began: at the recorded entry, as an interruption does not lengthen it, or at the redrive that
// repeats it.
func (st *waitState) from(f *frame) time.Time {
	if f.x.redriven.Time.After(f.entered.Time) {
		return f.x.redriven.Time
	}
	return f.entered.Time
}

func (st *waitState) until(f *frame, input any) (time.Time, error) {
	switch {
	case st.at != nil:
		v, err := f.eval(st.at, "TimestampPath", input)
		if err != nil {
			return time.Time{}, err
		}
		s, _ := v.(string)
		t, ok := parseTime(s)
		if !ok {
			return time.Time{}, f.runtime("The TimestampPath parameter does not reference a valid ISO-8601 extended offset date-time format string: %s == %v", st.at, v)
		}
		return t, nil
	case st.seconds.path != nil:
		v, err := f.eval(st.seconds.path, "SecondsPath", input)
		if err != nil {
			return time.Time{}, err
		}
		n, ok := int64(0), false
		switch v := v.(type) {
		case json.Number:
			n, ok = expr.Int(v)
		case string:
			n, err = strconv.ParseInt(v, 10, 64)
			ok = err == nil
		}
		switch {
		case !ok:
			return time.Time{}, f.runtime("The SecondsPath parameter cannot be parsed as a long value: %s == %v", st.seconds.path, v)
		case n < 0:
			return time.Time{}, f.runtime("The SecondsPath parameter references a negative value: %s == %v", st.seconds.path, v)
		case n > math.MaxInt32:
			return time.Time{}, f.runtime("Wait state delay is too long.")
		}
		return st.from(f).Add(time.Duration(n) * time.Second), nil
	case st.seconds.set:
		return st.from(f).Add(time.Duration(st.seconds.value) * time.Second), nil
	}
	return st.timestamp, nil
}
