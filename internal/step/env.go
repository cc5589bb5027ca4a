// Package step is what a run does in each state of the state machine: JSON in,
// JSON out, idempotent. Big data travels by key: what a state made lies under
// the run, in the workspace, and a repeated call finds it there.
//
// It alone knows the whole chain from plan to promotion. Orchestrators drive
// it: internal/asl here, AWS Step Functions there; it knows neither.
//
//	runs/<run>/request.json      what was asked for, written once before anything else
//	           plan.json         what is read, with the base version and the plan's digest
//	           tails.jsonl       the topic partitions to capture of, an item a line
//	           captured/         the tail and what tiered storage has, as segments; <partition>.json when one is complete
//	           shards/<id>.json  a worker's share
//	           rounds/           the shards that were to be done next, an item a line; named by their digest
//	           schemas/          what the schema ids of Avro values stood for
//	           parts/<id>/       what a part of a divided shard computed, by table and partition
//	           checkpoints/      where a shard's last lap stopped
//	           cut.json          the list of shards, and what no shard reads
//	           done/<id>.json    what a finished shard made and counted
//	           probe.json        what a probe's shards came to
//	           approvals/        what a person was asked to approve, with the task's token
//	           candidate.json    the manifest that was validated, and what it replaces
//	           etags.json        the ETags under which the checks read the candidate's files
//	           verdict.json      the checks
//	           account.json      what became of every offset of the read range
//	           decision.json     promote or abort, written once
//	           control.json      what people asked of it while it went on
//	           held.json         the shards that stand still because fewer are to be computed at once
package step

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/job"
	"hindcast/internal/payload"
	"hindcast/internal/source/brokers"
	"hindcast/internal/spec"
	"hindcast/internal/unit"
)

// State names a Task state of the state machine.
type State string

// The Task states of infra/backfill.asl.json. Each has a function under functions/.
const (
	Plan     State = "Plan"
	Capture  State = "Capture"
	Shard    State = "Shard"
	Round    State = "Round"
	Work     State = "Work"
	Probe    State = "Probe"
	Approve  State = "Approve" // of the states that wait for a person
	Validate State = "Validate"
	Promote  State = "Promote"
	Rollback State = "Rollback"
)

// States lists the Task states.
func States() []State {
	return []State{Plan, Capture, Shard, Round, Work, Probe, Approve, Validate, Promote, Rollback}
}

// Variables by which functions are told of the one machine that they all run on, where they do; see package local.
const (
	// ProgramVariable has [Env.Program].
	ProgramVariable = "HINDCAST_PROGRAM"
	// EmbeddedVariable has the addresses of the broker that a sample's "embedded:" stands for.
	EmbeddedVariable = "HINDCAST_EMBEDDED"
)

// Env is what the states need of the world. Its fields are set before the first call; all methods may then be called concurrently.
type Env struct {
	Jobs []job.Job
	// Workspace holds the runs.
	Workspace blob.Store
	// Open opens a store by a location, as file:///…, s3://… or an absolute path.
	Open func(ctx context.Context, location string) (blob.Store, error)
	// Datasets is the location under which a dataset with a bare name lies.
	Datasets string
	// Root is the folder that relative locations start from.
	Root string
	// Brokers resolves how the spec's brokers are reached.
	Brokers func(ctx context.Context, tail *spec.Tail, topic string) (brokers.Access, error)
	// Program returns the digest of the program that runs, engine and jobs, which may take a while.
	Program func() (string, error)
	Now     func() time.Time
	// Progress, where set, is told of rows that a shard has read.
	Progress func(run, shard string, rows int64)
	// Waiting, where set, is told what is waited for that is not ours to end.
	Waiting func(what string)
	// LookupEnv has the variables that a job.yaml may name; nil means [os.LookupEnv].
	LookupEnv func(name string) (string, bool)
	// WorkerMemory, where set, is how much memory a worker may take. What it must remember beyond about half of that, it keeps in files.
	WorkerMemory unit.Bytes
	// LapEnd, where set, is how long before the context's deadline a lap stops.
	LapEnd time.Duration

	registries sync.Map // of runs, so that what works beside each other here asks for a schema once
}

