package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/blob/memblob"
	"hindcast/internal/table"
)

var errLost = fmt.Errorf("connection reset: %w", blob.ErrTransient)

// hook sees the pointer's puts of one process.
func hook(fn func(op blob.Op) error) func(blob.Store) blob.Store {
	return func(s blob.Store) blob.Store {
		return blob.Hook(s, func(op blob.Op) error {
			if op.Key != table.PointerKey {
				return nil
			}
			return fn(op)
		})
	}
}

// operations are all that move the pointer, each on a dataset that run-1 made and run-0 was rolled back from.
var operations = map[string]func(w *world) func(*Dataset) (Result, error){
	"promote": func(w *world) func(*Dataset) (Result, error) {
		p := w.promotion(w.candidate("run-2", []int{1, 2}, 11))
		return func(d *Dataset) (Result, error) { return d.Promote(w.t.Context(), p) }
	},
	"promote again": func(w *world) func(*Dataset) (Result, error) {
		c := w.candidate("run-2", []int{1, 2})
		w.promote(c)
		w.rollback("run-2")
		p := w.promotion(c)
		p.Again = true
		return func(d *Dataset) (Result, error) { return d.Promote(w.t.Context(), p) }
	},
	"rollback": func(w *world) func(*Dataset) (Result, error) {
		w.promote(w.candidate("run-2", []int{1, 2}))
		return func(d *Dataset) (Result, error) { return d.Rollback(w.t.Context(), "run-2", Request{At: at}) }
	},
	"commit": func(w *world) func(*Dataset) (Result, error) {
		r := CommitRequest{Name: "live-2", Parent: w.generation(), Outputs: w.outputs("live-2", []int{4}), Request: Request{At: at}}
		return func(d *Dataset) (Result, error) { return d.Commit(w.t.Context(), r) }
	},
	"first promote": func(w *world) func(*Dataset) (Result, error) {
		if err := blob.Sub(w.base, "dataset").Delete(w.t.Context(), table.PointerKey); err != nil {
			w.t.Fatal(err)
		}
		p := w.promotion(w.candidate("run-2", []int{1}))
		return func(d *Dataset) (Result, error) { return d.Promote(w.t.Context(), p) }
	},
}

// eachOperation runs f for every operation, on a world of its own.
func eachOperation(t *testing.T, f func(t *testing.T, w *world, op func(*Dataset) (Result, error))) {
	for name, prepare := range operations {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, memblob.New())
			w.promote(w.candidate("run-1", []int{1, 2, 3}, 11))
			f(t, w, prepare(w))
		})
	}
}

// wantOnce checks that the pointer moved once since generation was, and does not move when the operation is repeated.
func (w *world) wantOnce(was int64, op func(*Dataset) (Result, error)) {
	w.t.Helper()
	if now := w.generation(); now != was+1 {
		w.t.Errorf("the pointer is at generation %d, was at %d", now, was)
	}
	if res, err := op(w.dataset()); err != nil || !res.Repeated || res.Version.Generation != was+1 {
		w.t.Errorf("repeated: %+v, %v", res, err)
	}
	if now := w.generation(); now != was+1 {
		w.t.Errorf("after a repeat the pointer is at generation %d, was at %d", now, was)
	}
	w.history()
}

func TestLostReplies(t *testing.T) {
	eachOperation(t, func(t *testing.T, w *world, op func(*Dataset) (Result, error)) {
		was, lost := w.generation(), 0
		d := w.dataset(hook(func(op blob.Op) error {
			if op.Done && lost < 1 { // the swap lands, and the reply to it is lost
				lost++
				return errLost
			}
			return nil
		}))
		if res, err := op(d); err != nil || !res.Repeated || lost != 1 {
			t.Errorf("%+v, %v, %d replies lost", res, err, lost)
		}
		w.wantOnce(was, op)
	})
}

func TestLostRequests(t *testing.T) {
	eachOperation(t, func(t *testing.T, w *world, op func(*Dataset) (Result, error)) {
		was, lost := w.generation(), 0
		d := w.dataset(hook(func(op blob.Op) error {
			if !op.Done && lost < 3 {
				lost++
				return errLost
			}
			return nil
		}))
		if res, err := op(d); err != nil || res.Repeated || lost != 3 {
			t.Errorf("%+v, %v, %d requests lost", res, err, lost)
		}
		w.wantOnce(was, op)
	})
}

// delayed is a store on which the first put of the pointer is answered by an error, and lands when the test says so.
type delayed struct {
	blob.Store
	once sync.Once
	land func() error
}

func (d *delayed) Put(ctx context.Context, key string, body io.ReadSeeker, cond blob.Condition) (blob.Info, error) {
	late := false
	if key == table.PointerKey {
		d.once.Do(func() {
			b, err := io.ReadAll(body)
			late = err == nil
			d.land = func() error {
				_, err := blob.PutBytes(context.WithoutCancel(ctx), d.Store, key, b, cond)
				return err
			}
		})
	}
	if late {
		return blob.Info{}, errLost
	}
	return d.Store.Put(ctx, key, body, cond)
}

