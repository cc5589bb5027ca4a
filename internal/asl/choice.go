package asl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"hindcast/internal/asl/expr"
)

// choiceState is a Choice state.
type choiceState struct {
	common
	rules    []rule
	fallback string // Default
}

// rule is a top-level rule: a condition and where it leads.
type rule struct {
	condition
	next   string
	assign *expr.Template
}

// condition is And, Or, Not, or a comparison.
type condition struct {
	and, or  []condition
	not      *condition
	variable *expr.Path
	operator string
	compare  comparator
	operand  any        // the value to compare with
	path     *expr.Path // or where it is
}

// comparator compares a variable with an operand; values of the wrong type do not match.
type comparator func(v, operand any) bool

func loadChoice(c common, f *fields) state {
	st := &choiceState{common: c}
	rules, ok := f.objects("Choices")
	if !ok && !f.has("Choices") || ok && len(rules) == 0 {
		f.problem("Choices", "needs a rule")
	}
	for _, r := range rules {
		loaded := rule{condition: loadCondition(r)}
		loaded.next, _ = r.required("Next")
		loaded.assign = r.assign()
		r.done()
		st.rules = append(st.rules, loaded)
	}
	st.fallback, _ = f.text("Default")
	return st
}

func (st *choiceState) targets() []target {
	out := []target{{"", "Default", st.fallback}}
	for i, r := range st.rules {
		out = append(out, target{fmt.Sprintf("/Choices/%d", i), "Next", r.next})
	}
	return out
}

func loadCondition(f *fields) condition {
	var c condition
	var found []string
	for _, name := range []string{"And", "Or"} {
		list, ok := f.objects(name)
		if !ok {
			continue
		}
		found = append(found, name)
		if len(list) == 0 {
			f.problem(name, "must not be empty")
		}
		var inner []condition
		for _, e := range list {
			inner = append(inner, loadCondition(e))
			e.done()
		}
		if name == "And" {
			c.and = inner
		} else {
			c.or = inner
		}
	}
	if e, ok := f.object("Not"); ok {
		found = append(found, "Not")
		inner := loadCondition(e)
		e.done()
		c.not = &inner
	}
	for name := range f.values {
		operator, byPath := strings.CutSuffix(name, "Path")
		compare, ok := comparators[operator]
		if !ok || byPath && (strings.HasPrefix(name, "Is") || operator == "StringMatches") {
			continue
		}
		found = append(found, name)
		c.operator, c.compare = operator, compare
		if byPath {
			c.path = f.pathOf(name)
		} else {
			c.operand, _ = f.get(name)
			if want := operandKind(operator); !want.holds(c.operand) {
				f.problem(name, "must be %s", want.name)
			}
		}
	}
	if c.compare != nil {
		if s, ok := f.required("Variable"); ok {
			p, err := expr.ParsePath(s)
			if err != nil {
				f.problem("Variable", "%v", err)
			}
			c.variable = p
		}
	}
	if len(found) != 1 {
		f.problem("", "needs one of And, Or, Not and a comparison; it has %d", len(found))
	}
	return c
}

type kind struct {
	name  string
	holds func(v any) bool
}

// operandKind is what an operator may be compared with in a definition.
func operandKind(operator string) kind {
	switch {
	case strings.HasPrefix(operator, "String"):
		return kind{"a string", func(v any) bool { _, ok := v.(string); return ok }}
	case strings.HasPrefix(operator, "Numeric"):
		return kind{"a number", func(v any) bool { _, ok := v.(json.Number); return ok }}
	case strings.HasPrefix(operator, "Timestamp"):
		return kind{"a time such as 2006-01-02T15:04:05Z", func(v any) bool { _, ok := asTime(v); return ok }}
	}
	return kind{"true or false", func(v any) bool { _, ok := v.(bool); return ok }}
}

func asTime(v any) (time.Time, bool) {
	s, ok := v.(string)
	if !ok {
		return time.Time{}, false
	}
	return parseTime(s)
}

// ordered makes the comparator of values of one type.
func ordered[T any](as func(any) (T, bool), compare func(a, b T) int, accept func(int) bool) comparator {
	return func(v, operand any) bool {
		a, okA := as(v)
		b, okB := as(operand)
		return okA && okB && accept(compare(a, b))
	}
}

func is[T any](v any) (T, bool) { t, ok := v.(T); return t, ok }

