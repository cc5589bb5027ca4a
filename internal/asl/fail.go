package asl

import (
	"context"

	"hindcast/internal/asl/expr"
)

// failState is a Fail state.
type failState struct {
	common
	err, cause text
}

// text is a string that a definition gives by value or by an expression.
type text struct {
	name  string
	value string
	expr  expr.Expr
}

func loadFail(c common, f *fields) state {
	return &failState{c, loadText(f, "Error"), loadText(f, "Cause")}
}

func loadText(f *fields, name string) text {
	t := text{name: name}
	value, given := f.text(name)
	t.value = value
	if s, ok := f.text(name + "Path"); ok {
		if given {
			f.problem(name, "is given by value and by path")
		}
		e, err := expr.Parse(s)
		if err != nil {
			f.problem(name+"Path", "%v", err)
		}
		t.expr = e
	}
	return t
}

func (st *failState) targets() []target { return nil }

func (st *failState) run(_ context.Context, f *frame) (exit, error) {
	name, err := f.text(&st.err)
	if err != nil {
		return exit{}, err
	}
	cause, err := f.text(&st.cause)
	if err != nil {
		return exit{}, err
	}
	return exit{}, &Error{Name: name, Cause: cause}
}

func (f *frame) text(t *text) (string, error) {
	if t.expr == nil {
		return t.value, nil
	}
	v, err := f.eval(t.expr, t.name+"Path", f.raw)
	if err != nil {
		return "", err
	}
	s, ok := v.(string)
	if !ok {
		return "", f.runtime("%sPath refers to a value that is not a string: %s", t.name, t.expr)
	}
	return s, nil
}
