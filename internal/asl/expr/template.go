package expr

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Expr is an expression: a path, or a call of an intrinsic function.
type Expr interface {
	// Eval returns the value, or a [NotFoundError] or an [IntrinsicError].
	Eval(env *Env) (any, error)
	String() string
}

// Parse parses a path or a call.
func Parse(s string) (Expr, error) {
	if strings.HasPrefix(s, "$") {
		return ParsePath(s)
	}
	return ParseCall(s)
}

// Problem is what is wrong at a place within a template.
type Problem struct {
	Path string // below the template, as /name/0
	Text string
}

// Template is a payload template: JSON in which the members whose names end in ".$" are
// replaced by what their expressions evaluate to.
type Template struct {
	literal any // if all others are unset
	expr    Expr
	list    []Template
	object  map[string]Template
	field   string // of an expression: the member's name, for messages
}

// ParseTemplate compiles a template, reporting every problem.
func ParseTemplate(v any) (Template, []Problem) {
	return parseTemplate(v, "")
}

func parseTemplate(v any, path string) (Template, []Problem) {
	var problems []Problem
	switch v := v.(type) {
	case []any:
		list := make([]Template, len(v))
		for i, element := range v {
			t, p := parseTemplate(element, fmt.Sprintf("%s/%d", path, i))
			list[i] = t
			problems = append(problems, p...)
		}
		return Template{list: list}, problems
	case map[string]any:
		object := make(map[string]Template, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			member := v[key]
			at := path + "/" + key
			name, dynamic := strings.CutSuffix(key, ".$")
			if !dynamic {
				t, p := parseTemplate(member, at)
				object[key] = t
				problems = append(problems, p...)
				continue
			}
			text, ok := member.(string)
			if !ok {
				problems = append(problems, Problem{at, "must be a string that is a path or an intrinsic function"})
				continue
			}
			e, err := Parse(text)
			if err != nil {
				problems = append(problems, Problem{at, err.Error()})
				continue
			}
			if _, twice := v[name]; twice {
				problems = append(problems, Problem{at, fmt.Sprintf("there is %q as well", name)})
			}
			object[name] = Template{expr: e, field: key}
		}
		return Template{object: object}, problems
	}
	return Template{literal: v}, nil
}

// Eval fills the template in.
func (t *Template) Eval(env *Env) (any, error) {
	switch {
	case t.expr != nil:
		v, err := t.expr.Eval(env)
		if err != nil {
			return nil, fmt.Errorf("field '%s': %w", t.field, err)
		}
		return v, nil
	case t.list != nil:
		out := make([]any, len(t.list))
		for i := range t.list {
			v, err := t.list[i].Eval(env)
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
		return out, nil
	case t.object != nil:
		out := make(map[string]any, len(t.object))
		for name, member := range t.object {
			v, err := member.Eval(env)
			if err != nil {
				return nil, err
			}
			out[name] = v
		}
		return out, nil
	}
	return t.literal, nil
}

// Paths calls visit with every path in the template, arguments of calls included. t may be nil.
func (t *Template) Paths(visit func(*Path)) {
	if t == nil {
		return
	}
	switch e := t.expr.(type) {
	case *Path:
		visit(e)
	case *Call:
		e.paths(visit)
	}
	for _, member := range t.object {
		member.Paths(visit)
	}
	for i := range t.list {
		t.list[i].Paths(visit)
	}
}

func (c *Call) paths(visit func(*Path)) {
	for _, arg := range c.args {
		switch e := arg.expr.(type) {
		case *Path:
			visit(e)
		case *Call:
			e.paths(visit)
		}
	}
}

// Static returns a member of an object template if it is a literal; t may be nil.
func (t *Template) Static(name string) (any, bool) {
	if t == nil {
		return nil, false
	}
	member, ok := t.object[name]
	if !ok || member.expr != nil || member.list != nil || member.object != nil {
		return nil, false
	}
	return member.literal, true
}

// Has reports whether an object template has a member of the name.
func (t *Template) Has(name string) bool {
	_, ok := t.object[name]
	return ok
}

// Names returns the sorted member names of an object template; ok is false if it is none.
func (t *Template) Names() (names []string, ok bool) {
	if t.object == nil {
		return nil, false
	}
	for name := range t.object {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, true
}
