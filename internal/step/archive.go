package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hindcast/internal/archive"
	"hindcast/internal/job"
	"hindcast/internal/payload"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/source/tailsrc"
	"hindcast/internal/spec"
)

// ArchiveRequest is what to archive, and where to.
type ArchiveRequest struct {
	Topic string
	// Brokers are as in a job.yaml; those of the job, and how they are reached, where there are none.
	Brokers []string
	// Job, where set, names a job of the topic: its tail says how the brokers are reached, and unless Raw is set its event's columns are kept in place of bytes.
	Job string
	Raw bool
	To  string // a location
	// From is where partitions begin of which nothing is archived yet; those that are not named begin where the log does.
	From map[int32]int64

	RecordsPerSegment, RecordsPerSecond int
	// Watch, where set, is told how it goes on.
	Watch func(archive.Progress)
}

// Archive copies what the brokers have of a topic to segments, from where the last call ended to the end of now; see package archive. If it fails, the
// report has what was copied before.
func (e *Env) Archive(ctx context.Context, r ArchiveRequest) (archive.Report, error) {
	none := archive.Report{Topic: r.Topic, Partitions: []archive.PartitionReport{}}
	tail, s, columns, err := e.archiveOf(r)
	if err != nil {
		return none, &Error{Invalid, err}
	}
	store, err := e.Open(ctx, e.Locate(r.To))
	if err != nil {
		return none, &Error{Invalid, fmt.Errorf("open the archive: %w", err)}
	}
	opts := archive.Options{
		Topic: r.Topic, From: r.From, Store: store, RecordsPerSegment: r.RecordsPerSegment, RecordsPerSecond: r.RecordsPerSecond, Watch: r.Watch,
	}
	if columns != nil {
		registry, err := e.registry(s, nil)
		if err != nil {
			return none, err
		}
		if opts.Columns, err = archive.Decoded(columns, payload.OptionsOf(s.Source, tail.Value, registry)); err != nil {
			return none, &Error{Invalid, fmt.Errorf("job %s: %w", r.Job, err)}
		}
	}
	access, err := e.Brokers(ctx, tail, r.Topic)
	if err != nil {
		return none, err
	}
	pinned, err := tailsrc.Pin(ctx, access, r.Topic, tailsrc.PinOptions{Waiting: e.Waiting})
	if err != nil {
		return none, refusedUnlessTransient(err)
	}
	for p := range r.From {
		if int(p) >= len(pinned.Tails) {
			return none, &Error{Invalid, fmt.Errorf("topic %s has %d partitions, so none numbered %d", r.Topic, len(pinned.Tails), p)}
		}
	}
	opts.TopicID, opts.Tails = pinned.TopicID, pinned.Tails
	opts.Open = func(ctx context.Context, log plan.Tail, from, to int64) (archive.Reader, error) {
		return tailsrc.Read(ctx, tailsrc.ReadOptions{
			Brokers: access, Topic: r.Topic, TopicID: pinned.TopicID, Partition: log.Partition, From: from, To: to, Pinned: &log, Partitions: len(pinned.Tails),
		})
	}
	report, err := archive.Run(ctx, opts)
	switch {
	case errors.Is(err, archive.ErrRefused):
		err = &Error{PlanRefused, err}
	case errors.Is(err, archive.ErrConflict):
		err = &Error{Conflict, err}
	case errors.Is(err, tailsrc.ErrChanged):
		err = &Error{InputChanged, fmt.Errorf("%w; what was copied before stays: call again, which says what is to be done", err)}
	}
	return report, err
}

// archiveOf resolves how the brokers are reached, and the event's columns if these are kept.
func (e *Env) archiveOf(r ArchiveRequest) (tail *spec.Tail, s *spec.Spec, columns record.Schema, err error) {
	if strings.ContainsAny(r.Topic, "/ ") || r.Topic == "" || r.Topic == "." || r.Topic == ".." {
		return nil, nil, nil, fmt.Errorf("%q is no name of a topic", r.Topic)
	}
	tail = &spec.Tail{Brokers: r.Brokers}
	if r.Job != "" {
		var j job.Job
		if j, s, err = e.Job(r.Job); err != nil {
			return nil, nil, nil, err
		}
		switch {
		case s.Source.Topic != r.Topic:
			return nil, nil, nil, fmt.Errorf("job %s reads the topic %s, not %s", r.Job, s.Source.Topic, r.Topic)
		case s.Source.Tail == nil:
			return nil, nil, nil, fmt.Errorf("job %s has no tail, which would say how the brokers are reached and how values are encoded: leave --job out and name --brokers", r.Job)
		}
		own := *s.Source.Tail
		if tail = &own; len(r.Brokers) > 0 {
			tail.Brokers = r.Brokers
		}
		if !r.Raw {
			if columns, err = job.Columns(s, j.Outputs()); err != nil {
				return nil, nil, nil, err
			}
		}
	}
	if !slices.ContainsFunc(tail.Brokers, func(b string) bool { return strings.Trim(b, ", ") != "" }) {
		return nil, nil, nil, errors.New("no brokers: name them with --brokers, or a job of the topic with --job")
	}
	return tail, s, columns, nil
}