// TestPutLandsLate has the request that nobody answered arrive after its sender sent another.
func TestPutLandsLate(t *testing.T) {
	eachOperation(t, func(t *testing.T, w *world, op func(*Dataset) (Result, error)) {
		was := w.generation()
		late := &delayed{}
		d := w.dataset(func(s blob.Store) blob.Store { late.Store = s; return late })
		if _, err := op(d); err != nil {
			t.Fatal(err)
		}
		if err := late.land(); !errors.Is(err, blob.ErrPrecondition) {
			t.Errorf("the late put: %v", err)
		}
		w.wantOnce(was, op)
	})
}

// TestUnansweredPut leaves a put pending for good: the operation must not call that a failure, and a repeat finds out.
func TestUnansweredPut(t *testing.T) {
	for _, lands := range []bool{false, true} {
		t.Run(fmt.Sprint("lands later: ", lands), func(t *testing.T) {
			eachOperation(t, func(t *testing.T, w *world, op func(*Dataset) (Result, error)) {
				was, down := w.generation(), false
				late := &delayed{}
				d := w.dataset(func(s blob.Store) blob.Store { late.Store = s; return late }, func(s blob.Store) blob.Store {
					return &outage{Store: s, down: func() bool { return down }}
				}, hook(func(blob.Op) error {
					down = true
					return nil
				}))
				d.settle = 50 * time.Millisecond
				late.once.Do(func() {}) // nothing lands late: the outage loses the request
				if lands {
					late.once = sync.Once{}
					d = w.dataset(func(s blob.Store) blob.Store { late.Store = s; return late }, func(s blob.Store) blob.Store {
						return &outage{Store: s, down: func() bool { return late.land != nil }}
					})
					d.settle = 50 * time.Millisecond
				}
				if _, err := op(d); !errors.Is(err, ErrOutcomeUnknown) || !strings.Contains(err.Error(), "run the same again") {
					t.Fatalf("a put that was never answered: %v", err)
				}
				if now := w.generation(); now != was {
					t.Fatalf("generation %d, was %d", now, was)
				}
				if lands {
					if err := late.land(); err != nil {
						t.Fatal(err)
					}
				} else if res, err := op(w.dataset()); err != nil || res.Repeated {
					t.Errorf("the second time: %+v, %v", res, err)
				}
				w.wantOnce(was, op)
			})
		})
	}
}

// outage answers nothing while it is down.
type outage struct {
	blob.Store
	down func() bool
}

func (o *outage) Get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	if o.down() {
		return nil, errLost
	}
	return o.Store.Get(ctx, key, opts)
}

func (o *outage) Put(ctx context.Context, key string, body io.ReadSeeker, cond blob.Condition) (blob.Info, error) {
	if o.down() {
		return blob.Info{}, errLost
	}
	return o.Store.Put(ctx, key, body, cond)
}

// TestRefusedPut is answered by an error that will not go away: it is not sent for ever.
func TestRefusedPut(t *testing.T) {
	w := newWorld(t, memblob.New())
	p := w.promotion(w.candidate("run-1", []int{1}))
	sent := 0
	d := w.dataset(hook(func(blob.Op) error { sent++; return errors.New("access denied") }))
	if _, err := d.Promote(t.Context(), p); !errors.Is(err, ErrOutcomeUnknown) || !strings.Contains(err.Error(), "access denied") || sent != maxRefusals {
		t.Errorf("%v after %d puts", err, sent)
	}
}

