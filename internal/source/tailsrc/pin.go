package tailsrc

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"hindcast/internal/plan"
)

// PinOptions are what may be set of [Pin]. The zero value works.
type PinOptions struct {
	// Patience is how long open transactions may take to be decided; 0 means DefaultPatience.
	Patience time.Duration
}

// Pinned is what the brokers have of a topic.
type Pinned struct {
	TopicID string      // empty for brokers that have none
	Tails   []plan.Tail // one a partition, ascending
}

// Pin finds the log start of each partition and the end up to which a run may
// read: the high watermark of now. It returns when everything before that is
// decided, so that a transaction that is open now leaves no hole; one that stays
// open is an error that names its producer.
func Pin(ctx context.Context, brokers []string, topicName string, opts PinOptions) (Pinned, error) {
	pinned, err := pin(ctx, brokers, topicName, cmp.Or(opts.Patience, DefaultPatience))
	if err != nil {
		return Pinned{}, fmt.Errorf("pin the tail: %w", err)
	}
	return pinned, nil
}

func pin(ctx context.Context, brokers []string, name string, patience time.Duration) (Pinned, error) {
	cl, err := connect(brokers)
	if err != nil {
		return Pinned{}, err
	}
	defer cl.Close()
	t, err := describe(ctx, cl, name)
	if err != nil {
		return Pinned{}, err
	}
	admin := kadm.NewClient(cl)
	ends, err := list(ctx, admin.ListEndOffsets, name, len(t.leaders))
	if err != nil {
		return Pinned{}, fmt.Errorf("list end offsets: %w", err)
	}
	began := time.Now()
	for n := 0; ; n++ {
		stable, err := list(ctx, admin.ListCommittedOffsets, name, len(t.leaders))
		if err != nil {
			return Pinned{}, fmt.Errorf("list stable offsets: %w", err)
		}
		open := slices.IndexFunc(stable, func(tail plan.Tail) bool { return tail.End < ends[tail.Partition].End })
		if open < 0 {
			break
		}
		if time.Since(began) > patience {
			return Pinned{}, fmt.Errorf("topic %s, partition %d: a transaction at offset %d has been open for more than %v%s: end it, then plan again",
				name, open, stable[open].End, patience, producers(ctx, admin, name, int32(open)))
		}
		if err := sleep(ctx, backoff(n)); err != nil {
			return Pinned{}, err
		}
	}
	// Starts are asked last: what is deleted meanwhile is then known to be.
	starts, err := list(ctx, admin.ListStartOffsets, name, len(t.leaders))
	if err != nil {
		return Pinned{}, fmt.Errorf("list start offsets: %w", err)
	}
	again, err := describe(ctx, cl, name)
	if err != nil {
		return Pinned{}, err
	}
	if again.id != t.id {
		return Pinned{}, fmt.Errorf("topic %s was recreated while it was pinned: %w", name, ErrChanged)
	}
	for p := range ends {
		// Of a partition that was emptied meanwhile, nothing is left to read.
		ends[p].Start = min(starts[p].End, ends[p].End)
	}
	return Pinned{TopicID: idText(t.id), Tails: ends}, nil
}

// list returns the offset of each of the first partitions, as the End of a tail.
func list(ctx context.Context, ask func(context.Context, ...string) (kadm.ListedOffsets, error), name string, partitions int) ([]plan.Tail, error) {
	listed, err := ask(ctx, name)
	if err != nil {
		return nil, err
	}
	out := make([]plan.Tail, partitions)
	for p := range out {
		l, ok := listed.Lookup(name, int32(p))
		if !ok {
			return nil, fmt.Errorf("topic %s: the brokers do not answer for partition %d", name, p)
		}
		if l.Err != nil {
			return nil, fmt.Errorf("topic %s, partition %d: %w", name, p, l.Err)
		}
		out[p] = plan.Tail{Partition: int32(p), End: l.Offset}
	}
	return out, nil
}

// producers names who has transactions open in a partition, as far as the brokers say.
func producers(ctx context.Context, admin *kadm.Client, name string, p int32) string {
	described, err := admin.DescribeProducers(ctx, kadm.TopicsSet{name: {p: {}}})
	if err != nil {
		return ""
	}
	var out []string
	for _, d := range described[name].Partitions[p].ActiveProducers.Sorted() {
		if d.CurrentTxnStartOffset >= 0 {
			out = append(out, fmt.Sprintf("producer %d since offset %d", d.ProducerID, d.CurrentTxnStartOffset))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, ", ") + ")"
}

// bounds returns the log start and the high watermark of one partition.
func bounds(ctx context.Context, cl *kgo.Client, name string, p int32) (start, end int64, err error) {
	admin := kadm.NewClient(cl)
	starts, err := list(ctx, admin.ListStartOffsets, name, int(p)+1)
	if err != nil {
		return 0, 0, err
	}
	ends, err := list(ctx, admin.ListEndOffsets, name, int(p)+1)
	if err != nil {
		return 0, 0, err
	}
	return starts[p].End, ends[p].End, nil
}