// Run runs one state. Errors are *Error, but for the context's.
func (e *Env) Run(ctx context.Context, state State, in json.RawMessage) (json.RawMessage, error) {
	switch state {
	case Plan:
		return call(ctx, in, e.plan)
	case Capture:
		return call(ctx, in, e.capture)
	case Shard:
		return call(ctx, in, e.shard)
	case Round:
		return call(ctx, in, e.round)
	case Work:
		return call(ctx, in, e.work)
	case Probe:
		return call(ctx, in, e.probe)
	case Approve:
		return call(ctx, in, e.approve)
	case Validate:
		return call(ctx, in, e.validate)
	case Promote:
		return call(ctx, in, e.promote)
	case Rollback:
		return call(ctx, in, e.rollback)
	default:
		return nil, &Error{Failed, fmt.Errorf("there is no state %q", state)}
	}
}

func call[In, Out any](ctx context.Context, in json.RawMessage, f func(context.Context, In) (Out, error)) (json.RawMessage, error) {
	var v In
	if err := json.Unmarshal(in, &v); err != nil {
		return nil, &Error{Failed, fmt.Errorf("read the state's input %s: %w", in, err)}
	}
	out, err := f(ctx, v)
	if err != nil {
		return nil, named(err)
	}
	return json.Marshal(out)
}

// Job returns a job and its spec by name.
func (e *Env) Job(name string) (job.Job, *spec.Spec, error) {
	var names []string
	var broken []error
	for _, j := range e.Jobs {
		s, err := Spec(j)
		if err != nil {
			if j.Folder() == name {
				return job.Job{}, nil, err
			}
			broken = append(broken, err)
			continue
		}
		if s.Job == name {
			return j, s, nil
		}
		names = append(names, s.Job)
	}
	slices.Sort(names)
	return job.Job{}, nil, notFound(fmt.Sprintf("there is no job %q: jobs are", name), names, broken)
}

// notFound says what there is in place of what was asked for, and what may be it and cannot run.
func notFound(what string, names []string, broken []error) error {
	if len(names) == 0 {
		names = []string{"none"}
	}
	return errors.Join(append([]error{fmt.Errorf("%s %s", what, strings.Join(names, ", "))}, broken...)...)
}

// Spec parses a job's job.yaml and checks that the code fits it.
func Spec(j job.Job) (*spec.Spec, error) {
	s, err := j.Spec()
	if err != nil {
		return nil, err
	}
	if err := job.Validate(j, s); err != nil {
		return nil, err
	}
	columns, err := job.Columns(s, j.Outputs())
	if err == nil {
		err = payload.Unused(columns, s.Source.Event)
	}
	if err == nil && s.Source.Segments.SchemaText != "" {
		_, err = payload.New(columns, payload.OptionsOf(s.Source, spec.Avro, nil))
	}
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", s.Job, err)
	}
	return s, nil
}

// Code is the digest of what computes a job: its own code and the program around it.
func (e *Env) Code(j job.Job) (string, error) {
	d, err := j.Digest()
	if err != nil {
		return "", err
	}
	program, err := e.Program()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(d + "\n" + program))
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Dataset opens the store of a dataset.
func (e *Env) Dataset(ctx context.Context, s *spec.Spec) (blob.Store, error) {
	st, err := e.Open(ctx, e.DatasetLocation(s))
	if err != nil {
		return nil, fmt.Errorf("open dataset %s: %w", s.Dataset, err)
	}
	return st, nil
}

// DatasetLocation is where a dataset lies.
func (e *Env) DatasetLocation(s *spec.Spec) string {
	if strings.Contains(s.Dataset, "://") {
		return s.Dataset
	}
	return e.Datasets + "/" + s.Dataset
}

