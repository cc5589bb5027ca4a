package tailsrc

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hindcast/internal/blob"
	"hindcast/internal/plan"
	"hindcast/internal/source/brokers"
)

// PinOptions are what may be set of [Pin]. The zero value works.
type PinOptions struct {
	// Patience is how long open transactions may take to be decided; 0 means DefaultPatience.
	Patience time.Duration
	// Waiting, where set, is told what open transaction is waited for, once that has taken a moment and then every few seconds.
	Waiting func(what string)
}

const (
	moment  = 300 * time.Millisecond // most transactions are shorter
	between = 15 * time.Second       // from one word to Waiting to the next
)

// Pinned is what the brokers have of a topic.
type Pinned struct {
	TopicID string      // empty for brokers that have none
	Tails   []plan.Tail // one a partition, ascending
}

// Pin finds the log start of each partition and the end up to which a run may
// read: the high watermark of now. It returns when everything before that is
// decided, so that a transaction that is open now leaves no hole; one that stays
// open is an error that names its producer.
func Pin(ctx context.Context, at brokers.Access, topicName string, opts PinOptions) (Pinned, error) {
	pinned, err := pin(ctx, at, topicName, opts)
	if err != nil {
		return Pinned{}, fmt.Errorf("pin the tail: %w", at.Explain(err))
	}
	return pinned, nil
}

func pin(ctx context.Context, at brokers.Access, name string, opts PinOptions) (Pinned, error) {
	cl, err := at.Client()
	if err != nil {
		return Pinned{}, err
	}
	defer cl.Close()
	t, err := describe(ctx, cl, name)
	if err != nil {
		return Pinned{}, err
	}
	ends, err := list(ctx, cl, name, len(t.leaders), atEnd, false)
	if err != nil {
		return Pinned{}, fmt.Errorf("list end offsets: %w", err)
	}
	patience := cmp.Or(opts.Patience, DefaultPatience)
	began, tell := time.Now(), moment
	for n := 0; ; n++ {
		stable, err := list(ctx, cl, name, len(t.leaders), atEnd, true)
		if err != nil {
			return Pinned{}, fmt.Errorf("list stable offsets: %w", err)
		}
		open := slices.IndexFunc(stable, func(tail plan.Tail) bool { return tail.End < ends[tail.Partition].End })
		if open < 0 {
			break
		}
		since, waited := stable[open].End, time.Since(began)
		if waited > patience {
			return Pinned{}, fmt.Errorf("topic %s, partition %d: a transaction at offset %d has been open for more than %v%s, so that it is not decided what the log has up to its end %d: "+
				"have its producer commit or abort it, or, if that is gone, end it by kafka-transactions.sh abort --topic %s --partition %d --start-offset %d; then try again",
				name, open, since, patience, producers(ctx, cl, name, int32(open)), ends[open].End, name, open, since)
		}
		if opts.Waiting != nil && waited > tell {
			tell = waited + between
			opts.Waiting(fmt.Sprintf("for the transaction that is open at offset %d of topic %s, partition %d%s: %v more at most",
				since, name, open, producers(ctx, cl, name, int32(open)), (patience - waited).Round(time.Second)))
		}
		if err := blob.Sleep(ctx, brokers.Backoff(n)); err != nil {
			return Pinned{}, err
		}
	}
	// Starts are asked last: what is deleted meanwhile is then known to be.
	starts, err := list(ctx, cl, name, len(t.leaders), atStart, false)
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
	if len(again.leaders) != len(t.leaders) {
		return Pinned{}, fmt.Errorf("topic %s had %d partitions and now has %d: they were added while it was pinned: %w", name, len(t.leaders), len(again.leaders), ErrChanged)
	}
	for p := range ends {
		// Of a partition that was emptied meanwhile, nothing is left to read.
		ends[p].Start = min(starts[p].End, ends[p].End)
	}
	return Pinned{TopicID: idText(t.id), Tails: ends}, nil
}

// What ListOffsets is asked for instead of a time; see KIP-79.
const (
	atEnd   = -1
	atStart = -2
)

// list returns an offset of each of the first partitions, as the End of a tail: the log start, or the end, which
// of committed records is the last stable offset. At the end, the epoch is the leader's.
func list(ctx context.Context, cl *kgo.Client, name string, partitions int, at int64, committed bool) ([]plan.Tail, error) {
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = name
	for p := range int32(partitions) { //nolint:gosec // Kafka counts them so
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = p, at
		rt.Partitions = append(rt.Partitions, rp)
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.Topics = append(req.Topics, rt)
	if committed {
		req.IsolationLevel = 1
	}
	// The client asks each leader, and puts together what they say.
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	out := make([]plan.Tail, partitions)
	for p := range out {
		out[p] = plan.Tail{Partition: int32(p), End: -1}
	}
	for _, t := range resp.Topics {
		for _, l := range t.Partitions {
			if t.Topic != name || l.Partition < 0 || int(l.Partition) >= partitions {
				return nil, fmt.Errorf("topic %s: the brokers answer for %s, partition %d", name, t.Topic, l.Partition)
			}
			if err := kerr.ErrorForCode(l.ErrorCode); err != nil {
				return nil, fmt.Errorf("topic %s, partition %d: %w", name, l.Partition, err)
			}
			out[l.Partition].End, out[l.Partition].Epoch = l.Offset, l.LeaderEpoch
		}
	}
	if p := slices.IndexFunc(out, func(t plan.Tail) bool { return t.End < 0 }); p >= 0 {
		return nil, fmt.Errorf("topic %s: the brokers do not answer for partition %d", name, p)
	}
	return out, nil
}

// producers names who has transactions open in a partition, as far as the brokers say.
func producers(ctx context.Context, cl *kgo.Client, name string, p int32) string {
	rt := kmsg.NewDescribeProducersRequestTopic()
	rt.Topic, rt.Partitions = name, []int32{p}
	req := kmsg.NewPtrDescribeProducersRequest()
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return ""
	}
	var out []string
	for _, t := range resp.Topics {
		for _, described := range t.Partitions {
			for _, d := range described.ActiveProducers {
				if d.CurrentTxnStartOffset >= 0 {
					out = append(out, fmt.Sprintf("producer %d since offset %d", d.ProducerID, d.CurrentTxnStartOffset))
				}
			}
		}
	}
	if len(out) == 0 {
		return ""
	}
	slices.Sort(out)
	return " (" + strings.Join(out, ", ") + ")"
}

// bounds returns the log start and the high watermark of one partition.
func bounds(ctx context.Context, cl *kgo.Client, name string, p int32) (start, end int64, err error) {
	starts, err := list(ctx, cl, name, int(p)+1, atStart, false)
	if err != nil {
		return 0, 0, err
	}
	ends, err := list(ctx, cl, name, int(p)+1, atEnd, false)
	if err != nil {
		return 0, 0, err
	}
	return starts[p].End, ends[p].End, nil
}
