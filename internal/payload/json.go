package payload

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"

	"hindcast/internal/record"
)

// decodeJSON finds the members of an object that are columns.
func (d *Decoder) decodeJSON(_ context.Context, value []byte) (reason, err error) {
	reason = members(value, func(name, value []byte) error {
		i, ok := d.fields[string(name)]
		if !ok {
			return nil
		}
		f := &d.found[i]
		if f.set {
			return fmt.Errorf("%s: it is there twice", f.name)
		}
		f.set, f.null, f.json = true, string(value) == "null", value
		return nil
	})
	if reason != nil && len(value) > wireHeader && value[0] == 0 {
		reason = fmt.Errorf("%w; it begins as values of a schema registry do, and only plain JSON is read: give the format avro if it is Avro", reason)
	}
	return reason, nil
}

// parse reads a JSON value, exactly or not at all.
func (c *cell) parse(kind record.Kind, rule rule, value []byte) error {
	c.set = true
	wrong := func() error { return fmt.Errorf("it is %s, expected %s", describeJSON(value), expected(kind, rule)) }
	quoted := value[0] == '"'
	if quoted {
		var err error
		if c.text, err = unquote(value); err != nil {
			return err
		}
	}
	number := bytes.IndexByte([]byte("-0123456789"), value[0]) >= 0
	ok := false
	switch kind {
	case record.String:
		ok = quoted
	case record.Timestamp:
		if number && rule.Unit != "" {
			var n int64
			n, ok = integer(value)
			if ok {
				c.num, ok = fromUnit(n, rule.Unit)
			}
			break
		}
		if !quoted {
			break
		}
		var err error
		if c.num, ok, err = rule.zone.timestamp(string(c.text)); err != nil {
			return err
		}
	case record.Date:
		if quoted {
			var t time.Time
			var err error
			t, err = time.Parse(time.DateOnly, string(c.text))
			ok, c.num = err == nil, t.Unix()/secondsPerDay // exact: it is midnight
		}
	case record.Bool:
		ok = value[0] == 't' || value[0] == 'f'
		if value[0] == 't' {
			c.num = 1
		}
	case record.Int64:
		switch {
		case rule.Scale == nil:
			c.num, ok = integer(value)
		case quoted:
			c.num, ok = decimal(c.text, *rule.Scale)
		case number:
			c.num, ok = decimal(value, *rule.Scale)
		}
	case record.Float64:
		if number {
			var err error
			c.float, err = strconv.ParseFloat(string(value), 64)
			ok = err == nil
		}
	default:
		return fmt.Errorf("values of kind %v are not read from JSON", kind)
	}
	if !ok {
		return wrong()
	}
	return nil
}

// integer reads a JSON number that has neither a fraction nor an exponent.
func integer(value []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(value), 10, 64)
	return n, err == nil
}

// expected says what a column's values look like in JSON.
func expected(kind record.Kind, rule rule) string {
	switch kind {
	case record.String:
		return "a string"
	case record.Timestamp:
		what := `an RFC 3339 time with its zone, as "2011-11-01T08:26:00Z"`
		if rule.Zone != "" {
			what = fmt.Sprintf(`an RFC 3339 time, without a zone one of %s, as "2011-11-01T08:26:00"`, rule.Zone)
		}
		if rule.Unit != "" {
			what += fmt.Sprintf(", or an integer (%s since 1970)", rule.Unit)
		}
		return what
	case record.Date:
		return `a date, as "2011-11-01"`
	case record.Bool:
		return "true or false"
	case record.Int64:
		if rule.Scale != nil {
			return fmt.Sprintf("a decimal number of at most %d digits behind the point that fits 64 bits without it", *rule.Scale)
		}
		return "an integer of 64 bits"
	default:
		return "a number"
	}
}
