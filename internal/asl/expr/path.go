package expr

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"unicode"

	"github.com/theory/jsonpath"
)

// Env is what an expression can refer to.
type Env struct {
	Input   any                           // $
	Context func() any                    // $$
	Var     func(name string) (any, bool) // $name; nil: there are no variables
	// Random returns 64 random bits, for MathRandom without a seed and for UUID.
	Random func() uint64
}

// NotFoundError says that a path leads nowhere.
type NotFoundError struct{ Path string }

// Error names the path.
func (e *NotFoundError) Error() string {
	return fmt.Sprintf("the JSONPath '%s' could not be found in the input", e.Path)
}

type segment struct {
	name   string // member, if index is nil
	index  *int   // element; negative counts from the end
	length bool   // the function .length()
}

// Path is a parsed path: $, $$ or $variable, followed by segments. A path that always
// denotes at most one value is definite; any other evaluates to the array of its matches.
type Path struct {
	text     string
	root     string // "$", "$$", or "$" and the variable's name
	segments []segment
	query    *jsonpath.Path // the segments, if they are not definite
}

// String returns the path as it was written.
func (p *Path) String() string { return p.text }

// Definite reports whether the path denotes at most one value.
func (p *Path) Definite() bool { return p.query == nil }

// Root returns "$", "$$" or "$" and the variable's name.
func (p *Path) Root() string { return p.root }

// ParsePath parses a path.
func ParsePath(s string) (*Path, error) {
	p, rest, err := parsePath(s)
	if err != nil {
		return nil, fmt.Errorf("path %q: %w", s, err)
	}
	if rest != "" {
		return nil, fmt.Errorf("path %q: unexpected %q", s, rest)
	}
	return p, nil
}

// parsePath parses the path that s begins with and returns what follows it.
func parsePath(s string) (*Path, string, error) {
	p := &Path{}
	rest, ok := strings.CutPrefix(s, "$")
	if !ok {
		return nil, "", fmt.Errorf("a path begins with $")
	}
	p.root = "$"
	if r, ok := strings.CutPrefix(rest, "$"); ok {
		p.root, rest = "$$", r
	} else if n := identifier(rest); n > 0 {
		p.root, rest = "$"+rest[:n], rest[n:]
	}
	var query strings.Builder // the path in RFC 9535 syntax
	query.WriteByte('$')
	definite := true
	for {
		switch {
		case strings.HasPrefix(rest, ".."):
			definite = false
			rest = rest[2:]
			query.WriteString("..")
			if n := nameLength(rest); n > 0 {
				writeName(&query, rest[:n])
				rest = rest[n:]
			} else if strings.HasPrefix(rest, "*") {
				query.WriteString("[*]")
				rest = rest[1:]
			} else if !strings.HasPrefix(rest, "[") {
				return nil, "", fmt.Errorf("nothing follows the two dots")
			}
		case strings.HasPrefix(rest, ".*"):
			definite = false
			rest = rest[2:]
			query.WriteString("[*]")
		case strings.HasPrefix(rest, "."):
			n := nameLength(rest[1:])
			if n == 0 {
				return nil, "", fmt.Errorf("no name follows the dot in %q", rest)
			}
			name := rest[1 : 1+n]
			rest = rest[1+n:]
			if r, ok := strings.CutPrefix(rest, "()"); ok {
				if name != "length" || strings.HasPrefix(r, ".") || strings.HasPrefix(r, "[") {
					return nil, "", fmt.Errorf("the function %s() is not supported here", name)
				}
				p.segments = append(p.segments, segment{length: true})
				rest = r
				break
			}
			p.segments = append(p.segments, segment{name: name})
			writeName(&query, name)
		case strings.HasPrefix(rest, "["):
			n, err := bracketLength(rest)
			if err != nil {
				return nil, "", err
			}
			inner := strings.TrimSpace(rest[1 : n-1])
			rest = rest[n:]
			if i, err := strconv.Atoi(inner); err == nil {
				p.segments = append(p.segments, segment{index: &i})
				fmt.Fprintf(&query, "[%d]", i)
			} else if name, ok := quotedName(inner); ok {
				p.segments = append(p.segments, segment{name: name})
				writeName(&query, name)
			} else {
				definite = false
				query.WriteString("[" + inner + "]")
			}
		default:
			p.text = s[:len(s)-len(rest)]
			if definite {
				return p, rest, nil
			}
			for _, seg := range p.segments {
				if seg.length {
					return nil, "", fmt.Errorf("length() applies to a path that denotes one value")
				}
			}
			q, err := jsonpath.Parse(query.String())
			if err != nil {
				return nil, "", err
			}
			p.segments, p.query = nil, q
			return p, rest, nil
		}
	}
}

// identifier returns the length of the variable name that s begins with.
func identifier(s string) int {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return i
		}
	}
	return len(s)
}

