// Package topicinfo asks the brokers what package preflight wants to know of a topic: its settings, where its log starts and how far it is
// decided, when its first and its newest records are from, how large it is, which transactions are open, and where aborted ones began.
//
// It asks and changes nothing, joins no group, and fetches no more than a batch per hole that it looks into. What brokers do not answer, because they are
// old or do not allow it, is a fact by itself ([preflight.Facts.NotKnown]) and no error.
package topicinfo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"hindcast/internal/plan"
	"hindcast/internal/preflight"
	"hindcast/internal/source/logbatch"
)

const (
	// patience is how long one question may take: a plan does not wait for what is only nice to know.
	patience = 15 * time.Second
	// searches is how many holes of the exports are looked into per partition, the last ones.
	searches = 64
	// fetches is how many are made at a time.
	fetches = 8
)

// settings are the topic's that preflight goes by.
var settings = []string{
	"cleanup.policy", "retention.ms", "retention.bytes", "message.timestamp.type",
	"remote.storage.enable", "local.retention.ms", "local.retention.bytes",
}

// Look says, by partition, where to look into the log itself.
type Look struct {
	Needed map[int32]int64       // the first offset that is to be read: of when is it?
	Search map[int32]plan.Ranges // do aborted transactions end there, or behind?
}

// Gather asks about the first partitions of a topic. The client stays the caller's. The only error is the context's.
func Gather(ctx context.Context, cl *kgo.Client, topic string, partitions int, look Look) (preflight.Facts, error) {
	g := gatherer{cl: cl, topic: topic, facts: preflight.Facts{
		Asked: true, Partitions: make([]preflight.PartitionFacts, partitions), NotKnown: map[preflight.Question]string{},
	}}
	g.ask(ctx, preflight.AskConfig, g.config)
	g.ask(ctx, preflight.AskOffsets, g.offsets)
	g.ask(ctx, preflight.AskTimes, g.times)
	if g.limitsSize() {
		g.ask(ctx, preflight.AskSizes, g.sizes)
	}
	g.ask(ctx, preflight.AskProducers, g.producers)
	if len(look.Needed) > 0 {
		g.ask(ctx, preflight.AskNeeded, func(ctx context.Context) error { return g.needed(ctx, look.Needed) })
	}
	if len(look.Search) > 0 {
		g.ask(ctx, preflight.AskAborted, func(ctx context.Context) error { return g.aborted(ctx, look.Search) })
	}
	if err := ctx.Err(); err != nil {
		return preflight.Facts{}, fmt.Errorf("ask the brokers about topic %s: %w", topic, err)
	}
	if len(g.facts.NotKnown) == 0 {
		g.facts.NotKnown = nil
	}
	return g.facts, nil
}

type gatherer struct {
	cl    *kgo.Client
	topic string
	facts preflight.Facts
}

// ask notes why a question was not answered.
func (g *gatherer) ask(ctx context.Context, q preflight.Question, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := do(ctx)
	switch {
	case err == nil:
		return
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		err = fmt.Errorf("the brokers do not allow to ask: %w", err)
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("the brokers did not answer within %v", patience)
	}
	g.facts.NotKnown[q] = err.Error()
}

func (g *gatherer) config(ctx context.Context) error {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, g.topic, settings
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, g.cl)
	if err != nil {
		return err
	}
	if len(resp.Resources) != 1 || resp.Resources[0].ResourceName != g.topic {
		return errors.New("the brokers answered for others")
	}
	if err := kerr.ErrorForCode(resp.Resources[0].ErrorCode); err != nil {
		return err
	}
	g.facts.Config = map[string]string{}
	for _, c := range resp.Resources[0].Configs {
		if c.Value != nil && slices.Contains(settings, c.Name) {
			g.facts.Config[c.Name] = *c.Value
		}
	}
	return nil
}

// limitsSize reports whether retention goes by the log's size.
func (g *gatherer) limitsSize() bool {
	for _, name := range []string{"retention.bytes", "local.retention.bytes"} {
		if v := g.facts.Config[name]; v != "" && v[0] != '-' {
			return true
		}
	}
	return false
}

// What ListOffsets is asked for instead of a time; see KIP-79 and KIP-734.
const (
	atLatestTime = -3
	atStart      = -2
	atEnd        = -1
)

func (g *gatherer) offsets(ctx context.Context) error {
	// The start is asked last: what is deleted meanwhile is then known to be.
	err := g.list(ctx, atEnd, true, func(p *preflight.PartitionFacts, l *kmsg.ListOffsetsResponseTopicPartition) { p.Stable = l.Offset })
	if err != nil {
		return err
	}
	return g.list(ctx, atStart, false, func(p *preflight.PartitionFacts, l *kmsg.ListOffsetsResponseTopicPartition) { p.Start = l.Offset })
}

