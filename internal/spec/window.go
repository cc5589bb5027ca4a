package spec

import (
	"encoding/json"
	"fmt"
	"time"
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
