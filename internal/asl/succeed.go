package asl

import "context"

// succeedState is a Succeed state.
type succeedState struct{ common }

func loadSucceed(c common, _ *fields) state { return &succeedState{c} }

func (st *succeedState) targets() []target { return nil }

func (st *succeedState) run(_ context.Context, f *frame) (exit, error) {
	input, err := f.selectPath(st.input, f.raw)
	if err != nil {
		return exit{}, err
	}
	return f.pass(input)
}
