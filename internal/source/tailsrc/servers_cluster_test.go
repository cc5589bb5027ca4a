//go:build servers

package tailsrc

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hindcast/internal/testenv/kafkaenv"
)

func TestServerThreeNodes(t *testing.T) {
	k := kafkaenv.Start(t, kafkaenv.Options{Nodes: 3})
	t.Run("leader killed while it is read", func(t *testing.T) { liveLeaderKilled(t, k) })
	t.Run("unclean election that truncates", func(t *testing.T) { liveUnclean(t, k) })
}

// partition0 returns what the brokers say of partition 0.
func (l *live) partition0(t *testing.T) kmsg.MetadataResponseTopicPartition {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &l.name
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(t.Context(), l.cl)
	if err != nil || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) == 0 {
		return kmsg.NewMetadataResponseTopicPartition()
	}
	return resp.Topics[0].Partitions[0]
}

// A replica that has everything takes over: nothing is lost, and nothing is noticed.
func liveLeaderKilled(t *testing.T, k *kafkaenv.Cluster) {
	l := filled(t, k, 3)
	opts := l.options(l.pin(t))
	opts.Patience = time.Minute
	leader := l.partition0(t).Leader
	onFirstSegment(&opts, func() { k.Kill(int(leader)) })
	l.whole(t, opts, rowsOf(0, count(0, 1000)...))
	if now := l.partition0(t).Leader; now == leader || now < 0 {
		t.Errorf("the leader is %d still", now)
	}
	k.Restart(t, int(leader))
}

// A replica that lacks half of the log is elected while a run reads, and takes in others under the same offsets. What comes out must
// not be the first half of one log and the second half of another.
func liveUnclean(t *testing.T, k *kafkaenv.Cluster) {
	l := newLiveAt(t, k, []int32{1, 2}, map[string]string{"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
	raw := k.Client(t, kgo.ProducerBatchCompression(kgo.NoCompression()))
	l.send(t, raw, 4000, count(0, 300)...)
	k.Kill(2)
	kafkaenv.Wait(t, "the follower to fall out", func() bool { return slices.Equal(l.partition0(t).ISR, []int32{1}) })
	l.send(t, raw, 4000, count(300, 1000)...)
	pinned := l.pin(t)
	if tail := pinned.Tails[0]; tail.End != 1000 {
		t.Fatalf("pinned %+v, want offsets to 1000", tail)
	}
	opts := l.options(pinned)
	opts.Patience = time.Minute
	onFirstSegment(&opts, func() {
		k.Kill(1)
		k.Restart(t, 2)
		kafkaenv.Wait(t, "the unclean election", func() bool { return l.partition0(t).Leader == 2 })
		l.send(t, k.Client(t, kgo.ProducerBatchCompression(kgo.NoCompression())), 4000, count(5000, 6000)...) // offsets 300-1300
	})
	_, err := captureIn(t, opts)
	if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "the log was truncated") {
		t.Errorf("captured with %v, want ErrChanged", err)
	}
	// So it is from the start, with the old leader back, and of a range that all had.
	k.Restart(t, 1)
	opts = l.options(pinned)
	if _, err := captureIn(t, opts); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "the log was truncated at offset 300, though it had offsets up to 1000") {
		t.Errorf("captured with %v, want ErrChanged", err)
	}
	opts.To, opts.Store = 300, newStore()
	l.whole(t, opts, rowsOf(0, count(0, 300)...))
	// A new plan reads the log that is there now.
	l.whole(t, l.options(l.pin(t)), rowsOf(0, append(count(0, 300), count(5000, 6000)...)...))
}
