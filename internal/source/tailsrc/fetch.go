package tailsrc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hindcast/internal/blob"
	"hindcast/internal/plan"
	"hindcast/internal/source/brokers"
	"hindcast/internal/source/logbatch"
)

const (
	// fetchBytes is about how much a fetch returns: little enough to throttle by.
	fetchBytes = 1 << 20
	// maxWait is how long brokers may wait for records. They are there already, but may have to come from tiered storage.
	maxWait = 10 * time.Second
)

// fetcher reads the committed records of the offsets [pos, to) of a partition, in order.
type fetcher struct {
	access    brokers.Access
	cl        *kgo.Client
	topic     string
	partition int32
	pos, to   int64
	patience  time.Duration
	// What is known of the log from when it was pinned, for it to be the same: nil and 0 where nothing is.
	pinned     *plan.Tail
	partitions int
	held       bool // the log is known to have records of the pinned epoch

	id      [16]byte
	leader  int32 // -1: not known
	reached bool  // the brokers have answered before
}

// confirm finds the topic and checks that it is what was pinned. Failures that may go away are tried again for as long as patience.
func (f *fetcher) confirm(ctx context.Context, wantID string) error {
	began := time.Now()
	for n := 0; ; n++ {
		err := f.open(ctx, wantID)
		if err == nil {
			err = f.lineage(ctx)
		}
		switch {
		case err == nil:
			f.reached = true
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !f.passes(err, n) || time.Since(began) > f.patience:
			return err
		}
		if err := blob.Sleep(ctx, brokers.Backoff(n)); err != nil {
			return err
		}
	}
}

// errDeleted is a topic that the brokers say is not there. A broker that has just started may say so of any.
var errDeleted = fmt.Errorf("it was deleted: %w", ErrChanged)

// passes reports whether a failure may go away, of which n were there before in a row.
func (f *fetcher) passes(err error, n int) bool {
	var ke *kerr.Error
	switch {
	case errors.Is(err, errDeleted):
		return n < some
	case errors.Is(err, ErrChanged), errors.Is(err, errNoPartition), f.barred(err, n):
		return false
	case errors.As(err, &ke):
		return ke.Retriable && !errors.Is(err, kerr.UnknownTopicOrPartition)
	}
	return true
}

// some is how often what is likely to last is tried again: for about two seconds.
const some = 5

// barred reports whether the brokers do not let us in, and not only because one that stops hangs up, too.
func (f *fetcher) barred(err error, n int) bool {
	if !errors.Is(f.access.Explain(err), brokers.ErrAccess) {
		return false
	}
	return errors.Is(err, kerr.SaslAuthenticationFailed) || !f.reached && n >= some
}

var errNoPartition = errors.New("there is no such partition")

// lineage checks that the log has still what was pinned: that of the leader's epoch at the pinned end (and so of all before), offsets up to
// the range's end are there. Where a leader was elected that lacked some of them, the log may have others since under the same numbers.
func (f *fetcher) lineage(ctx context.Context) error {
	if f.pinned == nil || f.pinned.Epoch < 0 {
		return nil
	}
	rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	rp.Partition, rp.LeaderEpoch = f.partition, f.pinned.Epoch
	rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
	rt.Topic, rt.Partitions = f.topic, append(rt.Partitions, rp)
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, f.cl)
	switch {
	case err != nil && strings.Contains(err.Error(), "broker is too old"): // the library has no type for it
		return nil // as for those that do not let everybody ask
	case err != nil:
		return fmt.Errorf("ask for the end of the leader's epoch %d: %w", f.pinned.Epoch, err)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return errors.New("the brokers answered for other partitions")
	}
	part := resp.Topics[0].Partitions[0]
	switch err := kerr.ErrorForCode(part.ErrorCode); {
	case errors.Is(err, kerr.ClusterAuthorizationFailed), errors.Is(err, kerr.TopicAuthorizationFailed):
		return nil // old brokers do not let everybody ask; the batches' own epochs are looked at in any case
	case err != nil:
		return fmt.Errorf("ask for the end of the leader's epoch %d: %w", f.pinned.Epoch, err)
	case part.EndOffset >= 0 && part.EndOffset < f.to: // negative: the leader does not know
		return fmt.Errorf("the log was truncated at offset %d, though it had offsets up to %d, and what lies there now came later: "+
			"a replica that lacked the rest was elected leader: %w", part.EndOffset, f.to, ErrChanged)
	case f.held && part.EndOffset >= 0 && part.LeaderEpoch >= 0 && part.LeaderEpoch < f.pinned.Epoch:
		return fmt.Errorf("the log has no record of the leader of epoch %d, though it had: a replica that lacked them was elected leader: %w", f.pinned.Epoch, ErrChanged)
	}
	return nil
}

