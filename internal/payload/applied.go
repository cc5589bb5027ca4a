package payload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"hindcast/internal/spec"
)

// AppliedKey is that under which a file's footer tells by which rules its columns were made of values: see [Options.Applied].
const AppliedKey = "hindcast.decoded"

// applied is what was done to the events of a file.
type applied struct {
	Columns map[string]spec.Column `json:"columns,omitempty"`
	Upcasts []spec.Upcast          `json:"upcasts,omitempty"`
}

// Applied describes, for a file's footer, what decoding by these options does to events, so that it is not done to them again.
func (o Options) Applied() (string, error) {
	b, err := json.Marshal(applied{o.Columns, o.Upcasts})
	return string(b), err
}

// After returns what is left to do for typed columns that were decoded before: the upcasts that were added to the job since. Rules that
// differ from those of then are an error: what is in the columns cannot be made what it would be now.
func (o Options) After(text string) (Options, error) {
	var was applied
	if err := json.Unmarshal([]byte(text), &was); err != nil {
		return Options{}, fmt.Errorf("its footer does not say how its events were decoded: %w", err)
	}
	n := len(was.Upcasts)
	then, err := json.Marshal(was.Upcasts)
	if err != nil {
		return Options{}, err
	}
	if n > 0 {
		now, err := json.Marshal(o.Upcasts[:min(n, len(o.Upcasts))])
		if err != nil {
			return Options{}, err
		}
		if !bytes.Equal(then, now) {
			return Options{}, errors.New("its events were upcast when they were archived, by a list that source.event.upcast does not begin with now: add entries at its end, and leave those that are there")
		}
		o.Upcasts = o.Upcasts[n:]
	}
	o.Columns = maps.Clone(o.Columns)
	for name, rule := range o.Columns {
		if rule.Scale == nil {
			continue
		}
		for _, called := range append([]string{name}, rule.Aliases...) {
			old := was.Columns[called].Scale
			if old == nil {
				continue
			}
			if *old != *rule.Scale {
				return Options{}, fmt.Errorf("its column %s was archived with scale %d, and source.event.columns.%s.scale is %d now: a scale that was archived cannot change", called, *old, name, *rule.Scale)
			}
			rule.Scale = nil
			o.Columns[name] = rule
			break
		}
	}
	return o, nil
}
