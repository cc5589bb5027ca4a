package peers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Readers crash, hang and allocate without bound on hostile files, so each runs in a process of its own: this test's
// binary, started again. One process reads many files; one that died is started again for the next.

const childEnv = "HINDCAST_PEERS_READER"

// limits of a child.
const (
	perFile     = 20 * time.Second
	peerMemory  = 4 << 30
	ownMemory   = 3 << 29 // 1.5 GiB: the 1 GiB of pages and dictionaries that parquetfile states, a batch, and the runtime
	maxResponse = 64 << 20
)

// request asks for a file, and for the text of some values where they are to be shown.
type request struct {
	Path   string
	Column string // values of this column are returned as text
	From   int64
	To     int64
}

// result is what a reader made of a file.
type result struct {
	Err     string // the file was refused; columns that were read before that are not listed
	Reason  string // of Err, without names and numbers of the file, for counting
	Flat    bool   // no column is nested or repeated
	Rows    int64
	Columns []column
	Peak    int64 // resident bytes, at most, since the request came
	// Died says how the process ended that was asked: it crashed, hung or passed its limit. It is set by the parent.
	Died string
}

// column is what a reader made of a column; of one in structures, by its path.
type column struct {
	Name   string
	Nested bool
	Text   bool   // numbers were read as text, since 64 bits do not hold them all
	Err    string // it was refused
	Reason string
	digest
}

// reader reads a file whole.
type reader func(req request) result

var readers = map[string]reader{"hindcast": readHindcast, "duckdb": readDuckDB, "arrow": readArrow}

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		serve(name)
		return
	}
	os.Exit(m.Run())
}

// serve answers requests until its input ends. A panic ends it: that is what the parent wants to know.
func serve(name string) {
	limit := uint64(peerMemory)
	if name == "hindcast" {
		limit = ownMemory
		debug.SetMemoryLimit(ownMemory * 3 / 4)
	}
	// Private writable memory, which is what the heap is made of: past it, allocation fails and the process dies.
	if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		panic(err)
	}
	in := json.NewDecoder(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	read := readers[name]
	for {
		var req request
		if err := in.Decode(&req); err != nil {
			if errors.Is(err, io.EOF) {
				return
			}
			panic(err)
		}
		resetPeak()
		res := read(req)
		res.Peak = peak()
		if err := out.Encode(res); err != nil {
			panic(err)
		}
	}
}

func resetPeak() {
	debug.FreeOSMemory() // what the last file left does not count for this one
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

// peak is the most memory that was resident since resetPeak.
func peak() int64 {
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// child is a reader's process, as its parent sees it. It is not safe for concurrent use.
type child struct {
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan []byte
	errs  *tail
}

func newChild(t *testing.T, name string) *child {
	c := &child{name: name}
	t.Cleanup(c.stop)
	return c
}

func (c *child) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c.errs = &tail{}
	c.cmd = exec.Command(self)
	c.cmd.Env = append(os.Environ(), childEnv+"="+c.name, "GOTRACEBACK=single", "GOMAXPROCS=2")
	c.cmd.Stderr = c.errs
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	lines := make(chan []byte, 1)
	c.lines = lines
	go func() {
		defer close(lines)
		r := bufio.NewScanner(stdout)
		r.Buffer(nil, maxResponse)
		for r.Scan() {
			lines <- bytes.Clone(r.Bytes())
		}
	}()
	return nil
}

func (c *child) stop() {
	if c.cmd != nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
		c.cmd = nil
	}
}

// read has the child read a file. An error is the harness's own.
func (c *child) read(req request) (result, error) {
	if c.cmd == nil {
		if err := c.start(); err != nil {
			return result{}, err
		}
	}
	b, err := json.Marshal(req)
	if err != nil {
		return result{}, err
	}
	if _, err := c.in.Write(append(b, '\n')); err != nil {
		return result{}, fmt.Errorf("%s's process takes no request: %w: %s", c.name, err, c.errs)
	}
	timer := time.NewTimer(perFile)
	defer timer.Stop()
	select {
	case line, ok := <-c.lines:
		if !ok {
			err := c.cmd.Wait()
			died := fmt.Sprintf("crashed (%v): %s", err, c.errs)
			c.cmd = nil
			return result{Died: died}, nil
		}
		var res result
		if err := json.Unmarshal(line, &res); err != nil {
			return result{}, fmt.Errorf("%s answers %.200q: %w", c.name, line, err)
		}
		return res, nil
	case <-timer.C:
		c.stop()
		return result{Died: fmt.Sprintf("hung: no end after %v", perFile)}, nil
	}
}

// tail keeps the first line of interest of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.b) < 1<<16 {
		t.b = append(t.b, b...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for line := range strings.Lines(string(t.b)) {
		for _, mark := range []string{"panic: ", "fatal error: ", "runtime: out of memory", "terminate called", "SIG"} {
			if strings.Contains(line, mark) {
				return strings.TrimSpace(line)
			}
		}
	}
	return fmt.Sprintf("%.200q", t.b)
}
