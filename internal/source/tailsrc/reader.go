package tailsrc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"hindcast/internal/plan"
	"hindcast/internal/source/brokers"
)

// ReadOptions say what to read.
type ReadOptions struct {
	Brokers   brokers.Access
	Topic     string
	TopicID   string // as pinned; empty where the brokers have none
	Partition int32
	From, To  int64 // offsets, half-open; To is at most the pinned end
	// Pinned is what was pinned of the partition, and Partitions how many the topic had then. The log must be still the same; nil and 0 leave
	// out what they are needed for.
	Pinned     *plan.Tail
	Partitions int
	// Patience is how long the brokers may give nothing; 0 means DefaultPatience.
	Patience time.Duration
}

// Reader yields the committed records of a range of one partition, in order. It is not safe for concurrent use.
type Reader struct {
	opts ReadOptions
	cl   *kgo.Client
	f    *fetcher
}

// Read begins to read, if the log is still what was pinned: an empty range asks just that. The caller must call [Reader.Close].
func Read(ctx context.Context, opts ReadOptions) (*Reader, error) {
	if opts.From < 0 || opts.From > opts.To {
		return nil, errors.New("this is no range of offsets")
	}
	cl, err := opts.Brokers.Client()
	if err != nil {
		return nil, err
	}
	r := &Reader{opts: opts, cl: cl, f: &fetcher{
		access: opts.Brokers, pinned: opts.Pinned, partitions: opts.Partitions,
		cl: cl, topic: opts.Topic, partition: opts.Partition, pos: opts.From, to: opts.To, patience: cmp.Or(opts.Patience, DefaultPatience),
	}}
	if err := r.f.confirm(ctx, opts.TopicID); err != nil {
		cl.Close()
		return nil, r.named(err)
	}
	return r, nil
}

// Next returns the next records, at least one, or none once all offsets are passed. [ErrChanged] means that the topic is no longer what was pinned.
func (r *Reader) Next(ctx context.Context) ([]*kgo.Record, error) {
	records, err := r.f.next(ctx)
	if err == nil && len(records) == 0 {
		// Old brokers are asked for a topic by its name only, so that one that was recreated shows here at the latest.
		err = r.f.confirm(ctx, r.opts.TopicID)
	}
	if err != nil {
		return nil, r.named(err)
	}
	return records, nil
}

// Covered is the offset before which all records have been returned.
func (r *Reader) Covered() int64 { return r.f.pos }

// Close ends the connections.
func (r *Reader) Close() { r.cl.Close() }

func (r *Reader) named(err error) error {
	return fmt.Errorf("read %s, partition %d, offsets %d-%d: %w", r.opts.Topic, r.opts.Partition, r.opts.From, r.opts.To, r.opts.Brokers.Explain(err))
}
