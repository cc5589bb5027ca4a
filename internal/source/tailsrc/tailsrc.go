// Package tailsrc reads the tail of a topic from the brokers: [Pin] finds where
// it ends when a plan is made, [Capture] copies a range of offsets into
// segments of the run, once, so that all else reads object storage.
//
// It joins no consumer group and commits and resets nothing: it asks for offsets by number, and is done when
// the position passes the end of the range, whether there is a record or not (a
// transaction marker, a compacted record). A log that is no longer what was pinned
// (records deleted, topic recreated, partition added, log truncated, even where it was filled again) is [ErrChanged], never a shorter
// result, or one of two logs. Only committed records are captured.
package tailsrc

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrChanged means that the topic no longer has what was pinned. Trying again does not help; a new plan may.
var ErrChanged = errors.New("the topic has changed since it was pinned")

// DefaultPatience is how long brokers may fail, or give nothing, before that is an error. Brokers that fetch
// old records from tiered storage, or that elect leaders, take their time.
const DefaultPatience = 2 * time.Minute

// topic is what the brokers say of the topic.
type topic struct {
	id      [16]byte // zero for brokers before 2.8
	leaders []int32  // by partition; -1 while there is none
}

// describe asks for the topic. One that does not exist is an error. The question is put by hand: the admin client
// answers it from its cache, and what is asked here is whether the topic is still the same.
func describe(ctx context.Context, cl *kgo.Client, name string) (topic, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &name
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return topic{}, fmt.Errorf("ask the brokers for topic %s: %w", name, err)
	}
	if len(resp.Topics) != 1 || resp.Topics[0].Topic == nil || *resp.Topics[0].Topic != name {
		return topic{}, fmt.Errorf("ask the brokers for topic %s: they answered for others", name)
	}
	detail := resp.Topics[0]
	switch err := kerr.ErrorForCode(detail.ErrorCode); {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return topic{}, fmt.Errorf("topic %s does not exist on these brokers: %w", name, err)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return topic{}, fmt.Errorf("topic %s may not be read: allow Read and Describe on it: %w", name, err)
	case err != nil:
		return topic{}, fmt.Errorf("ask the brokers for topic %s: %w", name, err)
	}
	t := topic{id: detail.TopicID, leaders: make([]int32, len(detail.Partitions))}
	for i := range t.leaders {
		t.leaders[i] = -1
	}
	for _, p := range detail.Partitions {
		if p.Partition < 0 || int(p.Partition) >= len(t.leaders) {
			return topic{}, fmt.Errorf("topic %s has %d partitions, one of them numbered %d", name, len(t.leaders), p.Partition)
		}
		t.leaders[p.Partition] = p.Leader
	}
	return t, nil
}

// idText writes a topic id as Kafka's own tools do; that of old brokers, which have none, is empty.
func idText(id [16]byte) string {
	if id == ([16]byte{}) {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(id[:])
}
