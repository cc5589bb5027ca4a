package local

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"hindcast/internal/asl"
	"hindcast/internal/local/lambda"
	"hindcast/internal/spec"
	"hindcast/internal/step"
	"hindcast/internal/unit"
)

// functions are the binaries that are deployed, and the limits that template.yaml deploys them with.
type functions struct {
	dir     string
	digest  string // of all of them
	timeout time.Duration
	memory  unit.Bytes
}

// UseFunctions has the states of runs that are started or resumed from now on run as Lambda functions, in processes of their own. It builds those of the project as
// they are deployed, but for this machine; it is them whose code such a run goes on with.
func (w *Workspace) UseFunctions(ctx context.Context) error {
	f, err := buildFunctions(ctx, w.opts.Root, filepath.Join(w.dir, "functions"))
	if err != nil {
		return err
	}
	w.functions, w.Env.Program = &f, func() (string, error) { return f.digest, nil }
	return nil
}

// buildFunctions builds the functions of the project at root into a folder under dir that is named by what they are.
func buildFunctions(ctx context.Context, root, dir string) (functions, error) {
	f, err := deployed(root)
	if err != nil {
		return f, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return f, fmt.Errorf("build functions: %w", err)
	}
	fresh, err := os.MkdirTemp(dir, "build-*")
	if err != nil {
		return f, fmt.Errorf("build functions: %w", err)
	}
	defer os.RemoveAll(fresh)
	build := exec.CommandContext(ctx, "go", "build", "-tags", "lambda.norpc", "-trimpath", "-buildvcs=false", "-o", fresh+string(filepath.Separator), "./functions/...")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return f, fmt.Errorf("build functions, by %q in %s: %w\n%s", build.Args, root, err, bytes.TrimSpace(out))
	}
	h := sha256.New()
	for _, s := range step.States() {
		b, err := os.Open(bootstrap(fresh, s))
		if err != nil {
			return f, fmt.Errorf("build functions: %w", err)
		}
		_, err = io.Copy(h, b)
		if err := errors.Join(err, b.Close()); err != nil {
			return f, fmt.Errorf("read function %s: %w", s, err)
		}
	}
	f.digest = hex.EncodeToString(h.Sum(nil))
	f.dir = filepath.Join(dir, f.digest[:16])
	if err := os.Rename(fresh, f.dir); err != nil {
		if _, there := os.Stat(bootstrap(f.dir, step.Work)); there != nil {
			return f, fmt.Errorf("build functions: %w", err)
		}
	}
	return f, nil
}

func bootstrap(dir string, s step.State) string {
	return filepath.Join(dir, strings.ToLower(string(s)))
}

// deployed reads the limits of the project's functions.
func deployed(root string) (functions, error) {
	name := filepath.Join(root, "template.yaml")
	b, err := os.ReadFile(name)
	if err != nil {
		return functions{}, fmt.Errorf("functions are built from Hindcast's source, of which %s is no folder: %w", root, err)
	}
	var t struct {
		Globals struct {
			Function struct {
				Timeout    int `yaml:"Timeout"`
				MemorySize int `yaml:"MemorySize"`
			} `yaml:"Function"`
		} `yaml:"Globals"`
	}
	if err := yaml.Unmarshal(b, &t); err != nil {
		return functions{}, fmt.Errorf("read %s: %w", name, err)
	}
	limits := t.Globals.Function
	if limits.Timeout <= 0 || limits.MemorySize <= 0 {
		return functions{}, fmt.Errorf("read %s: it does not say in Globals.Function what Timeout and MemorySize functions have", name)
	}
	return functions{timeout: time.Duration(limits.Timeout) * time.Second, memory: unit.Bytes(limits.MemorySize) << 20}, nil
}

// start makes the functions callable until the result is closed.
// What they print goes to a file beside the histories of the run.
func (f functions) start(ctx context.Context, w *Workspace, r step.Request, opts RunOptions) (*fleet, error) {
	env := []string{
		"HINDCAST_WORKSPACE=file://" + w.dir, "HINDCAST_ROOT=" + w.opts.Root, step.ProgramVariable + "=" + f.digest,
	}
	if tail := r.Spec.Source.Tail; tail != nil && strings.HasPrefix(tail.Brokers[0], spec.Embedded) {
		access, err := w.access(ctx, tail, r.Spec.Source.Topic)
		if err != nil {
			return nil, err
		}
		env = append(env, step.EmbeddedVariable+"="+strings.Join(access.Addrs, ","))
	}
	dir := w.historyDir(r.Run)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("start functions: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(dir, "functions.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start functions: %w", err)
	}
	out := &fleet{log: log, services: map[string]*lambda.Service{}}
	for _, s := range step.States() {
		limited := lambda.Function{
			Name: string(s), Bootstrap: bootstrap(f.dir, s), Env: env, Log: log,
			Timeout: f.timeout, Memory: f.memory, Concurrency: concurrency,
		}
		if s == step.Work {
			limited.Timeout = cmp.Or(opts.Timeout, f.timeout)
		}
		out.services[string(s)] = lambda.New(limited)
	}
	return out, nil
}

// concurrency is how many environments functions may have, as accounts have it at first. The state machine asks for no more than it is told to.
const concurrency = 1000

// fleet is a service for each state.
type fleet struct {
	services map[string]*lambda.Service
	log      *os.File
}

func (f *fleet) Close() error {
	var errs []error
	for _, s := range f.services {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, f.log.Close())...)
}

// endedLap says which lap a worker that was ended was at, and what would let it get further: it has left nothing, so that the next call begins where it did.
func endedLap(in json.RawMessage, failure *lambda.Error) string {
	advice := ""
	switch failure.Type {
	case lambda.TimedOut:
		advice = ": a lap that comes to no checkpoint leaves nothing. Give calls of workers more time (--worker-timeout, up to " + lambda.MaxTimeout.String() + "), or start a new run with smaller shards (--shard-rows)"
	case lambda.OutOfMemory:
		advice = ": a lap that comes to no checkpoint leaves nothing. Give functions more memory (template.yaml: MemorySize), or start a new run with smaller shards (--shard-rows)"
	case lambda.Exited:
	default:
		return failure.Message // the worker's own, which says what it was at
	}
	lap, err := step.Lap(in)
	if err != nil {
		return failure.Message
	}
	return lap + ": " + failure.Message + advice
}

// runner calls the functions as Step Functions does. A function that was killed gave no type of error, for which its word is Lambda.Unknown:
// https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html.
func (f *fleet) runner(failed *failures) asl.TaskRunner {
	return asl.TaskFunc(func(ctx context.Context, req asl.TaskRequest) (json.RawMessage, error) {
		service := f.services[req.Function]
		if service == nil {
			return nil, asl.FunctionError("Lambda.ResourceNotFoundException", "there is no function "+req.Function)
		}
		call := req.Function + " " + string(req.Payload)
		out, err := service.Invoke(ctx, req.Payload)
		if ctx.Err() != nil {
			return out, err // see failures.runner
		}
		failure, ok := errors.AsType[*lambda.Error](err)
		if !ok {
			if err == nil {
				failed.note(call, nil)
			}
			return out, err
		}
		message := failure.Message
		if req.Function == string(step.Work) {
			message = endedLap(req.Payload, failure)
		}
		failed.note(call, &step.Error{Name: failure.Type, Err: errors.New(message)})
		answer := asl.FunctionError(failure.Type, message)
		if failure.Type == lambda.Exited || failure.Type == lambda.OutOfMemory {
			answer.Name = "Lambda.Unknown"
		}
		return nil, answer
	})
}
