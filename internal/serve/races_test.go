package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"hindcast/internal/blob"
	"hindcast/internal/blob/fileblob"
	"hindcast/internal/table"
	"hindcast/internal/testenv"
)

// flaky loses requests and replies of puts, and has some lost ones land later. Its sleeper ends with the test.
type flaky struct {
	blob.Store
	mu    sync.Mutex
	rnd   *rand.Rand
	later sync.WaitGroup
}

func (f *flaky) dice() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rnd.Float64()
}

func (f *flaky) Put(ctx context.Context, key string, body io.ReadSeeker, cond blob.Condition) (blob.Info, error) {
	switch x := f.dice(); {
	case strings.HasPrefix(key, "probe"): // that one asks no questions twice
	case key != table.PointerKey && x < 0.02 || key == table.PointerKey && x < 0.15:
		return blob.Info{}, errLost
	case key == table.PointerKey && x < 0.3:
		b, err := io.ReadAll(body)
		if err != nil {
			return blob.Info{}, err
		}
		f.later.Go(func() {
			time.Sleep(time.Duration(f.dice() * float64(20*time.Millisecond)))
			_, _ = blob.PutBytes(context.WithoutCancel(ctx), f.Store, key, b, cond) // whether it may land is what the test asks
		})
		return blob.Info{}, errLost
	case x < 0.4:
		if _, err := f.Store.Put(ctx, key, body, cond); err != nil {
			return blob.Info{}, err
		}
		return blob.Info{}, errLost
	}
	return f.Store.Put(ctx, key, body, cond)
}

// TestRaces has promoters, committers and those who roll back contend, over a store that loses requests and replies. Then the
// history must tell of what succeeded, once, and of nothing that was refused; and no version may have changed
// what its operation did not name, or what somebody else had changed.
func TestRaces(t *testing.T) {
	workers, rounds := 5, map[string]int{"memory": 10, "files": 3}
	if testenv.Full() {
		workers, rounds = 20, map[string]int{"memory": 200, "files": 50}
	}
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) { race(t, store, workers, rounds[name]) })
	}
}

