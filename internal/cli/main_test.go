package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"

	"hindcast/internal/blob"
	"hindcast/internal/job"
	"hindcast/internal/local"
	"hindcast/internal/testenv"
	"hindcast/jobs"
)

// The test binary is the program, too: with this in the environment it runs the command line.
const asProgram = "HINDCAST_TEST_PROGRAM"

// crashAt, in the environment of the program, kills it at a durable effect: 1 is before the first, 2 after it, 3 before the second ...
const crashAt = "HINDCAST_TEST_CRASH_AT"

// stopAt, in the environment of the program, stops it, as SIGSTOP does, before it first writes an object of that name.
const stopAt = "HINDCAST_TEST_STOP_AT"

// stumbles, in the environment of the program, has the first write of every eighth of a run's objects fail as something does that goes away by itself.
const stumbles = "HINDCAST_TEST_STUMBLES"

// changedCode, in the environment of the program, makes it another program.
const changedCode = "HINDCAST_TEST_CHANGED_CODE"

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // hundreds of short runs, of small heaps
	debug.SetMemoryLimit(1 << 30)
	if os.Getenv(asProgram) == "" {
		remove := testenv.InMemory()
		if testenv.Full() { // tests wait for processes, for clocks, and for workers that are throttled
			flag.Parse()
			if err := flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0))); err != nil {
				panic(err)
			}
		}
		code := m.Run()
		remove()
		for _, dir := range kept {
			_ = os.RemoveAll(dir) // what stays is the system's to sweep
		}
		os.Exit(code)
	}
	opts := local.Options{Jobs: jobs.All()}
	if os.Getenv(changedCode) != "" {
		for i, j := range opts.Jobs {
			opts.Jobs[i] = j.With(fstest.MapFS{"changed.go": {Data: []byte("package changed")}})
		}
	}
	if at, err := strconv.ParseInt(os.Getenv(crashAt), 10, 64); err == nil {
		var n atomic.Int64
		opts = eachSide(opts, func() error {
			if n.Add(1) == at {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {} // it has no other end
			}
			return nil
		})
	}
	if os.Getenv(stumbles) != "" {
		opts.Wrap = func(s blob.Store) blob.Store { return blob.Hook(s, stumble()) }
	}
	if name := os.Getenv(stopAt); name != "" {
		opts.Wrap = func(s blob.Store) blob.Store { return blob.Hook(s, stopBefore(name)) }
	}
	os.Exit(interruptible(os.Args[1:], Std(), opts))
}

// stumble fails before the first write of an object, of an eighth of those that states write under a run.
func stumble() func(blob.Op) error {
	var met sync.Map
	return func(op blob.Op) error {
		sum := crc32.ChecksumIEEE([]byte(op.Key))
		if op.Done || sum%8 != 0 || !strings.HasPrefix(op.Key, "runs/") || strings.HasSuffix(op.Key, "/request.json") || strings.Contains(op.Key, "/results/") {
			return nil
		}
		if _, again := met.LoadOrStore(op.Key, true); again {
			return nil
		}
		return fmt.Errorf("%w: the store is busy", blob.ErrTransient)
	}
}

// stopBefore stops this process before it first writes an object of a name. It goes on when it is told to.
func stopBefore(name string) func(blob.Op) error {
	goOn := make(chan os.Signal, 1)
	signal.Notify(goOn, syscall.SIGCONT)
	var once sync.Once
	return func(op blob.Op) error {
		if !op.Done && path.Base(op.Key) == name {
			once.Do(func() {
				_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
				<-goOn
			})
		}
		return nil
	}
}

// eachSide has fn called before and after every durable effect.
func eachSide(opts local.Options, fn func() error) local.Options {
	opts.Wrap = func(s blob.Store) blob.Store { return blob.Hook(s, func(blob.Op) error { return fn() }) }
	opts.WrapHistory = func(bool) error { return fn() }
	return opts
}

// kept are folders that outlive the test that made them.
var kept []string

