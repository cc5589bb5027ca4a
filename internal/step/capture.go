package step

import (
	"context"
	"errors"
	"fmt"

	"hindcast/internal/job"
	"hindcast/internal/payload"
	"hindcast/internal/plan"
	"hindcast/internal/source"
	"hindcast/internal/source/tailsrc"
	"hindcast/internal/source/tieredsrc"
	"hindcast/internal/spec"
)

type captureIn struct {
	Run       string `json:"run"`
	Partition int32  `json:"partition"`
}

type captureOut struct {
	Segments int   `json:"segments"`
	Records  int64 `json:"records"`
}

// captured is what the capture of one topic partition left: written when it is complete.
type captured struct {
	Segments []plan.Segment `json:"segments"`
}

func capturedKey(partition int32) string { return fmt.Sprintf("captured/%d.json", partition) }

// capture reads what a plan has of one topic partition in tiered storage, and the tail from the brokers up to its pinned end, into segments of the run.
func (e *Env) capture(ctx context.Context, in captureIn) (captureOut, error) {
	r, j, err := e.begun(ctx, in.Run)
	if err != nil {
		return captureOut{}, err
	}
	store := e.runStore(in.Run)
	var c captured
	err = readJSON(ctx, store, capturedKey(in.Partition), &c)
	if lost(err) {
		if c, err = e.captureTail(ctx, r, j, in); err == nil {
			err = writeOnce(ctx, store, capturedKey(in.Partition), &c)
		}
	}
	if err != nil {
		return captureOut{}, err
	}
	out := captureOut{Segments: len(c.Segments)}
	for _, s := range c.Segments {
		out.Records += s.Rows
	}
	return out, nil
}

func (e *Env) captureTail(ctx context.Context, r Request, j job.Job, in captureIn) (captured, error) {
	p, err := e.Planned(ctx, in.Run)
	if err != nil {
		return captured{}, err
	}
	columns, err := job.Columns(r.Spec, j.Outputs())
	if err != nil {
		return captured{}, err
	}
	registry, err := e.runRegistry(r.Spec, in.Run)
	if err != nil {
		return captured{}, err
	}
	src := r.Spec.Source
	format := spec.JSON
	switch {
	case src.Segments.Tiered != nil:
		format = src.Segments.Tiered.Value
	case src.Tail != nil:
		format = src.Tail.Value
	}
	opts := tailsrc.CaptureOptions{
		ReadOptions: tailsrc.ReadOptions{Topic: p.Plan.Topic, TopicID: p.Plan.TopicID, Partition: in.Partition, Partitions: len(p.Plan.Partitions)},
		Schema:      columns, EventTime: src.Event.Time, Payload: payload.OptionsOf(src, format, registry),
		Store: e.runStore(in.Run), Prefix: "captured",
	}
	var c captured
	for i := range p.Plan.Partitions {
		tp := &p.Plan.Partitions[i]
		if tp.Partition != in.Partition {
			continue
		}
		// What the brokers are about to go on with must be the log that tiered storage has the beginning of.
		if err := e.continues(ctx, src, p.Plan, tp); err != nil {
			return captured{}, inputError(err)
		}
		for _, sr := range tp.Stored {
			segments, err := e.captureStored(ctx, src, p.Plan, in.Partition, sr, opts)
			if err != nil {
				return captured{}, inputError(err)
			}
			c.Segments = append(c.Segments, segments...)
		}
		for _, rng := range tp.FromBrokers() {
			opts := opts
			opts.From, opts.To, opts.Pinned = rng.First, rng.Next, tp.Broker
			if opts.Brokers, err = e.Brokers(ctx, src.Tail, src.Topic); err != nil {
				return captured{}, err
			}
			segments, err := tailsrc.Capture(ctx, opts)
			if err != nil {
				return captured{}, inputError(err)
			}
			c.Segments = append(c.Segments, segments...)
		}
	}
	return c, nil
}

// inputError names an error of reading input that has a class of its own.
func inputError(err error) error {
	if errors.Is(err, source.ErrChanged) || errors.Is(err, tailsrc.ErrChanged) || errors.Is(err, tieredsrc.ErrChanged) {
		return &Error{InputChanged, fmt.Errorf("%w; what the plan pinned is gone: start a new run", err)}
	}
	return err
}