// open finds the topic, which must have the id wantID where that is set.
func (f *fetcher) open(ctx context.Context, wantID string) error {
	t, err := describe(ctx, f.cl, f.topic)
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition) && wantID != "":
		return fmt.Errorf("%w; %w", err, errDeleted)
	case err != nil:
		return err
	case wantID != "" && idText(t.id) != wantID:
		return fmt.Errorf("topic %s was deleted and created again, its id is %s and was %s: %w", f.topic, idText(t.id), wantID, ErrChanged)
	case int(f.partition) >= len(t.leaders):
		return fmt.Errorf("topic %s has %d partitions, so none numbered %d: %w", f.topic, len(t.leaders), f.partition, errNoPartition)
	case f.partitions > 0 && len(t.leaders) > f.partitions:
		return fmt.Errorf("topic %s has %d partitions and had %d: partition %d was added, keys may have moved to it, and nothing of it is planned: %w",
			f.topic, len(t.leaders), f.partitions, f.partitions, ErrChanged)
	}
	f.id, f.leader = t.id, t.leaders[f.partition]
	return nil
}

// next returns the next records, at least one, or none once the position has passed all offsets. Failures that may go away are tried
// again until there has been no progress for as long as patience.
func (f *fetcher) next(ctx context.Context) ([]*kgo.Record, error) {
	began := time.Now()
	for n := 0; f.pos < f.to; n++ {
		before := f.pos
		records, again, err := f.fetch(ctx)
		switch {
		case len(records) > 0 && err == nil:
			return records, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case f.pos > before && err == nil:
			began, n = time.Now(), -1 // markers and aborted records are progress
			continue
		case !again || f.barred(err, n):
			return nil, err
		case time.Since(began) > f.patience:
			return nil, fmt.Errorf("no progress at offset %d for %v: %w", f.pos, f.patience, err)
		}
		if err := blob.Sleep(ctx, brokers.Backoff(n)); err != nil {
			return nil, err
		}
		err = f.open(ctx, idText(f.id))
		if err == nil {
			err = f.lineage(ctx)
		}
		if errors.Is(err, ErrChanged) && !f.passes(err, n) {
			return nil, err
		} // else the next fetch fails as well, or it does not
	}
	return nil, nil
}

// errNothing is an answer without records where there must be some.
var errNothing = errors.New("the brokers return nothing")