// nameLength returns the length of the member name that s begins with. Step Functions
// takes more than RFC 9535: hyphens, leading digits and so on.
func nameLength(s string) int {
	if n := strings.IndexFunc(s, func(r rune) bool {
		return strings.ContainsRune(".[]()'\"`,*?@\\", r) || unicode.IsSpace(r)
	}); n >= 0 {
		return n
	}
	return len(s)
}

// bracketLength returns the length of the bracket that s begins with.
func bracketLength(s string) (int, error) {
	depth := 0
	var quote byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '[':
			depth++
		case c == ']':
			if depth--; depth == 0 {
				return i + 1, nil
			}
		}
	}
	return 0, fmt.Errorf("%q has no closing bracket", s)
}

// quotedName parses a single quoted name: 'a' or "a".
func quotedName(s string) (string, bool) {
	if len(s) < 2 || (s[0] != '\'' && s[0] != '"') || s[len(s)-1] != s[0] {
		return "", false
	}
	var b strings.Builder
	for i := 1; i < len(s)-1; i++ {
		switch s[i] {
		case s[0]:
			return "", false // the quote ends before: a list of names
		case '\\':
			if i++; i == len(s)-1 {
				return "", false
			}
			if s[i] != s[0] && s[i] != '\\' {
				return "", false
			}
		}
		b.WriteByte(s[i])
	}
	return b.String(), true
}

// writeName writes a member as RFC 9535 has it in brackets.
func writeName(b *strings.Builder, name string) {
	quoted, err := json.Marshal(name)
	if err != nil { // a string always encodes
		return
	}
	b.WriteByte('[')
	b.Write(quoted)
	b.WriteByte(']')
}

// Eval returns the value that the path denotes, or a [NotFoundError].
func (p *Path) Eval(env *Env) (any, error) {
	var v any
	switch p.root {
	case "$":
		v = env.Input
	case "$$":
		v = env.Context()
	default:
		ok := false
		if env.Var != nil {
			v, ok = env.Var(p.root[1:])
		}
		if !ok {
			return nil, &NotFoundError{p.text}
		}
	}
	if p.query != nil {
		matches := []any(p.query.Select(v))
		if matches == nil {
			matches = []any{}
		}
		return matches, nil
	}
	for _, seg := range p.segments {
		next, ok := seg.get(v)
		if !ok {
			return nil, &NotFoundError{p.text}
		}
		v = next
	}
	return v, nil
}

func (seg *segment) get(v any) (any, bool) {
	switch {
	case seg.length:
		switch v := v.(type) {
		case []any:
			return Number(int64(len(v))), true
		case map[string]any:
			return Number(int64(len(v))), true
		case string:
			return Number(int64(len([]rune(v)))), true
		}
		return nil, false
	case seg.index != nil:
		list, ok := v.([]any)
		i := *seg.index
		if i < 0 {
			i += len(list)
		}
		if !ok || i < 0 || i >= len(list) {
			return nil, false
		}
		return list[i], true
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, false
	}
	member, ok := object[seg.name]
	return member, ok
}

// Reference is a reference path, as ResultPath has: $ and members or elements only.
type Reference struct{ path *Path }

// String returns the path as it was written.
func (r *Reference) String() string { return r.path.text }

// ParseReference parses a reference path.
func ParseReference(s string) (*Reference, error) {
	p, err := ParsePath(s)
	if err != nil {
		return nil, err
	}
	if p.root != "$" || !p.Definite() {
		return nil, fmt.Errorf("path %q: a reference path has only members and elements of $", s)
	}
	for _, seg := range p.segments {
		if seg.length || seg.index != nil && *seg.index < 0 {
			return nil, fmt.Errorf("path %q: a reference path has only members and elements of $", s)
		}
	}
	return &Reference{p}, nil
}

// Set returns doc with the value at the path. Missing objects on the way are made; what
// is there and cannot hold the rest of the path is an error.
func (r *Reference) Set(doc, value any) (any, error) {
	out, ok := set(doc, true, r.path.segments, value)
	if !ok {
		return nil, fmt.Errorf("the reference path %q cannot be applied to the input", r.path.text)
	}
	return out, nil
}

func set(doc any, exists bool, segments []segment, value any) (any, bool) {
	if len(segments) == 0 {
		return value, true
	}
	seg := segments[0]
	if seg.index != nil {
		list, ok := doc.([]any)
		if !ok || *seg.index >= len(list) {
			return nil, false
		}
		element, ok := set(list[*seg.index], true, segments[1:], value)
		if !ok {
			return nil, false
		}
		out := append([]any(nil), list...)
		out[*seg.index] = element
		return out, true
	}
	object, ok := doc.(map[string]any)
	if !ok && exists {
		return nil, false
	}
	old, had := object[seg.name]
	member, ok := set(old, had, segments[1:], value)
	if !ok {
		return nil, false
	}
	out := make(map[string]any, len(object)+1)
	maps.Copy(out, object)
	out[seg.name] = member
	return out, true
}
