package step

import (
	"context"
	"errors"
	"fmt"

	"hindcast/internal/blob"
	"hindcast/internal/job"
	"hindcast/internal/payload"
	"hindcast/internal/plan"
	"hindcast/internal/source"
	"hindcast/internal/source/tailsrc"
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

// capture reads the tail of one topic partition from the brokers, up to its pinned end, into segments of the run.
func (e *Env) capture(ctx context.Context, in captureIn) (captureOut, error) {
	r, j, err := e.begun(ctx, in.Run)
	if err != nil {
		return captureOut{}, err
	}
	store := e.runStore(in.Run)
	var c captured
	err = readJSON(ctx, store, capturedKey(in.Partition), &c)
	if errors.Is(err, blob.ErrNotFound) {
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
	access, err := e.Brokers(ctx, r.Spec.Source.Tail, r.Spec.Source.Topic)
	if err != nil {
		return captured{}, err
	}
	registry, err := e.runRegistry(r.Spec, in.Run)
	if err != nil {
		return captured{}, err
	}
	var c captured
	for _, tp := range p.Plan.Partitions {
		if tp.Partition != in.Partition {
			continue
		}
		for _, rng := range tp.Tail {
			segments, err := tailsrc.Capture(ctx, tailsrc.CaptureOptions{
				Brokers: access, Topic: p.Plan.Topic, TopicID: p.Plan.TopicID, Partition: in.Partition, From: rng.First, To: rng.Next,
				Pinned: tp.Broker, Partitions: len(p.Plan.Partitions),
				Schema: columns, EventTime: r.Spec.Source.Event.Time, Payload: payload.OptionsOf(r.Spec.Source, r.Spec.Source.Tail.Value, registry),
				Store: e.runStore(in.Run), Prefix: "captured",
			})
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
	if errors.Is(err, source.ErrChanged) || errors.Is(err, tailsrc.ErrChanged) {
		return &Error{InputChanged, fmt.Errorf("%w; what the plan pinned is gone: start a new run", err)}
	}
	return err
}
