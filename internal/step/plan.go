package step

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"hindcast/internal/blob"
	"hindcast/internal/job"
	"hindcast/internal/plan"
	"hindcast/internal/preflight"
	"hindcast/internal/source/parquetsrc"
	"hindcast/internal/source/tailsrc"
	"hindcast/internal/source/tieredsrc"
	"hindcast/internal/source/topicinfo"
	"hindcast/internal/spec"
	"hindcast/internal/table"
)

// Planned is a plan, with what it was made against.
type Planned struct {
	// Digest is the plan's: spec, code, inputs with their ETags, checks and thresholds, pinned ends.
	Digest string     `json:"digest"`
	Plan   *plan.Plan `json:"plan"`
	// Canaries are what must come out.
	Canaries []Canaries `json:"canaries,omitempty"`
	// Base is the version that was served; nil where the dataset had none.
	Base *table.Ref `json:"base"`
	// Preflight says what was found of the log, and what a person has accepted of that.
	Preflight []preflight.Finding `json:"preflight,omitempty"`
}

type planIn struct {
	Run string `json:"run"`
}

type planOut struct {
	Tails    int    `json:"tails"`
	TailsKey string `json:"tailsKey"`
}

// plan takes the inventory and writes the plan, once. Called again it finds the plan there.
func (e *Env) plan(ctx context.Context, in planIn) (planOut, error) {
	r, _, err := e.begun(ctx, in.Run)
	if err != nil {
		return planOut{}, err
	}
	store := e.runStore(in.Run)
	p, err := e.Planned(ctx, in.Run)
	if errors.Is(err, blob.ErrNotFound) {
		if p, err = e.Preview(ctx, r); err == nil {
			err = writeOnce(ctx, store, planKey, &p)
		}
	}
	if err != nil {
		return planOut{}, err
	}
	type item struct {
		Partition int32 `json:"partition"`
	}
	var lines bytes.Buffer
	tails := 0
	for _, tp := range p.Plan.Partitions {
		if len(tp.Tail) == 0 {
			continue
		}
		tails++
		if err := json.NewEncoder(&lines).Encode(item{tp.Partition}); err != nil {
			return planOut{}, err
		}
	}
	if _, err := blob.PutBytes(ctx, store, "tails.jsonl", lines.Bytes(), blob.Condition{}); err != nil {
		return planOut{}, err
	}
	return planOut{Tails: tails, TailsKey: "runs/" + in.Run + "/tails.jsonl"}, nil
}

// Summary is what a plan comes to.
type Summary struct {
	Job      string       `json:"job"`
	Window   *spec.Window `json:"window"` // nil: the whole log
	Digest   string       `json:"digest"`
	Base     *table.Ref   `json:"base"`
	Warnings []string     `json:"warnings,omitempty"`
	// Preflight has all findings; those that are ok, too.
	Preflight []preflight.Finding `json:"preflight,omitempty"`
	Ignored   int                 `json:"ignored"` // objects among the segments that are none by their names, as _SUCCESS
	plan.Summary
}

// Summary adds a plan up.
func (p Planned) Summary() (Summary, error) {
	s, err := p.Plan.Summary()
	return Summary{
		Job: p.Plan.Spec.Job, Window: p.Plan.Window, Digest: p.Digest, Base: p.Base, Warnings: p.Plan.Warnings, Preflight: p.Preflight,
		Ignored: p.Plan.Ignored, Summary: s,
	}, err
}

// Planned reads a run's plan.
func (e *Env) Planned(ctx context.Context, run string) (Planned, error) {
	var p Planned
	err := readJSON(ctx, e.runStore(run), planKey, &p)
	if err == nil && p.Digest != digestOf(p) {
		err = fmt.Errorf("the plan of run %s is not the one that was written: its digest does not fit; it was damaged: start a new run", run)
	}
	return p, err
}