func (g *gatherer) times(ctx context.Context) error {
	// The first record with a time of 1970 or later is the first one.
	err := g.list(ctx, 0, false, func(p *preflight.PartitionFacts, l *kmsg.ListOffsetsResponseTopicPartition) { p.First = stamp(l) })
	if err != nil {
		return err
	}
	return g.list(ctx, atLatestTime, false, func(p *preflight.PartitionFacts, l *kmsg.ListOffsetsResponseTopicPartition) { p.Latest = stamp(l) })
}

func stamp(l *kmsg.ListOffsetsResponseTopicPartition) *preflight.Stamp {
	if l.Offset < 0 || l.Timestamp < 0 {
		return nil
	}
	return &preflight.Stamp{Offset: l.Offset, Time: l.Timestamp * 1000}
}

// numbers are the partitions, as requests name them.
func (g *gatherer) numbers() []int32 {
	out := make([]int32, len(g.facts.Partitions))
	for p := range out {
		out[p] = int32(p) //nolint:gosec // Kafka counts them so
	}
	return out
}

// list asks for an offset of each partition.
func (g *gatherer) list(ctx context.Context, at int64, committed bool, take func(*preflight.PartitionFacts, *kmsg.ListOffsetsResponseTopicPartition)) error {
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = g.topic
	for _, p := range g.numbers() {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = p, at
		rt.Partitions = append(rt.Partitions, rp)
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.Topics = append(req.Topics, rt)
	if committed {
		req.IsolationLevel = 1
	}
	resp, err := req.RequestWith(ctx, g.cl) // the client asks each leader
	if err != nil {
		return err
	}
	answered := 0
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			l := &resp.Topics[i].Partitions[j]
			if err := kerr.ErrorForCode(l.ErrorCode); err != nil {
				return fmt.Errorf("partition %d: %w", l.Partition, err)
			}
			if resp.Topics[i].Topic != g.topic || l.Partition < 0 || int(l.Partition) >= len(g.facts.Partitions) {
				return errors.New("the brokers answered for others")
			}
			take(&g.facts.Partitions[l.Partition], l)
			answered++
		}
	}
	if answered != len(g.facts.Partitions) {
		return fmt.Errorf("the brokers answered for %d of %d partitions", answered, len(g.facts.Partitions))
	}
	return nil
}

// sizes asks all brokers for the sizes of their logs. A partition's is the greatest that one has: that of a replica which is in sync.
func (g *gatherer) sizes(ctx context.Context) error {
	rt := kmsg.NewDescribeLogDirsRequestTopic()
	rt.Topic, rt.Partitions = g.topic, g.numbers()
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Topics = append(req.Topics, rt)
	for _, shard := range g.cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			return shard.Err
		}
		resp, ok := shard.Resp.(*kmsg.DescribeLogDirsResponse)
		if !ok {
			return errors.New("the brokers gave another answer")
		}
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			return err
		}
		for _, d := range resp.Dirs {
			if err := kerr.ErrorForCode(d.ErrorCode); err != nil {
				return err
			}
			for _, t := range d.Topics {
				for _, p := range t.Partitions {
					if t.Topic == g.topic && !p.IsFuture && p.Partition >= 0 && int(p.Partition) < len(g.facts.Partitions) {
						f := &g.facts.Partitions[p.Partition]
						f.Bytes = max(f.Bytes, p.Size)
					}
				}
			}
		}
	}
	return nil
}

// producers asks which transactions are open, and of whom.
func (g *gatherer) producers(ctx context.Context) error {
	rt := kmsg.NewDescribeProducersRequestTopic()
	rt.Topic, rt.Partitions = g.topic, g.numbers()
	req := kmsg.NewPtrDescribeProducersRequest()
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, g.cl)
	if err != nil {
		return err
	}
	var ids []int64
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("partition %d: %w", p.Partition, err)
			}
			if t.Topic != g.topic || p.Partition < 0 || int(p.Partition) >= len(g.facts.Partitions) {
				return errors.New("the brokers answered for others")
			}
			f := &g.facts.Partitions[p.Partition]
			for _, a := range p.ActiveProducers {
				if a.CurrentTxnStartOffset >= 0 {
					f.Open = append(f.Open, preflight.OpenTransaction{Producer: a.ProducerID, Since: a.CurrentTxnStartOffset})
					ids = append(ids, a.ProducerID)
				}
			}
			slices.SortFunc(f.Open, func(a, b preflight.OpenTransaction) int {
				return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Producer, b.Producer))
			})
		}
	}
	if len(ids) > 0 {
		g.name(ctx, ids)
	}
	return nil
}

// name finds the transactional ids of producers, and how long their transactions may stay open. Who may not be named stays a number.
func (g *gatherer) name(ctx context.Context, producers []int64) {
	list := kmsg.NewPtrListTransactionsRequest()
	list.ProducerIDFilters = producers
	describe := kmsg.NewPtrDescribeTransactionsRequest()
	for _, shard := range g.cl.RequestSharded(ctx, list) {
		if resp, ok := shard.Resp.(*kmsg.ListTransactionsResponse); ok && shard.Err == nil {
			for _, t := range resp.TransactionStates {
				describe.TransactionalIDs = append(describe.TransactionalIDs, t.TransactionalID)
			}
		}
	}
	if len(describe.TransactionalIDs) == 0 {
		return
	}
	resp, err := describe.RequestWith(ctx, g.cl)
	if err != nil {
		return
	}
	for _, t := range resp.TransactionStates {
		for p := range g.facts.Partitions {
			for i := range g.facts.Partitions[p].Open {
				if o := &g.facts.Partitions[p].Open[i]; t.ErrorCode == 0 && o.Producer == t.ProducerID {
					o.ID, o.Timeout = t.TransactionalID, t.TimeoutMillis
				}
			}
		}
	}
}