// TestCancelledDuringThePut must not leave a put behind whose outcome nobody knows.
func TestCancelledDuringThePut(t *testing.T) {
	for _, lands := range []bool{false, true} {
		w := newWorld(t, memblob.New())
		p := w.promotion(w.candidate("run-1", []int{1}))
		ctx, cancel := context.WithCancel(t.Context())
		first := true
		d := w.dataset(hook(func(op blob.Op) error {
			if op.Done == lands && first {
				first = false
				cancel()
				return context.Canceled
			}
			return nil
		}))
		res, err := d.Promote(ctx, p)
		if err != nil || w.generation() != 1 {
			t.Errorf("landed before: %v: %+v, %v at generation %d", lands, res, err, w.generation())
		}
	}
	// Cancelled before, nothing is sent.
	w := newWorld(t, memblob.New())
	p := w.promotion(w.candidate("run-1", []int{1}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.dataset().Promote(ctx, p); !errors.Is(err, context.Canceled) || w.generation() != 0 {
		t.Errorf("cancelled before: %v at generation %d", err, w.generation())
	}
}

// TestZombie stops an operation right before it puts the pointer, lets others work, and lets it go on.
func TestZombie(t *testing.T) {
	meanwhile := map[string]func(w *world, op func(*Dataset) (Result, error)){
		"another carried it out": func(w *world, op func(*Dataset) (Result, error)) {
			if _, err := op(w.dataset()); err != nil {
				w.t.Fatal(err)
			}
		},
		"and others went on": func(w *world, op func(*Dataset) (Result, error)) {
			if _, err := op(w.dataset()); err != nil {
				w.t.Fatal(err)
			}
			if _, err := w.commit("live-9", w.generation(), 9); err != nil {
				w.t.Fatal(err)
			}
		},
		"and it was undone": func(w *world, op func(*Dataset) (Result, error)) {
			res, err := op(w.dataset())
			if err != nil {
				w.t.Fatal(err)
			}
			switch res.Commit.Op {
			case table.OpPromote:
				w.rollback(res.Commit.Run)
			case table.OpRollback:
				p := w.promotion(w.candidateOf(res.Commit.Run))
				p.Again = true
				if _, err := w.dataset().Promote(w.t.Context(), p); err != nil {
					w.t.Fatal(err)
				}
			case table.OpCommit:
				if _, err := w.commit("live-9", w.generation(), 4); err != nil {
					w.t.Fatal(err)
				}
			}
		},
	}
	for name, others := range meanwhile {
		t.Run(name, func(t *testing.T) {
			eachOperation(t, func(t *testing.T, w *world, op func(*Dataset) (Result, error)) {
				stopped, wake := make(chan bool), make(chan bool)
				once := sync.Once{}
				d := w.dataset(hook(func(op blob.Op) error {
					if !op.Done {
						once.Do(func() { close(stopped); <-wake })
					}
					return nil
				}))
				type outcome struct {
					res Result
					err error
				}
				done := make(chan outcome)
				go func() { res, err := op(d); done <- outcome{res, err} }()
				<-stopped
				was := w.generation()
				others(w, op)
				now := w.history()
				close(wake)
				if o := <-done; o.err != nil || !o.res.Repeated || o.res.Version.Generation != was+1 {
					t.Errorf("the zombie: %+v, %v", o.res, o.err)
				}
				if after := w.history(); !slices.Equal(now, after) {
					t.Errorf("the zombie moved the pointer: %q, then %q", now, after)
				}
			})
		})
	}
}

// candidateOf gives the candidate of a run that was promoted: what its version lists of it.
func (w *world) candidateOf(run string) *table.Candidate {
	w.t.Helper()
	log, err := w.dataset().Log(w.t.Context(), 0)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range log {
		if e.Commit.Run != run || e.Commit.Op != table.OpPromote {
			continue
		}
		store := blob.Sub(w.base, "dataset")
		v, err := table.OpenRef(w.t.Context(), store, e.Ref)
		if err != nil {
			w.t.Fatal(err)
		}
		base, err := v.Parent(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		outputs := map[string]table.Output{}
		for name, labels := range e.Changed {
			outputs[name] = table.Output{Schema: v.Manifest.Tables[name].Schema, Partitions: map[string][]table.File{}}
			for _, label := range labels {
				outputs[name].Partitions[label] = v.Manifest.Tables[name].Partitions[label].Files
			}
		}
		c, err := table.NewCandidate("retail", run, base, table.Provenance{Job: "daily"}, outputs)
		if err != nil {
			w.t.Fatal(err)
		}
		return c
	}
	w.t.Fatalf("%s was never promoted", run)
	return nil
}

// TestCrashes ends the process before and after each of an operation's writes, and starts it anew.
func TestCrashes(t *testing.T) {
	total := 0
	for name, prepare := range operations {
		t.Run(name, func(t *testing.T) {
			var want []byte // the pointer after an undisturbed operation
			for n := 0; ; n++ {
				w := newWorld(t, memblob.New())
				w.promote(w.candidate("run-1", []int{1, 2, 3}, 11))
				op := prepare(w)
				was, writes := w.generation(), 0
				w.fault = func(blob.Op) error {
					if writes++; n > 0 && writes >= n {
						return errors.New("crash")
					}
					return nil
				}
				_, err := op(w.dataset())
				w.fault = nil
				if n == 0 {
					if err != nil {
						t.Fatal(err)
					}
				} else if err == nil {
					total += n - 1
					break // the operation has fewer writes than that
				}
				if _, err := op(w.dataset()); err != nil {
					t.Fatalf("after a crash at write %d: %v", n, err)
				}
				w.wantOnce(was, op)
				got, _, err := blob.ReadAll(t.Context(), w.base, "dataset/"+table.PointerKey)
				if err != nil {
					t.Fatal(err)
				}
				if n == 0 {
					want = got
				} else if !bytes.Equal(got, want) {
					t.Errorf("after a crash at write %d the pointer is\n%s, want\n%s", n, got, want)
				}
			}
		})
	}
	t.Logf("%d crashes", total)
	if total < 50 {
		t.Errorf("%d crashes only", total)
	}
}
