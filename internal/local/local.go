// Package local runs jobs on this machine: it puts together a workspace in a
// folder, the states of package step, and the interpreter that drives them by
// the same definition that AWS runs.
package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"hindcast/internal/blob"
	"hindcast/internal/blob/fileblob"
	"hindcast/internal/blob/openblob"
	"hindcast/internal/job"
	"hindcast/internal/source/brokers"
	"hindcast/internal/source/embedded"
	"hindcast/internal/spec"
	"hindcast/internal/step"
	"hindcast/internal/unit"
)

// Options say how a workspace is opened. The zero value is right but for Jobs.
type Options struct {
	Jobs []job.Job
	// Root is the folder that relative locations of jobs start from; empty: the nearest folder above with a go.mod, else the working directory.
	Root string
	// Wrap, where set, stands around every store: tests count and break its effects.
	Wrap func(blob.Store) blob.Store
	// WrapHistory, where set, is called before and after every durable write of a history.
	WrapHistory func(done bool) error
	// Embedded lets any job name an embedded broker, as tests do; else only a file below samples/ can be one.
	Embedded bool
	Now      func() time.Time
	// WorkerMemory, where set, is how much memory each worker of a run may take.
	WorkerMemory unit.Bytes
}

// Workspace is a folder with runs and datasets. Its methods may be called concurrently.
type Workspace struct {
	Env  *step.Env
	dir  string
	opts Options

	functions *functions // that states run as, if they do

	mu      sync.Mutex
	brokers map[string]*embedded.Broker
	watch   func(Update)
	rows    map[string]int64 // that workers of this process have read, by run
}

// Open opens the workspace in a folder, which is made if there is none.
func Open(dir string, opts Options) (*Workspace, error) {
	if strings.Contains(dir, "://") {
		return nil, &step.Error{Name: step.Invalid, Err: fmt.Errorf(
			"workspace %s: a local run keeps its history in a folder; workspaces in object storage come with the AWS deployment", dir)}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	if opts.Root == "" {
		opts.Root = findRoot()
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	w := &Workspace{dir: dir, opts: opts, brokers: map[string]*embedded.Broker{}, rows: map[string]int64{}}
	store, err := fileblob.New(dir)
	if err != nil {
		return nil, fmt.Errorf("open workspace %s: %w", dir, err)
	}
	w.Env = &step.Env{
		Jobs:      opts.Jobs,
		Workspace: w.wrap(store),
		Open:      w.open,
		Datasets:  filepath.Join(dir, "datasets"),
		Root:      opts.Root,
		Brokers:   w.access,
		Program:   programDigest,
		Now:       opts.Now,

		WorkerMemory: opts.WorkerMemory,
		Progress: func(run, shard string, rows int64) {
			w.mu.Lock()
			w.rows[run] += rows
			w.mu.Unlock()
			w.update(Update{Shard: shard, Rows: rows})
		},
	}
	return w, nil
}

// Dir is the workspace's folder.
func (w *Workspace) Dir() string { return w.dir }

// Close stops what the workspace started.
func (w *Workspace) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.brokers {
		b.Close()
	}
	clear(w.brokers)
	return nil
}

func (w *Workspace) wrap(s blob.Store) blob.Store {
	if w.opts.Wrap == nil {
		return s
	}
	return w.opts.Wrap(s)
}

func (w *Workspace) open(ctx context.Context, location string) (blob.Store, error) {
	s, err := openblob.Open(ctx, location)
	if err != nil {
		return nil, err
	}
	return w.wrap(s), nil
}

// access resolves a job's brokers. An embedded broker is started once and lives as long as the workspace is open.
func (w *Workspace) access(ctx context.Context, tail *spec.Tail, topic string) (brokers.Access, error) {
	addrs, err := tail.Addrs(os.LookupEnv)
	if err != nil {
		return brokers.Access{}, err
	}
	file, ok := strings.CutPrefix(addrs[0], spec.Embedded)
	if !ok {
		return brokers.Resolve(tail, addrs, os.LookupEnv, w.Env.Locate)
	}
	if below, err := filepath.Rel(filepath.Join(w.opts.Root, "samples"), w.Env.Locate(file)); !w.opts.Embedded && (err != nil || !filepath.IsLocal(below)) {
		return brokers.Access{}, fmt.Errorf("source.tail.brokers: only samples have an embedded broker, and %s is not below samples/: name the brokers' addresses", file)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.brokers[file]
	if b == nil {
		if b, err = embedded.Start(ctx, w.Env.Locate(file), topic); err != nil {
			return brokers.Access{}, err
		}
		w.brokers[file] = b
	}
	return brokers.At(b.Addrs()...), nil
}

func findRoot() string {
	wd, err := os.Getwd()
	if err != nil {
		return "."
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return wd
		}
	}
}

// programDigest identifies the program that runs, engine and jobs together: a
// run goes on only with the program it began with. It is the SHA-256 of those of the file's parts, in order, which are read side by side.
var programDigest = sync.OnceValues(func() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the running program: %w", err)
	}
	f, err := os.Open(exe)
	if err != nil {
		return "", fmt.Errorf("read the running program: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("read the running program: %w", err)
	}
	const part = 4 << 20
	sums := make([][sha256.Size]byte, (st.Size()+part-1)/part)
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range sums {
		g.Go(func() error {
			h := sha256.New()
			_, err := io.Copy(h, io.NewSectionReader(f, int64(i)*part, part))
			h.Sum(sums[i][:0])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return "", fmt.Errorf("read the running program: %w", err)
	}
	all := sha256.New()
	for i := range sums {
		all.Write(sums[i][:])
	}
	return hex.EncodeToString(all.Sum(nil)), nil
})
