package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"hindcast/internal/unit"
)

// usage is what a process took.
type usage struct {
	Wall time.Duration
	CPU  time.Duration // user and system
	Peak unit.Bytes    // resident memory
}

// command is a process to run.
type command struct {
	dir   string
	env   []string
	args  []string
	stdin string
}

// run runs the command to its end. An error has what it wrote to standard error.
func (c command) run(ctx context.Context) (usage, []byte, error) {
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	var out, talk bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.dir, strings.NewReader(c.stdin), &out, &talk
	cmd.Env = append(cmd.Environ(), c.env...)
	begin := time.Now()
	err := cmd.Run()
	u := usage{Wall: time.Since(begin)}
	if err != nil {
		return u, nil, fmt.Errorf("%s: %w\n%s", strings.Join(c.args, " "), err, strings.TrimSpace(talk.String()))
	}
	u.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.Peak = unit.Bytes(r.Maxrss << 10) // kilobytes, on Linux
	}
	return u, out.Bytes(), nil
}
