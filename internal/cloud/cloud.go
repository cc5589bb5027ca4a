// Package cloud runs one state of a run as an AWS Lambda function: it puts together the environment that
// package step needs from the function's, and nothing else.
package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/messages"

	"hindcast/internal/blob/openblob"
	"hindcast/internal/job"
	"hindcast/internal/source/brokers"
	"hindcast/internal/spec"
	"hindcast/internal/step"
	"hindcast/internal/unit"
)

// lapEnd is how long before the function's deadline a worker stores its state, of a time that is five times as long or longer.
const lapEnd = 60 * time.Second

// Program is the digest of the source that the functions were built from, the same for all of them. The
// deployment's build sets it: -ldflags "-X hindcast/internal/cloud.Program=…".
var Program string

// Start serves one state to the Lambda runtime. It does not return.
//
// The environment's HINDCAST_WORKSPACE is the workspace, as s3://bucket/prefix; relative locations of jobs lie
// under HINDCAST_ROOT. Errors reach the state machine by their names; see [step.Error].
func Start(state step.State, jobs []job.Job) {
	step.TuneCollector()
	if m, err := memory(os.LookupEnv); err == nil && m > 0 { // what is wrong with it each call says
		debug.SetMemoryLimit(int64(m) * 7 / 8) // the collector works harder before the function would be killed
	}
	lambda.Start(Handler(state, jobs, os.LookupEnv))
}

// Handler is the function of one state.
func Handler(state step.State, jobs []job.Job, getenv func(string) (string, bool)) func(context.Context, json.RawMessage) (json.RawMessage, error) {
	return func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
		env, err := environment(ctx, jobs, getenv)
		if err != nil {
			return nil, messages.InvokeResponse_Error{Type: step.Failed, Message: err.Error()}
		}
		if deadline, ok := ctx.Deadline(); ok {
			env.LapEnd = min(lapEnd, time.Until(deadline)/5)
		}
		out, err := env.Run(ctx, state, in)
		if named, ok := errors.AsType[*step.Error](err); ok {
			return nil, messages.InvokeResponse_Error{Type: named.Name, Message: named.Error()}
		}
		return out, err
	}
}

func environment(ctx context.Context, jobs []job.Job, getenv func(string) (string, bool)) (*step.Env, error) {
	workspace, _ := getenv("HINDCAST_WORKSPACE")
	workspace = strings.TrimRight(workspace, "/")
	if workspace == "" {
		return nil, errors.New("HINDCAST_WORKSPACE is not set: it names the workspace, as s3://bucket/prefix")
	}
	root, _ := getenv("HINDCAST_ROOT")
	store, err := openblob.Open(ctx, workspace)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	program := Program
	if p, ok := getenv(step.ProgramVariable); ok {
		program = p
	}
	env := &step.Env{
		Jobs:      jobs,
		Workspace: store,
		Open:      openblob.Open,
		Datasets:  workspace + "/datasets",
		Root:      root,
		Program:   func() (string, error) { return program, nil },
		Now:       time.Now,
	}
	if env.WorkerMemory, err = memory(getenv); err != nil {
		return nil, err
	}
	env.Brokers = func(_ context.Context, tail *spec.Tail, _ string) (brokers.Access, error) {
		addrs, err := tail.Addrs(getenv)
		if err == nil && strings.HasPrefix(addrs[0], spec.Embedded) {
			if at, ok := getenv(step.EmbeddedVariable); ok {
				return brokers.At(strings.Split(at, ",")...), nil
			}
			err = fmt.Errorf("brokers %s: only samples and tests on one machine have an embedded broker", addrs[0])
		}
		if err != nil {
			return brokers.Access{}, err
		}
		return brokers.Resolve(tail, addrs, getenv, env.Locate)
	}
	return env, nil
}

// memory is how much the function has, 0 where that is not said.
func memory(getenv func(string) (string, bool)) (unit.Bytes, error) {
	mb, ok := getenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE")
	if !ok {
		return 0, nil
	}
	n, err := strconv.ParseInt(mb, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("AWS_LAMBDA_FUNCTION_MEMORY_SIZE: %w", err)
	}
	return unit.Bytes(n << 20), nil
}