// Locate resolves a location of a job.yaml: relative ones start from the project's root.
func (e *Env) Locate(loc string) string {
	if strings.Contains(loc, "://") || path.IsAbs(loc) {
		return loc
	}
	return path.Join(e.Root, loc)
}

func (e *Env) lookupEnv(name string) (string, bool) {
	if e.LookupEnv == nil {
		return os.LookupEnv(name)
	}
	return e.LookupEnv(name)
}

// registry is the schema registry of a job's Avro values, nil where it has none. What its schema ids stand for is kept in store, the run's, under schemas/.
func (e *Env) registry(s *spec.Spec, store blob.Store) (*payload.Registry, error) {
	if s.Source.Segments.Registry == "" {
		return nil, nil
	}
	address, err := s.Source.Segments.RegistryURL(e.lookupEnv)
	if err != nil {
		return nil, err
	}
	return payload.NewRegistry(address, store)
}

// runRegistry is the one registry that everything of a run goes by in this process.
func (e *Env) runRegistry(s *spec.Spec, run string) (*payload.Registry, error) {
	if shared, ok := e.registries.Load(run); ok {
		return shared.(*payload.Registry), nil
	}
	r, err := e.registry(s, e.runStore(run))
	if err != nil || r == nil {
		return nil, err
	}
	shared, _ := e.registries.LoadOrStore(run, r)
	return shared.(*payload.Registry), nil
}

func (e *Env) runStore(run string) blob.Store { return blob.Sub(e.Workspace, "runs/"+run) }

// errDamaged says that an object of the run was cut short, or is no JSON any more. What the run can make again counts as if it were not there.
var errDamaged = errors.New("it is damaged")

// lost reports whether an object of the run must be made again.
func lost(err error) bool { return errors.Is(err, blob.ErrNotFound) || errors.Is(err, errDamaged) }

// readJSON reads an object of the run. It is strict: fields that are not known are an error.
func readJSON(ctx context.Context, s blob.Store, key string, v any) error {
	b, _, err := blob.ReadAll(ctx, s, key)
	if err != nil {
		return err
	}
	return decodeJSON(key, b, v)
}

func decodeJSON(key string, b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	_, syntax := errors.AsType[*json.SyntaxError](err)
	switch {
	case err == nil:
		return nil
	case !syntax && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("read %s: %w", key, err)
	case key == requestKey || key == planKey:
		return fmt.Errorf("read %s: %w (%w), and it cannot be made again as it was: start a new run", key, errDamaged, err)
	case key == controlKey:
		return fmt.Errorf("read %s: %w (%w), and nothing else has what people asked of the run: remove it, and pause, throttle or approve again where that is still to hold",
			key, errDamaged, err)
	}
	return fmt.Errorf("read %s: %w (%w): hindcast resume makes it anew", key, errDamaged, err)
}

// legible is the size, in bytes, up to which an object of the run is written with a line a member.
const legible = 1 << 20

// writeOnce writes an object of the run that never changes. If another call has
// written it, that one stands and replaces *v: a value of its own, not decoded over what v shares with others. One that was damaged since does not stand.
func writeOnce[T any](ctx context.Context, s blob.Store, key string, v *T) error {
	b, err := marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	if len(b) < legible { // for people; what is larger they will not read, and indented it takes several times the memory
		var indented bytes.Buffer
		if err := json.Indent(&indented, b, "", "  "); err != nil {
			return fmt.Errorf("write %s: %w", key, err)
		}
		b = indented.Bytes()
	}
	_, err = blob.PutBytes(ctx, s, key, b, blob.Condition{IfAbsent: true})
	if errors.Is(err, blob.ErrPrecondition) {
		var held T
		switch err = readJSON(ctx, s, key, &held); {
		case err == nil:
			*v = held
		case errors.Is(err, errDamaged):
			_, err = blob.PutBytes(ctx, s, key, b, blob.Condition{})
		}
	}
	return err
}