// aborted looks for transactions that ended, aborted, at offsets that exports do not have, or behind those. A fetch of committed records tells
// of the aborted transactions that end at its first offset or later and begin before its last.
func (g *gatherer) aborted(ctx context.Context, search map[int32]plan.Ranges) error {
	leaders, id, err := g.leaders(ctx)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(fetches)
	for p := range g.facts.Partitions {
		n, f := int32(p), &g.facts.Partitions[p] //nolint:gosec // Kafka counts them so
		group.Go(func() error {
			if err := g.abortedOf(ctx, leaders[n], id, n, f, search[n]); err != nil {
				return fmt.Errorf("partition %d: %w", n, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (g *gatherer) abortedOf(ctx context.Context, leader int32, id [16]byte, p int32, f *preflight.PartitionFacts, search plan.Ranges) error {
	var at []int64
	for _, r := range search.Clip(plan.Range{First: f.Start, Next: f.Stable + 1}) {
		for o := max(r.First, r.Next-searches); o < r.Next; o++ {
			at = append(at, o)
		}
	}
	var found []plan.Range
	for _, o := range at[max(0, len(at)-searches):] {
		if o < f.Stable { // nothing that is decided lies at the end
			got, err := g.fetch(ctx, leader, id, p, o)
			if err != nil {
				return err
			}
			for _, a := range got.AbortedTransactions {
				f.Aborted = append(f.Aborted, a.FirstOffset)
			}
		}
		found = append(found, plan.Range{First: o, Next: o + 1})
	}
	slices.Sort(f.Aborted)
	f.Aborted = slices.Compact(f.Aborted)
	f.Searched = plan.RangesOf(found...)
	return nil
}

// needed asks for the batch that an offset lies in. Its header has the greatest of its record times.
func (g *gatherer) needed(ctx context.Context, first map[int32]int64) error {
	leaders, id, err := g.leaders(ctx)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(fetches)
	for p := range g.facts.Partitions {
		n, f := int32(p), &g.facts.Partitions[p] //nolint:gosec // Kafka counts them so
		offset, wanted := first[n]
		if !wanted || offset >= f.Stable { // nothing that is decided lies at the end
			continue
		}
		group.Go(func() error {
			got, err := g.fetch(ctx, leaders[n], id, n, offset)
			var h logbatch.Header
			if err == nil {
				h, err = logbatch.Parse(got.RecordBatches)
			}
			if err != nil {
				return fmt.Errorf("partition %d: %w", n, err)
			}
			if h.MaxTimestamp >= 0 {
				f.Needed = &preflight.Stamp{Offset: offset, Time: h.MaxTimestamp * 1000}
			}
			return nil
		})
	}
	return group.Wait()
}

// fetch returns the batch that an offset lies in, and where aborted transactions begin that end at the offset or behind.
func (g *gatherer) fetch(ctx context.Context, leader int32, id [16]byte, p int32, offset int64) (*kmsg.FetchResponseTopicPartition, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 1000, 1, 1<<20
	req.IsolationLevel, req.SessionEpoch = 1, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = g.topic, id
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p, offset, 1 // a batch is sent whole
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	kresp, err := g.cl.Broker(int(leader)).Request(ctx, req)
	if err != nil {
		return nil, err
	}
	resp, ok := kresp.(*kmsg.FetchResponse)
	switch {
	case !ok || resp.ErrorCode != 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].Partition != p:
		return nil, errors.New("the broker answered for others")
	case resp.Topics[0].Partitions[0].ErrorCode != 0:
		return nil, kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	case len(resp.Topics[0].Partitions[0].RecordBatches) == 0:
		return nil, fmt.Errorf("the broker returned nothing at offset %d", offset)
	}
	return &resp.Topics[0].Partitions[0], nil
}

// leaders asks who leads the partitions. One without a leader has -1.
func (g *gatherer) leaders(ctx context.Context) (leaders map[int32]int32, id [16]byte, err error) {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &g.topic
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, g.cl)
	if err != nil {
		return nil, id, err
	}
	if len(resp.Topics) != 1 || resp.Topics[0].Topic == nil || *resp.Topics[0].Topic != g.topic {
		return nil, id, errors.New("the brokers answered for others")
	}
	leaders = map[int32]int32{}
	for _, p := range resp.Topics[0].Partitions {
		leaders[p.Partition] = p.Leader
	}
	return leaders, resp.Topics[0].TopicID, kerr.ErrorForCode(resp.Topics[0].ErrorCode)
}
