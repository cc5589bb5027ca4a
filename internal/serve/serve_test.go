package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/blob/fileblob"
	"hindcast/internal/blob/memblob"
	"hindcast/internal/check"
	"hindcast/internal/partition"
	"hindcast/internal/record"
	"hindcast/internal/table"
	"hindcast/internal/unit"
)

var at = time.Date(2011, 12, 10, 9, 0, 0, 0, time.UTC)

var daily = table.Schema{
	Rows:   record.Schema{{Name: "country", Kind: record.String}, {Name: "net", Kind: record.Int64}},
	Keys:   1,
	Scheme: partition.Scheme{Unit: partition.Day, Column: "occurred_at", Zone: "Europe/London"},
}

var monthly = table.Schema{
	Rows:   record.Schema{{Name: "event_id", Kind: record.String}},
	Keys:   1,
	Scheme: partition.Scheme{Unit: partition.Month, Column: "occurred_at", Zone: "Europe/London"},
}

// world is a dataset, and the folders of the runs beside it, in one store. Fault, where set, sees all durable effects.
type world struct {
	t     *testing.T
	base  blob.Store
	fault func(blob.Op) error
}

func newWorld(t *testing.T, base blob.Store) *world {
	w := &world{t: t}
	w.base = blob.Hook(base, func(op blob.Op) error {
		if w.fault == nil {
			return nil
		}
		return w.fault(op)
	})
	return w
}

func stores(t *testing.T) map[string]blob.Store {
	dir, err := fileblob.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]blob.Store{"memory": memblob.New(), "files": dir}
}

func onStores(t *testing.T, f func(t *testing.T, w *world)) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) { t.Parallel(); f(t, newWorld(t, s)) })
	}
}

// dataset is the dataset seen through wrap, as one process sees it.
func (w *world) dataset(wrap ...func(blob.Store) blob.Store) *Dataset {
	s := blob.Sub(w.base, "dataset")
	for _, f := range wrap {
		s = f(s)
	}
	return Open(s, "retail", Options{Settle: time.Second})
}

func (w *world) run(name string) blob.Store { return blob.Sub(w.base, "runs/"+name) }

// files puts the data file of a partition and gives its entry. Content tells files apart.
func (w *world) files(run, name, part, content string) []table.File {
	w.t.Helper()
	path := table.Path(run, name, part, 0)
	if err := table.PutOnce(w.t.Context(), blob.Sub(w.base, "dataset"), path, strings.NewReader(content), table.Digest([]byte(content))); err != nil {
		w.t.Fatal(err)
	}
	return []table.File{{Path: path, Rows: 1, Bytes: unit.Bytes(len(content)), SHA256: table.Digest([]byte(content))}}
}

// outputs replaces days of the table "daily", with as many months of "ledger" as listed.
func (w *world) outputs(run string, days []int, months ...int) map[string]table.Output {
	out := map[string]table.Output{"daily": {Schema: daily, Partitions: map[string][]table.File{}}}
	for _, d := range days {
		p := fmt.Sprintf("day=2011-11-%02d", d)
		out["daily"].Partitions[p] = w.files(run, "daily", p, "daily of "+run)
	}
	if len(months) > 0 {
		out["ledger"] = table.Output{Schema: monthly, Partitions: map[string][]table.File{}}
	}
	for _, m := range months {
		p := fmt.Sprintf("month=2011-%02d", m)
		out["ledger"].Partitions[p] = w.files(run, "ledger", p, "ledger of "+run)
	}
	return out
}

// candidate is what a run computed on what is served now.
func (w *world) candidate(run string, days []int, months ...int) *table.Candidate {
	w.t.Helper()
	base, err := table.OpenSnapshot(w.t.Context(), blob.Sub(w.base, "dataset"))
	if err != nil && !errors.Is(err, table.ErrNoVersion) {
		w.t.Fatal(err)
	}
	c, err := table.NewCandidate("retail", run, base, table.Provenance{Job: "daily"}, w.outputs(run, days, months...))
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) promotion(c *table.Candidate) Promotion {
	w.t.Helper()
	digest, err := c.Digest()
	if err != nil {
		w.t.Fatal(err)
	}
	return Promotion{
		Run: w.run(c.Run), Candidate: c, Request: Request{By: "ann", At: at, Why: "wrong revenue"},
		Verdict: check.Verdict{Run: c.Run, Candidate: digest, Results: []check.Result{{Check: "rows", Status: check.OK}}},
	}
}