func race(t *testing.T, store blob.Store, workers, rounds int) {
	t.Helper()
	w := newWorld(t, store)
	type attempt struct {
		nonce   string // "" for a rollback
		name    string
		outputs map[string]table.Change
		res     Result
		err     error
	}
	var mu sync.Mutex
	var attempts []attempt
	var g errgroup.Group
	for worker := range workers {
		g.Go(func() error {
			f := &flaky{rnd: rand.New(rand.NewPCG(uint64(worker), 7))}
			defer f.later.Wait()
			d := w.dataset(func(s blob.Store) blob.Store { f.Store = s; return f })
			for round := range rounds {
				run := fmt.Sprintf("run-%d-%d", worker, round)
				days := []int{1 + rand.N(4), 5 + rand.N(4)}
				a := attempt{name: run}
				switch kind := rand.N(3); kind {
				case 0: // a run, which is rolled back half of the time
					c := w.candidate(run, days, 10+rand.N(2))
					p := w.promotion(c)
					a.outputs = c.Tables
					a.nonce = nonce("promote", run, p.Verdict.Candidate)
					a.res, a.err = d.Promote(t.Context(), p)
					if a.err == nil && rand.N(2) == 0 {
						undo := attempt{name: run, outputs: c.Tables}
						undo.res, undo.err = d.Rollback(t.Context(), run, Request{At: at})
						mu.Lock()
						attempts = append(attempts, undo)
						mu.Unlock()
					}
				default:
					r := CommitRequest{Name: run, Parent: w.generation(), Outputs: w.outputs(run, days), Request: Request{At: at}}
					a.outputs = map[string]table.Change{"daily": {Partitions: map[string]table.Replacement{}}}
					for label := range r.Outputs["daily"].Partitions {
						a.outputs["daily"].Partitions[label] = table.Replacement{}
					}
					a.nonce = nonce("commit", run)
					a.res, a.err = d.Commit(t.Context(), r)
				}
				mu.Lock()
				attempts = append(attempts, a)
				mu.Unlock()
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}

	w.history()
	log, err := w.dataset().Log(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[int64]Entry{}
	nonces := map[string]bool{}
	for _, e := range log {
		versions[e.Generation] = e
		nonces[e.Nonce] = true
	}
	done, refused, unknown := 0, 0, 0
	for _, a := range attempts {
		switch {
		case a.err == nil:
			done++
			e := versions[a.res.Version.Generation]
			if e.Ref != a.res.Version || e.Commit.Run != a.name {
				t.Errorf("%s succeeded as generation %d, which is %s %s", a.name, a.res.Version.Generation, e.Commit.Op, e.Commit.Run)
			}
			for name, labels := range e.Changed {
				for _, label := range labels {
					if _, ok := a.outputs[name].Partitions[label]; !ok {
						t.Errorf("%s changed %s", a.name, label)
					}
				}
			}
		case errors.Is(a.err, ErrConflict):
			refused++
			if a.nonce != "" && nonces[a.nonce] {
				t.Errorf("%s was refused (%v), and is in the history", a.name, a.err)
			}
		case errors.Is(a.err, ErrOutcomeUnknown):
			unknown++
		default:
			t.Errorf("%s: %v", a.name, a.err)
		}
	}
	if len(log) > done+unknown {
		t.Errorf("%d versions of %d operations that succeeded and %d unknown ones", len(log), done, unknown)
	}
	checkReplay(t, w, log)
	t.Logf("%d done, %d refused, %d unknown, %d versions", done, refused, unknown, len(log))
}

// checkReplay plays the history: no version may take back what another brought in, unless it says so.
func checkReplay(t *testing.T, w *world, log []Entry) {
	t.Helper()
	store := blob.Sub(w.base, "dataset")
	var before *table.Manifest
	for _, e := range slices.Backward(log) {
		v, err := table.OpenRef(t.Context(), store, e.Ref)
		if err != nil {
			t.Fatal(err)
		}
		for name, labels := range e.Changed {
			for _, label := range labels {
				p, ok := v.Manifest.Tables[name].Partitions[label]
				switch {
				case v.Manifest.Commit.Op != table.OpRollback:
					if p.Run != v.Manifest.Commit.Run || p.Generation != v.Ref.Generation {
						t.Errorf("generation %d, of %s, has %s of %s", v.Ref.Generation, v.Manifest.Commit.Run, label, p.Run)
					}
				case before.Tables[name].Partitions[label].Generation != v.Manifest.Commit.Undoes:
					t.Errorf("the rollback of generation %d took out %s of generation %d", v.Manifest.Commit.Undoes, label, before.Tables[name].Partitions[label].Generation)
				case ok && p.Generation >= v.Manifest.Commit.Undoes:
					t.Errorf("the rollback of generation %d put back %s of generation %d", v.Manifest.Commit.Undoes, label, p.Generation)
				}
			}
		}
		before = v.Manifest
	}
}

// TestAbortRacesPromotion must have one winner, whose word holds.
func TestAbortRacesPromotion(t *testing.T) {
	rounds := 10
	if testenv.Full() {
		rounds = 200
	}
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, store)
			promoted, head := 0, map[string]time.Duration{"memory": 300 * time.Microsecond, "files": 5 * time.Millisecond}[name]
			for i := range rounds {
				c := w.candidate(fmt.Sprintf("run-%d", i), []int{1})
				p := w.promotion(c)
				was := w.generation()
				var g sync.WaitGroup
				var errs [3]error
				for j := range 2 { // two orchestrators
					g.Go(func() { _, errs[j] = w.dataset().Promote(t.Context(), p) })
				}
				g.Go(func() {
					time.Sleep(rand.N(head))
					_, errs[2] = AbortRun(t.Context(), w.run(c.Run), c.Run, Request{At: at})
				})
				g.Wait()
				moved := w.generation() - was
				switch {
				case errs[2] == nil && moved == 0 && errors.Is(errs[0], ErrDecided) && errors.Is(errs[1], ErrDecided):
				case errors.Is(errs[2], ErrDecided) && moved == 1 && errs[0] == nil && errs[1] == nil:
					promoted++
				default:
					t.Errorf("promotions: %v, %v; abort: %v; the pointer moved %d times", errs[0], errs[1], errs[2], moved)
				}
			}
			t.Logf("%d of %d promoted", promoted, rounds)
		})
	}
}