// typed makes the comparator of an Is operator.
func typed(holds func(v any) bool) comparator {
	return func(v, operand any) bool { return holds(v) == (operand == true) }
}

var comparators = func() map[string]comparator {
	m := map[string]comparator{
		"BooleanEquals": func(v, operand any) bool {
			a, okA := v.(bool)
			b, okB := operand.(bool)
			return okA && okB && a == b
		},
		"StringMatches": func(v, operand any) bool {
			s, okS := v.(string)
			pattern, okP := operand.(string)
			return okS && okP && wildcard(pattern, s)
		},
		"IsBoolean":   typed(func(v any) bool { _, ok := v.(bool); return ok }),
		"IsNull":      typed(func(v any) bool { return v == nil }),
		"IsNumeric":   typed(func(v any) bool { _, ok := v.(json.Number); return ok }),
		"IsPresent":   typed(func(any) bool { return true }),
		"IsString":    typed(func(v any) bool { _, ok := v.(string); return ok }),
		"IsTimestamp": typed(func(v any) bool { _, ok := asTime(v); return ok }),
	}
	for suffix, accept := range map[string]func(int) bool{
		"Equals":            func(c int) bool { return c == 0 },
		"LessThan":          func(c int) bool { return c < 0 },
		"LessThanEquals":    func(c int) bool { return c <= 0 },
		"GreaterThan":       func(c int) bool { return c > 0 },
		"GreaterThanEquals": func(c int) bool { return c >= 0 },
	} {
		m["String"+suffix] = ordered(is[string], cmp.Compare[string], accept)
		m["Numeric"+suffix] = ordered(is[json.Number], expr.Compare, accept)
		m["Timestamp"+suffix] = ordered(asTime, time.Time.Compare, accept)
	}
	return m
}()

// wildcard matches a StringMatches pattern: * stands for any text, \* for a star and \\
// for a backslash.
func wildcard(pattern, s string) bool {
	var parts []string // the texts between the stars
	var part strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			i++
			part.WriteByte(pattern[i])
		case c == '*':
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteByte(c)
		}
	}
	last := part.String()
	if len(parts) == 0 {
		return s == last
	}
	s, ok := strings.CutPrefix(s, parts[0])
	if !ok {
		return false
	}
	for _, p := range parts[1:] {
		_, after, ok := strings.Cut(s, p)
		if !ok {
			return false
		}
		s = after
	}
	return strings.HasSuffix(s, last)
}

func (st *choiceState) run(_ context.Context, f *frame) (exit, error) {
	input, err := f.selectPath(st.input, f.raw)
	if err != nil {
		return exit{}, err
	}
	for i := range st.rules {
		r := &st.rules[i]
		ok, err := f.holds(&r.condition, input)
		if err != nil {
			return exit{}, err
		}
		if ok {
			return f.choose(input, r.next, r.assign)
		}
	}
	if st.fallback == "" {
		return exit{}, &Error{errNoChoice, f.where() + "Failed to transition out of the state. The state's Choices do not match, and it has no Default."}
	}
	return f.choose(input, st.fallback, st.assign)
}

func (f *frame) choose(input any, next string, assign *expr.Template) (exit, error) {
	assigned, err := f.assigned(assign, input)
	if err != nil {
		return exit{}, err
	}
	out, err := f.selectPath(f.state.output, input)
	return exit{output: out, next: next, assigned: assigned}, err
}

func (f *frame) holds(c *condition, input any) (bool, error) {
	switch {
	case c.and != nil:
		for i := range c.and {
			if ok, err := f.holds(&c.and[i], input); err != nil || !ok {
				return false, err
			}
		}
		return true, nil
	case c.or != nil:
		for i := range c.or {
			if ok, err := f.holds(&c.or[i], input); err != nil || ok {
				return ok, err
			}
		}
		return false, nil
	case c.not != nil:
		ok, err := f.holds(c.not, input)
		return !ok, err
	}
	v, err := c.variable.Eval(f.env(input))
	if err != nil {
		var missing *expr.NotFoundError
		if c.operator == "IsPresent" && errors.As(err, &missing) {
			return c.operand == false, nil
		}
		return false, f.runtime("Invalid path '%s': The choice state's condition path references an invalid value.", c.variable)
	}
	operand := c.operand
	if c.path != nil {
		if operand, err = f.eval(c.path, c.operator+"Path", input); err != nil {
			return false, err
		}
	}
	return c.compare(v, operand), nil
}
