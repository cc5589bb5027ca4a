package asl

import (
	"context"

	"hindcast/internal/asl/expr"
)

// passState is a Pass state.
type passState struct {
	common
	parameters *expr.Template
	result     any
	hasResult  bool
	resultPath resultPath
}

func loadPass(c common, f *fields) state {
	st := &passState{common: c}
	st.parameters = f.template("Parameters")
	st.result, st.hasResult = f.get("Result")
	st.resultPath = f.resultPath()
	return st
}

func (st *passState) run(_ context.Context, f *frame) (exit, error) {
	result, err := f.selectPath(st.input, f.raw)
	if err != nil {
		return exit{}, err
	}
	switch {
	case st.hasResult:
		result = st.result
	case st.parameters != nil:
		if result, err = f.fill(st.parameters, result); err != nil {
			return exit{}, err
		}
	}
	return f.combine(result, nil, st.resultPath)
}