// merging are the tables of a job whose transforms can merge what comes of parts of the log.
func merging(j job.Job) ([]string, error) {
	var out []string
	for name, t := range j.Outputs() {
		shape, err := t.Shape()
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", name, err)
		}
		if shape.Merges {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Preview makes the plan of a request, without side effects: it reads listings, footers and the brokers' offsets. A plan that the
// preflight refuses is returned beside the error.
func (e *Env) Preview(ctx context.Context, r Request) (Planned, error) {
	j, _, err := e.Job(r.Job)
	if err != nil {
		return Planned{}, err
	}
	inv, tiered, err := e.inventory(ctx, j, r)
	if err != nil {
		return Planned{}, err
	}
	merges, err := merging(j)
	if err != nil {
		return Planned{}, err
	}
	pl, err := plan.Build(r.Spec, r.Window, inv, plan.Options{
		ShardRows: r.ShardRows, Merges: merges, AcceptGaps: r.AcceptGaps, NoPrune: r.NoPrune, Code: r.Code,
	})
	if err != nil {
		return Planned{}, e.unplanned(ctx, r, inv, err)
	}
	if err := e.pinStored(ctx, r.Spec.Source, tiered, pl); err != nil {
		return Planned{}, err
	}
	p := Planned{Plan: pl, Canaries: r.Canaries}
	ds, err := e.Dataset(ctx, r.Spec)
	if err != nil {
		return Planned{}, err
	}
	switch ptr, _, err := table.ReadPointer(ctx, ds); {
	case err == nil:
		p.Base = &ptr.Ref
		if err := sameTables(ctx, ds, ptr.Ref, j, r.Spec); err != nil {
			return Planned{}, err
		}
	case !errors.Is(err, table.ErrNoVersion):
		return Planned{}, err
	}
	var refused error
	if p.Preflight, refused, err = e.preflight(ctx, r, inv, pl); err != nil {
		return Planned{}, err
	}
	p.Digest = digestOf(p)
	if refused != nil {
		return p, &Error{PlanRefused, refused}
	}
	return p, nil
}

// preflight asks whether the log can be taken for the truth. Refused says what stands against it that nobody has accepted, or that what was
// accepted was not found.
func (e *Env) preflight(ctx context.Context, r Request, inv plan.Inventory, pl *plan.Plan) (findings []preflight.Finding, refused, err error) {
	in := preflight.Input{Now: e.Now().UnixMicro(), Plan: pl, Inventory: inv}
	var look topicinfo.Look
	if pl != nil {
		sum, err := pl.Summary()
		if err != nil {
			return nil, nil, err
		}
		in.Rows, look = sum.ReadRows, topicinfo.Look{Needed: preflight.Needed(pl), Search: preflight.Search(pl, inv)}
	}
	if src := r.Spec.Source; src.Tail != nil {
		access, err := e.Brokers(ctx, src.Tail, src.Topic)
		if err != nil {
			return nil, nil, err
		}
		cl, err := access.Client()
		if err != nil {
			return nil, nil, err
		}
		defer cl.Close()
		if in.Facts, err = topicinfo.Gather(ctx, cl, src.Topic, len(inv.Tails), look); err != nil {
			return nil, nil, err
		}
	}
	findings = preflight.Check(in)
	return findings, errors.Join(preflight.Accept(findings, r.Accept), preflight.Refused(findings)), nil
}

// unplanned adds to why there is no plan what the topic itself has against it: a hole in a compacted log has its cause there.
func (e *Env) unplanned(ctx context.Context, r Request, inv plan.Inventory, why error) error {
	accepted := r.Accept
	r.Accept = nil
	findings, _, err := e.preflight(ctx, r, inv, nil)
	if err != nil && passing(err) {
		return err
	}
	findings = slices.DeleteFunc(findings, func(f preflight.Finding) bool { return slices.Contains(accepted, f.Rule) })
	return &Error{PlanRefused, errors.Join(why, preflight.Refused(findings))}
}

// sameTables refuses a job one of whose tables is served with another schema: no version can hold both.
func sameTables(ctx context.Context, ds blob.Store, ref table.Ref, j job.Job, s *spec.Spec) error {
	base, err := table.OpenRef(ctx, ds, ref)
	if err != nil {
		return err
	}
	schemas, err := Schemas(j, s)
	if err != nil {
		return err
	}
	for _, o := range s.Outputs {
		t, ok := base.Manifest.Tables[o.Table]
		if !ok {
			continue
		}
		if err := schemas[o.Table].Differs(t.Schema); err != nil {
			return &Error{PlanRefused, fmt.Errorf("table %s of dataset %s, version %d: %w: write to a table of another name", o.Table, DatasetName(s), ref.Generation, err)}
		}
	}
	return nil
}

// inventory is what there is of the log: its segments and, where the job has a tail, what the brokers pin. Tiered is nil for a job that does not read
// tiered storage.
func (e *Env) inventory(ctx context.Context, j job.Job, r Request) (inv plan.Inventory, tiered *tieredsrc.Log, err error) {
	if inv, err = e.listed(ctx, j, r); err == nil {
		err = e.pin(ctx, r.Spec.Source, &inv)
	}
	if err == nil {
		tiered, err = e.stored(ctx, r.Spec.Source, &inv)
	}
	return inv, tiered, err
}

// listed is the inventory without the tail and tiered storage.
func (e *Env) listed(ctx context.Context, j job.Job, r Request) (plan.Inventory, error) {
	src := r.Spec.Source
	if src.Segments.Tiered != nil {
		return plan.Inventory{Topic: src.Topic, AsOf: r.AsOf}, nil
	}
	segments, err := e.Open(ctx, e.Locate(src.Segments.Parquet))
	if err != nil {
		return plan.Inventory{}, fmt.Errorf("open segments: %w", err)
	}
	columns, err := job.Needs(r.Spec, j.Outputs())
	if err != nil {
		return plan.Inventory{}, err
	}
	listing, err := parquetsrc.List(ctx, segments, src, columns...)
	if err != nil {
		return plan.Inventory{}, refusedUnlessTransient(err)
	}
	inv := plan.Inventory{
		Topic: src.Topic, Segments: listing.Segments, Ignored: listing.Ignored, AtLeastOnce: listing.AtLeastOnce, Passed: listing.Passed, Notes: listing.Notes,
		Listed: listing.Listed, AsOf: r.AsOf,
	}
	if err := parquetsrc.CheckTail(ctx, segments, src); err != nil {
		return plan.Inventory{}, refusedUnlessTransient(err)
	}
	return inv, nil
}

// pin adds what the brokers have to an inventory, where the job has a tail.
func (e *Env) pin(ctx context.Context, src spec.Source, inv *plan.Inventory) error {
	if src.Tail == nil {
		return nil
	}
	access, err := e.Brokers(ctx, src.Tail, src.Topic)
	if err != nil {
		return err
	}
	pinned, err := tailsrc.Pin(ctx, access, src.Topic, tailsrc.PinOptions{Waiting: e.Waiting})
	if err != nil {
		return refusedUnlessTransient(err)
	}
	inv.HasTail, inv.Tails, inv.TopicID = true, pinned.Tails, pinned.TopicID
	return nil
}

func refusedUnlessTransient(err error) error {
	if passing(err) {
		return err
	}
	return &Error{PlanRefused, err}
}

// passing reports an error that says nothing about the input: it may go away by itself, or we were stopped.
func passing(err error) bool {
	return errors.Is(err, blob.ErrTransient) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// digestOf digests what a run was planned to do: the plan, its base, and the canaries.
func digestOf(p Planned) string {
	p.Digest = ""
	h := sha256.New()
	if err := p.encode(h); err != nil {
		panic(err) // plain data: cannot happen
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