// fetch makes one request and moves pos past what it got. If again is set, trying again may help.
func (f *fetcher) fetch(ctx context.Context) (records []*kgo.Record, again bool, err error) {
	if f.leader < 0 {
		return nil, true, fmt.Errorf("partition %d has no leader", f.partition)
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = int32(min(maxWait, f.patience).Milliseconds())
	req.MinBytes = 1
	req.MaxBytes = fetchBytes
	req.IsolationLevel = 1 // committed records only
	req.SessionEpoch = -1  // no session
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = f.topic, f.id
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition = f.partition
	rp.FetchOffset = f.pos
	rp.PartitionMaxBytes = fetchBytes
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	kresp, err := f.cl.Broker(int(f.leader)).Request(ctx, req)
	if err != nil {
		return nil, true, err
	}
	resp := kresp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, true, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].Partition != f.partition {
		return nil, true, errors.New("the broker answered for other partitions")
	}
	part := &resp.Topics[0].Partitions[0]
	switch err := kerr.ErrorForCode(part.ErrorCode); {
	case errors.Is(err, kerr.OffsetOutOfRange):
		again, err := f.outOfRange(ctx)
		return nil, again, err
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return nil, false, fmt.Errorf("topic %s may not be read: allow Read and Describe on it: %w", f.topic, err)
	case err != nil:
		return nil, kerr.IsRetriable(err), err
	}
	before := f.pos
	records, err = f.decode(part)
	if err == nil && f.pos == before {
		return nil, true, f.nothing(part)
	}
	return records, false, err
}

// nothing says why an answer may be empty although the range has not been read.
func (f *fetcher) nothing(part *kmsg.FetchResponseTopicPartition) error {
	switch {
	case part.HighWatermark < f.to:
		// A new leader's high watermark may lag, which is why this is tried again first.
		return fmt.Errorf("the log ends at offset %d but had offsets up to %d: it was truncated: %w", part.HighWatermark, f.to, ErrChanged)
	case part.LastStableOffset < f.to:
		return fmt.Errorf("a transaction is open at offset %d, before the pinned end %d", part.LastStableOffset, f.to)
	}
	return errNothing
}

// outOfRange says what became of the offset at pos, and whether trying again may help.
func (f *fetcher) outOfRange(ctx context.Context) (again bool, err error) {
	start, end, err := bounds(ctx, f.cl, f.topic, f.partition)
	switch {
	case err != nil:
		return true, err
	case start > f.pos:
		return false, fmt.Errorf("offsets %d-%d were deleted before they could be read, the log now starts at %d: %w",
			f.pos, min(start, f.to), start, ErrChanged)
	case end < f.to:
		return true, fmt.Errorf("the log ends at offset %d but had offsets up to %d: it was truncated: %w", end, f.to, ErrChanged)
	}
	return true, kerr.OffsetOutOfRange
}

// decode walks the batches of a response.
func (f *fetcher) decode(part *kmsg.FetchResponseTopicPartition) ([]*kgo.Record, error) {
	list := make([]logbatch.Transaction, len(part.AbortedTransactions))
	for i, a := range part.AbortedTransactions {
		list[i] = logbatch.Transaction{ProducerID: a.ProducerID, First: a.FirstOffset, Last: logbatch.Unknown}
	}
	aborted := logbatch.NewAborted(list)
	var out []*kgo.Record
	raw := part.RecordBatches
	for first := true; len(raw) > 0 && f.pos < f.to; first = false {
		h, err := logbatch.Parse(raw)
		switch {
		case errors.Is(err, logbatch.ErrCut) && !first:
			return out, nil // brokers cut an answer anywhere but in its first batch
		case err != nil:
			return nil, fmt.Errorf("at offset %d: %w", f.pos, err)
		}
		batch := raw[:h.Size]
		raw = raw[h.Size:]
		if h.Next <= f.pos {
			continue
		}
		if f.pinned != nil && f.pinned.Epoch >= 0 && h.First < f.to && h.Epoch > f.pinned.Epoch {
			return nil, fmt.Errorf("offset %d was taken in by the leader of epoch %d, though it was there in epoch %d: the log was truncated and has other records since: %w",
				h.First, h.Epoch, f.pinned.Epoch, ErrChanged)
		}
		records, err := logbatch.Decode(f.topic, f.partition, h, batch)
		if err != nil {
			return nil, err
		}
		if records, err = aborted.Committed(h, records); err != nil {
			return nil, err
		}
		for _, r := range records {
			if r.Offset >= f.pos && r.Offset < f.to {
				out = append(out, r)
			}
		}
		f.pos = min(h.Next, f.to)
	}
	return out, nil
}
