package payload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// members calls fn with each member of a JSON object, in order: its name and
// its value's text. It is exact where the standard library is lenient: a string that is
// not UTF-8 or has half a surrogate pair is an error, as it would be read as another one.
func members(raw []byte, fn func(name, value []byte) error) error {
	if !json.Valid(raw) {
		var v json.RawMessage
		return fmt.Errorf("the value is no JSON: %w", json.Unmarshal(raw, &v))
	}
	s := scanner{raw}
	s.space()
	if s.rest[0] != '{' {
		return fmt.Errorf("the value is %s, expected an object", describeJSON(s.rest))
	}
	s.rest = s.rest[1:]
	for {
		if s.space(); s.rest[0] == '}' {
			return nil
		}
		name, err := unquote(s.value())
		if err != nil {
			return fmt.Errorf("a member's name: %w", err)
		}
		s.space() // a colon follows
		s.rest = s.rest[1:]
		s.space()
		if err := fn(name, s.value()); err != nil {
			return err
		}
		if s.space(); s.rest[0] == ',' {
			s.rest = s.rest[1:]
		}
	}
}

// scanner takes values off a text that is known to be valid JSON.
type scanner struct{ rest []byte }

func (s *scanner) space() {
	for s.rest[0] == ' ' || s.rest[0] == '\n' || s.rest[0] == '\t' || s.rest[0] == '\r' {
		s.rest = s.rest[1:]
	}
}

// value takes the next value.
func (s *scanner) value() []byte {
	start := s.rest
	depth := 0
	for {
		switch s.rest[0] {
		case '"':
			s.str()
		case '{', '[':
			depth++
			s.rest = s.rest[1:]
		case '}', ']':
			depth--
			s.rest = s.rest[1:]
		case ',', ':', ' ', '\t', '\r', '\n':
			s.rest = s.rest[1:]
		default:
			n := bytes.IndexAny(s.rest, ",:]} \t\r\n") // of a number, true, false or null
			if n < 0 {
				n = len(s.rest)
			}
			s.rest = s.rest[n:]
		}
		if depth == 0 {
			return start[:len(start)-len(s.rest)]
		}
	}
}

func (s *scanner) str() {
	i := 1
	for ; s.rest[i] != '"'; i++ {
		if s.rest[i] == '\\' {
			i++
		}
	}
	s.rest = s.rest[i+1:]
}

var (
	errNotUTF8   = errors.New("the string is not UTF-8")
	errSurrogate = errors.New("the string has half of a surrogate pair")
)

// unquote reads a valid JSON string. The result may be a part of raw.
func unquote(raw []byte) ([]byte, error) {
	if !utf8.Valid(raw) {
		return nil, errNotUTF8
	}
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner, nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	// The library reads half a pair as U+FFFD, which may also stand there by itself.
	const replacement = "\uFFFD"
	if n := strings.Count(s, replacement); n > 0 {
		if n != bytes.Count(inner, []byte(replacement))+countEscaped(inner) {
			return nil, errSurrogate
		}
	}
	return []byte(s), nil
}

// countEscaped counts \ufffd, however it is written.
func countEscaped(inner []byte) int {
	n := 0
	for i := 0; i < len(inner); i++ {
		if inner[i] != '\\' {
			continue
		}
		if i++; inner[i] == 'u' {
			if bytes.EqualFold(inner[i+1:i+5], []byte("fffd")) {
				n++
			}
			i += 4
		}
	}
	return n
}

// describeJSON says what a value is, for errors.
func describeJSON(value []byte) string {
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	const most = 60
	if len(value) > most {
		return string(bytes.ToValidUTF8(value[:most], []byte("\uFFFD"))) + "…"
	}
	return string(bytes.ToValidUTF8(value, []byte("\uFFFD")))
}
