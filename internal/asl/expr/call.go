package expr

import (
	"encoding/json"
	"fmt"
	"strings"
)

// IntrinsicError says why an intrinsic function failed.
type IntrinsicError struct {
	Call string
	Err  error
}

// Error names the call.
func (e *IntrinsicError) Error() string { return fmt.Sprintf("%s: %v", e.Call, e.Err) }

// Unwrap returns the reason.
func (e *IntrinsicError) Unwrap() error { return e.Err }

// Call is a call of an intrinsic function.
type Call struct {
	text string
	name string
	fn   intrinsic
	args []argument
}

// argument is a path, a call, or a literal.
type argument struct {
	expr    Expr
	literal any
	raw     string // of a string literal: its text with the escapes in it
}

// ParseCall parses a call such as States.Format('{} of {}', $.i, $.n).
func ParseCall(s string) (*Call, error) {
	c, rest, err := parseCall(s, 0)
	if err != nil {
		return nil, fmt.Errorf("expression %q: %w", s, err)
	}
	if rest = strings.TrimSpace(rest); rest != "" {
		return nil, fmt.Errorf("expression %q: unexpected %q", s, rest)
	}
	return c, nil
}

// maxNesting is how deep Step Functions lets calls be nested.
const maxNesting = 10

func parseCall(s string, depth int) (*Call, string, error) {
	if depth > maxNesting {
		return nil, "", fmt.Errorf("calls are nested more than %d deep", maxNesting)
	}
	s = strings.TrimSpace(s)
	name, rest, ok := strings.Cut(s, "(")
	name = strings.TrimSpace(name)
	if !ok || !strings.HasPrefix(name, "States.") {
		return nil, "", fmt.Errorf("neither a path ($…) nor an intrinsic function (States.…)")
	}
	f, ok := intrinsics[name]
	if !ok {
		return nil, "", fmt.Errorf("there is no intrinsic function %s", name)
	}
	c := &Call{name: name, fn: f.eval}
	rest = strings.TrimSpace(rest)
	for !strings.HasPrefix(rest, ")") {
		if len(c.args) > 0 {
			if rest, ok = strings.CutPrefix(rest, ","); !ok {
				return nil, "", fmt.Errorf("%s: expected , or ) before %q", name, rest)
			}
		}
		arg, r, err := parseArgument(strings.TrimSpace(rest), depth)
		if err != nil {
			return nil, "", err
		}
		c.args = append(c.args, arg)
		rest = strings.TrimSpace(r)
	}
	rest = rest[1:]
	if len(c.args) < f.min || f.max >= 0 && len(c.args) > f.max {
		return nil, "", fmt.Errorf("%s does not take %d arguments", name, len(c.args))
	}
	c.text = s[:len(s)-len(rest)]
	return c, rest, nil
}

func parseArgument(s string, depth int) (argument, string, error) {
	switch {
	case strings.HasPrefix(s, "$"):
		p, rest, err := parsePath(s)
		return argument{expr: p}, rest, err
	case strings.HasPrefix(s, "'"):
		for i := 1; i < len(s); i++ {
			switch s[i] {
			case '\\':
				i++
			case '\'':
				raw := s[1:i]
				return argument{literal: unescape(raw), raw: raw}, s[i+1:], nil
			}
		}
		return argument{}, "", fmt.Errorf("%q has no closing quote", s)
	case strings.HasPrefix(s, "States."):
		c, rest, err := parseCall(s, depth+1)
		return argument{expr: c}, rest, err
	}
	end := strings.IndexAny(s, ",)")
	if end < 0 {
		return argument{}, "", fmt.Errorf("%q has no closing parenthesis", s)
	}
	v, err := Decode([]byte(s[:end]))
	if err != nil {
		return argument{}, "", fmt.Errorf("%q is no argument: expected a path, a function, '…', a number, true, false or null", s[:end])
	}
	switch v.(type) {
	case nil, bool, json.Number:
		return argument{literal: v}, s[end:], nil
	}
	return argument{}, "", fmt.Errorf("%q is no argument: strings are in single quotes", s[:end])
}

// unescape removes the backslashes that escape ', {, } and \ in a literal.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte(`'{}\`, s[i+1]) >= 0 {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// String returns the call as it was written.
func (c *Call) String() string { return c.text }

// Eval evaluates the arguments and calls the function.
func (c *Call) Eval(env *Env) (any, error) {
	args := make([]any, len(c.args))
	for i, arg := range c.args {
		args[i] = arg.literal
		if arg.expr == nil {
			continue
		}
		v, err := arg.expr.Eval(env)
		if err != nil {
			return nil, err
		}
		args[i] = v
	}
	if c.name == "States.Format" && c.args[0].expr == nil {
		args[0] = c.args[0].raw // its escapes tell { from a placeholder
	}
	v, err := c.fn(args, env)
	if err != nil {
		return nil, &IntrinsicError{c.text, err}
	}
	return v, nil
}