func (w *world) promote(c *table.Candidate) Result {
	w.t.Helper()
	res, err := w.dataset().Promote(w.t.Context(), w.promotion(c))
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

func (w *world) rollback(run string) Result {
	w.t.Helper()
	res, err := w.dataset().Rollback(w.t.Context(), run, Request{By: "bob", At: at})
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

func (w *world) commit(name string, parent int64, days ...int) (Result, error) {
	return w.dataset().Commit(w.t.Context(), CommitRequest{
		Name: name, Parent: parent, Code: "v7", Outputs: w.outputs(name, days), Request: Request{By: "live", At: at},
	})
}

// served gives, by partition, the run that wrote what is served.
func (w *world) served() map[string]string {
	w.t.Helper()
	s, err := table.OpenSnapshot(w.t.Context(), blob.Sub(w.base, "dataset"))
	if errors.Is(err, table.ErrNoVersion) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return owners(s.Manifest)
}

func owners(m *table.Manifest) map[string]string {
	out := map[string]string{}
	for _, t := range m.Tables {
		for name, p := range t.Partitions {
			out[name] = p.Run
		}
	}
	return out
}

func (w *world) generation() int64 {
	w.t.Helper()
	p, _, err := table.ReadPointer(w.t.Context(), blob.Sub(w.base, "dataset"))
	if errors.Is(err, table.ErrNoVersion) {
		return 0
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return p.Generation
}

// history is the operations of all versions, oldest first. It checks that they are one chain, each nonce in it once.
func (w *world) history() []string {
	w.t.Helper()
	log, err := w.dataset().Log(w.t.Context(), 0)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	nonces := map[string]bool{}
	for i, e := range slices.Backward(log) {
		if e.Generation != int64(len(log)-i) || nonces[e.Nonce] {
			w.t.Errorf("version %d is generation %d with nonce %s, which was there before: %v", len(log)-i, e.Generation, e.Nonce, nonces[e.Nonce])
		}
		nonces[e.Nonce] = true
		out = append(out, string(e.Commit.Op)+" "+e.Commit.Run)
	}
	return out
}

func (w *world) wantHistory(want ...string) {
	w.t.Helper()
	if got := w.history(); !slices.Equal(got, want) {
		w.t.Errorf("history: %q, want %q", got, want)
	}
}

func (w *world) wantServed(want map[string]string) {
	w.t.Helper()
	if got := w.served(); !maps.Equal(got, want) {
		w.t.Errorf("served: %v, want %v", got, want)
	}
}

func TestPromoteAndRollBackBothTablesAtOnce(t *testing.T) {
	onStores(t, func(t *testing.T, w *world) {
		w.promote(w.candidate("run-1", []int{1, 2, 3}, 10, 11))
		before := w.served()
		two := w.candidate("run-2", []int{2, 3}, 11)
		res := w.promote(two)
		if res.Version.Generation != 2 || res.Repeated || res.Commit.By != "ann" || res.Commit.Why != "wrong revenue" {
			t.Errorf("promotion: %+v", res)
		}
		w.wantServed(map[string]string{"day=2011-11-01": "run-1", "day=2011-11-02": "run-2", "day=2011-11-03": "run-2", "month=2011-10": "run-1", "month=2011-11": "run-2"})
		w.rollback("run-2")
		w.wantServed(before)
		w.wantHistory("promote run-1", "promote run-2", "rollback run-2")

		again := w.promotion(two)
		again.Again = true
		if res, err := w.dataset().Promote(t.Context(), again); err != nil || res.Version.Generation != 4 || res.Repeated {
			t.Errorf("promotion after a rollback: %+v, %v", res, err)
		}
		w.rollback("run-2")
		w.wantServed(before)
		w.rollback("run-1")
		w.wantServed(map[string]string{})
		w.wantHistory("promote run-1", "promote run-2", "rollback run-2", "promote run-2", "rollback run-2", "rollback run-1")

		log, err := w.dataset().Log(t.Context(), 2)
		if err != nil || len(log) != 2 {
			t.Fatalf("log: %d entries, %v", len(log), err)
		}
		if want := []string{"day=2011-11-02", "day=2011-11-03"}; !slices.Equal(log[1].Changed["daily"], want) || log[1].Commit.Undoes != 4 {
			t.Errorf("the rollback of generation %d changed %v, want %v of 4", log[1].Commit.Undoes, log[1].Changed, want)
		}
	})
}

func TestRepeatsMoveNothing(t *testing.T) {
	onStores(t, func(t *testing.T, w *world) {
		c := w.candidate("run-1", []int{1})
		w.promote(c)
		if res := w.promote(c); !res.Repeated || res.Version.Generation != 1 {
			t.Errorf("repeated promotion: %+v", res)
		}
		if _, err := w.commit("live-1", 1, 2); err != nil {
			t.Fatal(err)
		}
		if res, err := w.commit("live-1", 1, 2); err != nil || !res.Repeated || res.Version.Generation != 2 {
			t.Errorf("repeated commit: %+v, %v", res, err)
		}
		if _, err := w.commit("live-1", 1, 3); !errors.Is(err, ErrConflict) {
			t.Errorf("another commit under the same name: %v", err)
		}
		if res, err := w.commit("live-1", 2, 2); err != nil || !res.Repeated || res.Version.Generation != 2 {
			t.Errorf("repeated commit by a writer that read its own version: %+v, %v", res, err)
		}
		if res := w.promote(c); !res.Repeated || res.Version.Generation != 1 || res.Served.Generation != 2 {
			t.Errorf("repeated promotion: %+v", res)
		}
		w.rollback("run-1")
		if res := w.rollback("run-1"); !res.Repeated || res.Version.Generation != 3 {
			t.Errorf("repeated rollback: %+v", res)
		}
		// An orchestrator that carries on does not undo the rollback.
		if res := w.promote(c); !res.Repeated || res.Version.Generation != 1 || !res.Undone || res.Served.Generation != 3 {
			t.Errorf("repeated promotion after a rollback: %+v", res)
		}
		w.wantHistory("promote run-1", "commit live-1", "rollback run-1")
	})
}

func TestLiveCommitsSurvive(t *testing.T) {
	onStores(t, func(t *testing.T, w *world) {
		w.promote(w.candidate("run-1", []int{1, 2, 3}))
		c := w.candidate("run-2", []int{1, 2})
		if _, err := w.commit("live-2", 1, 3); err != nil { // another day, between plan and promotion
			t.Fatal(err)
		}
		w.promote(c)
		if _, err := w.commit("live-4", 1, 4); err != nil { // a day that nobody has, on an old parent
			t.Fatal(err)
		}
		w.wantServed(map[string]string{"day=2011-11-01": "run-2", "day=2011-11-02": "run-2", "day=2011-11-03": "live-2", "day=2011-11-04": "live-4"})
		w.rollback("run-2")
		w.wantServed(map[string]string{"day=2011-11-01": "run-1", "day=2011-11-02": "run-1", "day=2011-11-03": "live-2", "day=2011-11-04": "live-4"})
	})
}

// TestOthersWorkIsNotUndone has all the ways in which an operation would lose what somebody else did.
func TestOthersWorkIsNotUndone(t *testing.T) {
	onStores(t, func(t *testing.T, w *world) {
		w.promote(w.candidate("run-1", []int{1, 2}))
		two, three := w.candidate("run-2", []int{1, 2}), w.candidate("run-3", []int{2, 3})
		if _, err := w.commit("live-2", 1, 2); err != nil {
			t.Fatal(err)
		}
		was := w.served()
		refused := func(what string, err, class error, names ...string) {
			t.Helper()
			var moved *table.MovedError
			if !errors.Is(err, class) || !errors.Is(err, ErrConflict) || !errors.As(err, &moved) {
				t.Errorf("%s: %v", what, err)
				return
			}
			for _, name := range names {
				if !strings.Contains(err.Error(), name) {
					t.Errorf("%s: %v; it does not name %s", what, err, name)
				}
			}
			w.wantServed(was)
		}
		_, err := w.dataset().Promote(t.Context(), w.promotion(two))
		refused("promotion over a live commit", err, ErrBaseMoved, "day=2011-11-02", "live-2", "generation 2")
		if strings.Contains(err.Error(), "2011-11-01") {
			t.Errorf("the refusal names a day that did not change: %v", err)
		}
		if d, err := ReadDecision(t.Context(), w.run("run-2")); err != nil || d != nil {
			t.Errorf("the refused promotion was decided: %v, %v", d, err)
		}
		refused("the check beforehand", w.dataset().Check(t.Context(), three), ErrBaseMoved, "day=2011-11-02")
		_, err = w.commit("live-3", 1, 2)
		refused("commit over a commit", err, ErrBaseMoved, "live-2")
		_, err = w.commit("live-4", 0, 1)
		refused("commit that saw no version", err, ErrBaseMoved, "run-1")
		_, err = w.dataset().Rollback(t.Context(), "run-1", Request{At: at})
		refused("rollback over a commit", err, ErrWouldLose, "live-2")

		// The base is back where it was: what was computed for it holds again.
		four := w.candidate("run-4", []int{2})
		w.promote(four)
		five := w.candidate("run-5", []int{2})
		w.rollback("run-4")
		was = w.served()
		_, err = w.dataset().Promote(t.Context(), w.promotion(five))
		refused("promotion on what was rolled back", err, ErrBaseMoved, "live-2")
	})
}

func TestRollbackNeedsAPromotion(t *testing.T) {
	w := newWorld(t, memblob.New())
	if _, err := w.dataset().Rollback(t.Context(), "run-1", Request{At: at}); !errors.Is(err, ErrNotPromoted) {
		t.Errorf("in an empty dataset: %v", err)
	}
	w.promote(w.candidate("run-1", []int{1}))
	if _, err := w.commit("live-2", 1, 2); err != nil {
		t.Fatal(err)
	}
	for _, run := range []string{"run-2", "live-2"} {
		if _, err := w.dataset().Rollback(t.Context(), run, Request{At: at}); !errors.Is(err, ErrNotPromoted) {
			t.Errorf("of %s: %v", run, err)
		}
	}
}

func TestOnlyWhatWasProvenIsPromoted(t *testing.T) {
	w := newWorld(t, memblob.New())
	c := w.candidate("run-1", []int{1})
	for name, change := range map[string]func(*Promotion){
		"no verdict":               func(p *Promotion) { p.Verdict = check.Verdict{} },
		"no checks":                func(p *Promotion) { p.Verdict.Results = nil },
		"failed":                   func(p *Promotion) { p.Verdict.Results[0].Status = check.Fail },
		"of another run":           func(p *Promotion) { p.Verdict.Run = "run-2" },
		"of another candidate":     func(p *Promotion) { p.Verdict.Candidate = table.Digest(nil) },
		"candidate changed since":  func(p *Promotion) { p.Candidate = w.candidate("run-1", []int{1, 2}) },
		"a status nobody knows of": func(p *Promotion) { p.Verdict.Results[0].Status = "skipped" },
	} {
		p := w.promotion(c)
		change(&p)
		if _, err := w.dataset().Promote(t.Context(), p); !errors.Is(err, ErrNotProven) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if w.generation() != 0 {
		t.Error("the pointer moved")
	}
	if err := blob.Sub(w.base, "dataset").Delete(t.Context(), table.Path("run-1", "daily", "day=2011-11-01", 0)); err != nil {
		t.Fatal(err)
	}
	changed := func(what, says string, p Promotion) {
		t.Helper()
		if _, err := w.dataset().Promote(t.Context(), p); !errors.Is(err, ErrFileChanged) || !errors.Is(err, ErrNotProven) || !strings.Contains(err.Error(), says) {
			t.Errorf("a file of the candidate is %s: %v", what, err)
		}
	}
	changed("gone", "is missing: start a new run", w.promotion(c))
	w.files("run-1", "daily", "day=2011-11-01", "daily of run-?") // as long as what was checked
	changed("another", "SHA-256", w.promotion(c))
	if w.generation() != 0 {
		t.Error("the pointer moved")
	}
	if d, err := ReadDecision(t.Context(), w.run("run-1")); err != nil || d != nil {
		t.Errorf("the refused promotion was decided: %v, %v", d, err)
	}

	// Once it is decided, and after a rollback, too.
	two := w.candidate("run-2", []int{2})
	w.promote(two)
	w.rollback("run-2")
	path := table.Path("run-2", "daily", "day=2011-11-02", 0)
	if _, err := blob.PutBytes(t.Context(), blob.Sub(w.base, "dataset"), path, []byte("daily of run-?"), blob.Condition{}); err != nil {
		t.Fatal(err)
	}
	again := w.promotion(two)
	again.Again = true
	changed("another after a rollback", "start a new run", again)
	if w.generation() != 2 {
		t.Error("the pointer moved")
	}
}

func TestTablesKeepTheirSchema(t *testing.T) {
	w := newWorld(t, memblob.New())
	w.promote(w.candidate("run-1", []int{1}))
	c := w.candidate("run-2", []int{2})
	change := c.Tables["daily"]
	change.Schema.Rows = append(slices.Clone(change.Schema.Rows), record.Field{Name: "more", Kind: record.Int64})
	c.Tables["daily"] = change
	if _, err := w.dataset().Promote(t.Context(), w.promotion(c)); err == nil || !strings.Contains(err.Error(), "other columns") {
		t.Errorf("another schema: %v", err)
	}
}

func TestDatasetIsTheOneThatWasMeant(t *testing.T) {
	w := newWorld(t, memblob.New())
	w.promote(w.candidate("run-1", []int{1}))
	other := Open(blob.Sub(w.base, "dataset"), "wholesale", Options{})
	if _, err := other.Rollback(t.Context(), "run-1", Request{At: at}); err == nil || !strings.Contains(err.Error(), "holds the dataset retail") {
		t.Errorf("another dataset's store: %v", err)
	}
	// The dataset is lost and made anew: what was computed for the old one is not swapped into the new one.
	c := w.candidate("run-2", []int{2})
	if err := blob.Sub(w.base, "dataset").Delete(t.Context(), table.PointerKey); err != nil {
		t.Fatal(err)
	}
	if err := w.dataset().Check(t.Context(), c); !errors.Is(err, ErrBaseMoved) {
		t.Errorf("an empty dataset: %v", err)
	}
	w.promote(w.candidate("run-3", []int{3}))
	if err := w.dataset().Check(t.Context(), c); !errors.Is(err, ErrBaseMoved) {
		t.Errorf("another history: %v", err)
	}
}

func TestDecisionIsWrittenOnce(t *testing.T) {
	onStores(t, func(t *testing.T, w *world) {
		c := w.candidate("run-1", []int{1})
		for range 2 {
			if _, err := AbortRun(t.Context(), w.run("run-1"), "run-1", Request{By: "bob", At: at, Why: "enough"}); err != nil {
				t.Fatal(err)
			}
		}
		_, err := w.dataset().Promote(t.Context(), w.promotion(c))
		var decided *DecidedError
		if !errors.Is(err, ErrDecided) || !errors.Is(err, ErrConflict) || !errors.As(err, &decided) || decided.Decision.By != "bob" {
			t.Errorf("promotion after an abort: %v", err)
		}
		if w.generation() != 0 {
			t.Error("the pointer moved")
		}
		w.promote(w.candidate("run-2", []int{1}))
		if _, err := AbortRun(t.Context(), w.run("run-2"), "run-2", Request{At: at}); !errors.Is(err, ErrDecided) || !strings.Contains(err.Error(), "roll it back") {
			t.Errorf("abort after a promotion: %v", err)
		}
	})
}

func TestRequestsAreWhole(t *testing.T) {
	w := newWorld(t, memblob.New())
	c := w.candidate("run-1", []int{1})
	for _, r := range []Request{{}, {At: at, Why: strings.Repeat("x", 3000)}} {
		p := w.promotion(c)
		p.Request = r
		_, err1 := w.dataset().Promote(t.Context(), p)
		_, err2 := w.dataset().Rollback(t.Context(), "run-1", r)
		_, err3 := w.dataset().Commit(t.Context(), CommitRequest{Name: "live", Outputs: w.outputs("live", []int{1}), Request: r})
		_, err4 := AbortRun(t.Context(), w.run("run-1"), "run-1", r)
		if err1 == nil || err2 == nil || err3 == nil || err4 == nil {
			t.Errorf("%+v: %v, %v, %v, %v", r, err1, err2, err3, err4)
		}
	}
	if d, err := ReadDecision(t.Context(), w.run("run-1")); d != nil || err != nil || w.generation() != 0 {
		t.Errorf("decided: %v, %v; generation %d", d, err, w.generation())
	}
}

func TestDamagedDecision(t *testing.T) {
	s := memblob.New()
	for _, b := range []string{"", "{}", `{"format":1,"run":"a","kind":"promote","at":"2011-12-10T09:00:00Z"}`, `{"format":1,"run":"a","kind":"abort","at":"2011-12-10T09:00:00Z","more":1}`} {
		if _, err := blob.PutBytes(t.Context(), s, DecisionKey, []byte(b), blob.Condition{}); err != nil {
			t.Fatal(err)
		}
		if d, err := ReadDecision(t.Context(), s); err == nil {
			t.Errorf("%q was read as %+v", b, d)
		}
	}
}

// TestStoreThatIgnoresConditions must be found out before the first swap.
func TestStoreThatIgnoresConditions(t *testing.T) {
	w := newWorld(t, memblob.New())
	c := w.candidate("run-1", []int{1})
	d := w.dataset(func(s blob.Store) blob.Store { return unconditional{s} })
	if _, err := d.Promote(t.Context(), w.promotion(c)); !errors.Is(err, blob.ErrConditionsIgnored) {
		t.Errorf("promotion: %v", err)
	}
	if w.generation() != 0 {
		t.Error("the pointer moved")
	}
	if _, err := AbortRun(t.Context(), unconditional{w.run("run-2")}, "run-2", Request{At: at}); !errors.Is(err, blob.ErrConditionsIgnored) {
		t.Errorf("abort: %v", err)
	}
}

type unconditional struct{ blob.Store }

func (u unconditional) Put(ctx context.Context, key string, body io.ReadSeeker, _ blob.Condition) (blob.Info, error) {
	return u.Store.Put(ctx, key, body, blob.Condition{})
}

// watched notes which data files are read.
type watched struct {
	blob.Store
	mu   sync.Mutex
	read []string
}

func (r *watched) Get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	if strings.HasPrefix(key, "data/") {
		r.mu.Lock()
		r.read = append(r.read, key)
		r.mu.Unlock()
	}
	return r.Store.Get(ctx, key, opts)
}

// untagged is a store that does not tell ETags of data files.
type untagged struct{ blob.Store }

func (u untagged) Head(ctx context.Context, key string) (blob.Info, error) {
	info, err := u.Store.Head(ctx, key)
	if strings.HasPrefix(key, "data/") {
		info.ETag = ""
	}
	return info, err
}

// TestWhatIsProvenIsNotReadAgain promotes a candidate of two files whose ETags are known, and reads those only that have another since. After a rollback
// it is the same.
func TestWhatIsProvenIsNotReadAgain(t *testing.T) {
	first, second := table.Path("run-1", "daily", "day=2011-11-01", 0), table.Path("run-1", "daily", "day=2011-11-02", 0)
	content := strings.Repeat("daily of run-1", 10_000) // too large for a hash as its ETag, in a folder
	type change func(t *testing.T, s blob.Store, p *Promotion)
	put := func(content string) change {
		return func(t *testing.T, s blob.Store, _ *Promotion) {
			if _, err := blob.PutBytes(t.Context(), s, first, []byte(content), blob.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	known := func(change func(proven map[string]blob.ETag)) change {
		return func(_ *testing.T, _ blob.Store, p *Promotion) { change(p.Proven) }
	}
	for name, c := range map[string]struct {
		change  change
		read    []string
		changed bool // the promotion is refused
	}{
		"nothing changed":  {change: known(func(map[string]blob.ETag) {})},
		"nothing is known": {change: func(_ *testing.T, _ blob.Store, p *Promotion) { p.Proven = nil }, read: []string{first, second}},
		"one is not known": {change: known(func(proven map[string]blob.ETag) { delete(proven, first) }), read: []string{first}},
		"another ETag":     {change: known(func(proven map[string]blob.ETag) { proven[first] = "x" }), read: []string{first}},
		"an empty ETag":    {change: known(func(proven map[string]blob.ETag) { proven[first], proven[second] = "", "" }), read: []string{first, second}},
		"put again":        {change: put(content), read: []string{first}},
		"another as long":  {change: put(content[1:] + "!"), read: []string{first}, changed: true},
		"a longer one":     {change: put(content + "!"), read: []string{first}, changed: true},
		"none": {change: func(t *testing.T, s blob.Store, _ *Promotion) {
			if err := s.Delete(t.Context(), first); err != nil {
				t.Fatal(err)
			}
		}, read: []string{first}, changed: true},
		"a longer one of that ETag": {change: func(t *testing.T, s blob.Store, p *Promotion) {
			info, err := blob.PutBytes(t.Context(), s, first, []byte(content+"!"), blob.Condition{})
			if err != nil {
				t.Fatal(err)
			}
			p.Proven[first] = info.ETag
		}, read: []string{first}, changed: true},
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, again %v", name, again), func(t *testing.T) {
				onStores(t, func(t *testing.T, w *world) {
					out := table.Output{Schema: daily, Partitions: map[string][]table.File{}}
					for _, day := range []string{"day=2011-11-01", "day=2011-11-02"} {
						out.Partitions[day] = w.files("run-1", "daily", day, content)
					}
					cand, err := table.NewCandidate("retail", "run-1", nil, table.Provenance{}, map[string]table.Output{"daily": out})
					if err != nil {
						t.Fatal(err)
					}
					if again {
						w.promote(cand)
						w.rollback("run-1")
					}
					p := w.promotion(cand)
					p.Again, p.Proven = again, map[string]blob.ETag{}
					for _, path := range []string{first, second} {
						info, err := blob.Sub(w.base, "dataset").Head(t.Context(), path)
						if err != nil {
							t.Fatal(err)
						}
						p.Proven[path] = info.ETag
					}
					was := w.generation()
					c.change(t, blob.Sub(w.base, "dataset"), &p)
					want := c.read
					if info, err := blob.Sub(w.base, "dataset").Head(t.Context(), first); name == "put again" && err == nil && info.ETag == p.Proven[first] {
						want = nil // where the ETag is a hash
					}
					reads := &watched{}
					// The store has no ETags for what has none in the promotion.
					_, err = w.dataset(func(s blob.Store) blob.Store {
						if reads.Store = s; p.Proven[second] == "" {
							reads.Store = untagged{s}
						}
						return reads
					}).Promote(t.Context(), p)
					if slices.Sort(reads.read); !slices.Equal(reads.read, want) {
						t.Errorf("it read %v, want %v", reads.read, want)
					}
					if c.changed != errors.Is(err, ErrFileChanged) || !c.changed && err != nil {
						t.Errorf("it ended with %v", err)
					}
					if moved := w.generation() != was; moved == c.changed {
						t.Errorf("the pointer moved: %v", moved)
					}
				})
			})
		}
	}
}
