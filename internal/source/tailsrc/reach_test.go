package tailsrc

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"hindcast/internal/source/brokers"
)

// Whether brokers go on where tiered storage ends is told by where the epoch of its last record ends on them.
func TestBrokersAreAskedWhetherTheyContinueTieredStorage(t *testing.T) {
	for _, c := range []struct {
		name    string
		epoch   int32 // that they answer with; -1: they do not know
		end     int64
		offsets int64
		want    string
	}{
		{name: "they have it to the end", epoch: 3, end: 60, offsets: 60},
		{name: "and beyond", epoch: 3, end: 75, offsets: 60},
		{name: "they do not know so old an epoch", epoch: -1, end: -1, offsets: 60},
		{name: "they know the start of the one after", epoch: 3, end: 100, offsets: 60},
		{name: "another leader was elected that lacked the last", epoch: 3, end: 55, offsets: 60, want: "the log was truncated at offset 55"},
		{name: "they lack all records of the epoch", epoch: 2, end: 90, offsets: 60, want: "the log has no record of the leader of epoch 3"},
	} {
		cluster := start(t)
		cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			in := req.(*kmsg.OffsetForLeaderEpochRequest)
			if in.Topics[0].Partitions[0].LeaderEpoch != 3 {
				t.Errorf("%s: asked for %+v", c.name, in.Topics)
			}
			resp := in.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
			p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			p.LeaderEpoch, p.EndOffset = c.epoch, c.end
			rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
			rt.Topic, rt.Partitions = in.Topics[0].Topic, append(rt.Partitions, p)
			resp.Topics = append(resp.Topics, rt)
			return resp, nil, true
		})
		err := Continues(t.Context(), brokers.At(cluster.ListenAddrs()...), Log{Topic: topicName, Partition: 0, Epoch: 3, Next: c.offsets})
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