// keptDir makes a folder for all tests. It is called under a sync.Once.
func keptDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hindcast-test-*") //nolint:usetesting // it outlives the test
	if err != nil {
		t.Fatal(err)
	}
	kept = append(kept, dir)
	return dir
}

// builtFunctions has this process, and those that it starts, find a "go" that copies the functions where it is to build them: it makes the same each time, and takes as
// long as the test does. The first test that needs them has them built.
func builtFunctions(t *testing.T) {
	t.Helper()
	functions.Do(func() {
		ws, err := local.Open(filepath.Join(keptDir(t), "ws"), local.Options{Jobs: jobs.All()})
		if err != nil {
			t.Fatal(err)
		}
		defer ws.Close()
		if err := ws.UseFunctions(t.Context()); err != nil {
			t.Fatal(err)
		}
		built, err := filepath.Glob(filepath.Join(ws.Dir(), "functions", "*"))
		if err != nil || len(built) != 1 {
			t.Fatalf("%v: functions were built to %v", err, built)
		}
		bin := keptDir(t)
		script := "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\nexec cp " + built[0] + "/* \"$2\"\n"
		if err := os.WriteFile(filepath.Join(bin, "go"), []byte(script), 0o755); err != nil { //nolint:gosec // it is a program
			t.Fatal(err)
		}
		if err := os.Setenv("PATH", bin+":"+os.Getenv("PATH")); err != nil { //nolint:usetesting // for all tests from now on
			t.Fatal(err)
		}
		functionsBuilt = true
	})
	if !functionsBuilt {
		t.Fatal("the functions were not built")
	}
}

var (
	functions      sync.Once
	functionsBuilt bool
)

// result is what a command left.
type result struct {
	code     int
	out, err string
}

// hindcast runs the command line in this process.
func hindcast(t *testing.T, args ...string) result {
	t.Helper()
	return hindcastWith(t, jobs.All(), args...)
}

func hindcastWith(t *testing.T, list []job.Job, args ...string) result {
	t.Helper()
	return hindcastUnder(t, local.Options{Jobs: list, Embedded: true}, args...)
}

func hindcastUnder(t *testing.T, opts local.Options, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), args, IO{Out: &out, Err: &errs}, opts)
	return result{code, out.String(), errs.String()}
}

// ok asks for exit code 0.
func (r result) ok(t *testing.T) result {
	t.Helper()
	return r.exits(t, 0)
}

func (r result) exits(t *testing.T, code int) result {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit code %d, expected %d\nstdout:\n%s\nstderr:\n%s", r.code, code, r.out, r.err)
	}
	return r
}

// status decodes what run, resume and status print with --json.
func (r result) status(t *testing.T) local.Status {
	t.Helper()
	var s local.Status
	if err := json.Unmarshal([]byte(r.out), &s); err != nil {
		t.Fatalf("%v in:\n%s\nstderr:\n%s", err, r.out, r.err)
	}
	return s
}

// program prepares the command line as a process of its own, with further environment.
func program(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), asProgram+"=1", "TMPDIR="+t.TempDir()), env...) // who is killed leaves its broker's folder
	cmd.Dir = testenv.Root(t)
	return cmd
}

// demoed is a workspace in which the demo was played, made once; tests that change it take a copy.
var demoed struct {
	sync.Once
	dir string
	out string
}

func demoWorkspace(t *testing.T) string {
	t.Helper()
	demoed.Do(func() {
		demoed.dir = filepath.Join(keptDir(t), "ws")
		demoed.out = hindcast(t, "demo", "--workspace", demoed.dir).ok(t).out
	})
	if demoed.out == "" {
		t.Fatal("the demo did not play")
	}
	return demoed.dir
}

// demoCopy is a copy of the demo's workspace of the test's own.
func demoCopy(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ws")
	if err := os.CopyFS(dir, os.DirFS(demoWorkspace(t))); err != nil {
		t.Fatal(err)
	}
	return dir
}
