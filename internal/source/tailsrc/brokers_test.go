package tailsrc

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"hindcast/internal/source/brokers"
)

// Brokers that cannot be asked where a leader's epoch ended are read all the same: the records themselves say of which they are.
func TestBrokersThatKnowNoEpochsAreRead(t *testing.T) {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.OffsetForLeaderEpoch), -1)
	c := start(t, kfake.MaxVersions(versions))
	send(t, producer(t, c), count(0, 20)...)
	pinned, err := Pin(timeout(t), brokers.At(c.ListenAddrs()...), topicName, PinOptions{})
	if err != nil {
		t.Fatal(err)
	}
	opts := options(c, newStore(), 0, 20)
	opts.Pinned, opts.Partitions = &pinned.Tails[0], len(pinned.Tails)
	seen := watch(c)
	if got, want := read(t, opts, capt(t, opts)), rowsOf(0, count(0, 20)...); got != want {
		t.Errorf("captured %s, want %s", got, want)
	}
	if seen.kinds["OffsetForLeaderEpoch"] > 0 {
		t.Errorf("the brokers were asked for %v", seen.kinds)
	}
}

// Brokers that fetch old records from tiered storage take seconds for an answer. That is no failure, however small patience is: it is about
// brokers that give nothing.
func TestSlowAnswersAreProgress(t *testing.T) {
	c := start(t)
	cl := producer(t, c)
	send(t, cl, count(0, 20)...)
	c.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if f, ok := req.(*kmsg.FetchRequest); ok {
			if f.MaxWaitMillis < 300 {
				t.Errorf("a broker is given %d ms", f.MaxWaitMillis)
			}
			time.Sleep(800 * time.Millisecond)
		}
		return nil, nil, false
	})
	opts := options(c, newStore(), 0, 20)
	opts.Patience = 300 * time.Millisecond
	if got, want := read(t, opts, capt(t, opts)), rowsOf(0, count(0, 20)...); got != want {
		t.Errorf("captured %s, want %s", got, want)
	}
}
