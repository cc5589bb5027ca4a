// Package expr evaluates the expressions of the Amazon States Language's JSONPath
// form: paths, reference paths, intrinsic functions and payload templates.
//
// Values are what encoding/json makes of JSON with UseNumber: nil, bool, json.Number,
// string, []any and map[string]any. They are never changed in place, so results may
// share parts with their inputs.
package expr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"strconv"
)

// Decode parses one JSON value, keeping numbers as they are written.
func Decode(b []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("decode JSON: more than one value")
	}
	return v, nil
}

// Encode writes a value as compact JSON with sorted keys.
func Encode(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode JSON: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// Compare orders two numbers by value: -1, 0 or 1.
func Compare(a, b json.Number) int {
	x, errX := strconv.ParseInt(string(a), 10, 64)
	y, errY := strconv.ParseInt(string(b), 10, 64)
	if errX == nil && errY == nil {
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	}
	return toFloat(a).Cmp(toFloat(b))
}

// toFloat keeps 256 bits: more than any number that JSON writers produce.
func toFloat(n json.Number) *big.Float {
	f, _, err := big.ParseFloat(string(n), 10, 256, big.ToNearestEven)
	if f == nil || (err != nil && !f.IsInf()) {
		return new(big.Float)
	}
	return f
}

// Int returns a number's value if it is an integer that fits.
func Int(n json.Number) (int64, bool) {
	if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return i, true
	}
	f := toFloat(n)
	if !f.IsInt() {
		return 0, false
	}
	i, acc := f.Int64()
	return i, acc == big.Exact
}

// Equal compares two values; numbers by value, objects without order.
func Equal(a, b any) bool {
	switch x := a.(type) {
	case json.Number:
		y, ok := b.(json.Number)
		return ok && Compare(x, y) == 0
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !Equal(x[i], y[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			w, ok := y[k]
			if !ok || !Equal(v, w) {
				return false
			}
		}
		return true
	default:
		switch b.(type) {
		case []any, map[string]any:
			return false
		}
		return a == b
	}
}

// Number returns an integer as a value.
func Number(i int64) json.Number { return json.Number(strconv.FormatInt(i, 10)) }
