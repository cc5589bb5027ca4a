package main

import (
	"context"
	"errors"
	"io"
)

type remote struct{}

func (r *report) printRemote(io.Writer) {}

func (b *bench) latency(ctx context.Context, c measured, written string, report *report) error {
	return errors.New("later")
}