const readerEnv = "HINDCAST_TEST_READ"

// TestMain turns this binary into a reading process where it is asked to.
func TestMain(m *testing.M) {
	if dir := os.Getenv(readerEnv); dir != "" {
		os.Exit(readProcess(dir))
	}
	os.Exit(m.Run())
}

// readProcess reads both tables of a dataset over and over, until its standard input ends. Every
// version it sees must be complete, of one run, and unaltered.
func readProcess(dir string) int {
	store, err := fileblob.New(dir)
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	stop := make(chan bool)
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); close(stop) }()
	reads, versions := 0, map[int64]bool{}
	for {
		select {
		case <-stop:
			fmt.Println("read", reads, len(versions))
			return 0
		default:
		}
		generation, err := readOnce(blob.Sub(store, "dataset"))
		if err != nil {
			fmt.Println("error", err)
			return 1
		}
		reads++
		versions[generation] = true
		if reads == 1 {
			fmt.Println("ready")
		}
	}
}

func readOnce(store blob.Store) (int64, error) {
	ctx := context.Background()
	s, err := table.OpenSnapshot(ctx, store)
	if err != nil {
		return 0, err
	}
	runs := map[string]bool{}
	for _, name := range []string{"daily", "ledger"} {
		files, err := s.Files(name)
		if err != nil {
			return 0, err
		}
		if len(files) == 0 {
			return 0, fmt.Errorf("version %d has no files of %s", s.Ref.Generation, name)
		}
		for _, f := range files {
			b, _, err := blob.ReadAll(ctx, store, f.Path)
			if err != nil {
				return 0, err
			}
			if table.Digest(b) != f.SHA256 {
				return 0, fmt.Errorf("file %s is not the one of version %d", f.Path, s.Ref.Generation)
			}
			_, run, _ := strings.Cut(string(b), " of ")
			runs[run] = true
		}
	}
	if len(runs) != 1 {
		return 0, fmt.Errorf("version %d is a mixture of %v", s.Ref.Generation, runs)
	}
	return s.Ref.Generation, nil
}

// TestReadersSeeWholeVersions has processes read while the pointer moves back and forth.
func TestReadersSeeWholeVersions(t *testing.T) {
	processes, rounds := 2, 8
	if testenv.Full() {
		processes, rounds = 8, 200
	}
	dir := t.TempDir()
	store, err := fileblob.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, store)
	w.promote(w.candidate("run-1", []int{1, 2, 3}, 10, 11))
	c := w.candidate("run-2", []int{1, 2, 3}, 10, 11)
	p := w.promotion(c)
	p.Again = true

	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	type reader struct {
		in  io.WriteCloser
		out *bufio.Reader
		cmd *exec.Cmd
	}
	var readers []reader
	for range processes {
		cmd := exec.CommandContext(t.Context(), exe)
		cmd.Env = append(os.Environ(), readerEnv+"="+dir)
		in, err1 := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		if err := errors.Join(err1, err2, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		r := reader{in, bufio.NewReader(out), cmd}
		if line, err := r.out.ReadString('\n'); err != nil || line != "ready\n" {
			t.Fatalf("a reader says %q, %v", line, err)
		}
		readers = append(readers, r)
	}
	for range rounds {
		if _, err := w.dataset().Promote(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		w.rollback("run-2")
	}
	reads, versions := 0, 0
	for _, r := range readers {
		_ = r.in.Close()
		line, _ := r.out.ReadString('\n')
		if err := r.cmd.Wait(); err != nil || !strings.HasPrefix(line, "read ") {
			t.Errorf("a reader ended: %s, %v", line, err)
			continue
		}
		f := strings.Fields(line)
		n, _ := strconv.Atoi(f[1])
		v, _ := strconv.Atoi(f[2])
		reads, versions = reads+n, max(versions, v)
	}
	if versions < 3 {
		t.Errorf("the readers saw %d versions only", versions)
	}
	t.Logf("%d reads by %d processes, which saw up to %d of %d versions", reads, processes, versions, 2*rounds+1)
}
