package tailsrc

import (
	"context"
	"errors"
	"fmt"

	"hindcast/internal/plan"
	"hindcast/internal/source/brokers"
)

// Log names what is known of a partition's log from elsewhere than the brokers: that it has the offsets before Next, the last of them taken in by the
// leader of an epoch.
type Log struct {
	Topic     string
	TopicID   string // empty where it is not known
	Partition int32
	Epoch     int32
	Next      int64
}

// Continues asks the brokers whether their log is that one, so that reading can go on with them at Next. ErrChanged means that it is not: a leader was
// elected since that lacked some of the records, or the topic was created again. Brokers that do not know so old an epoch, or do not tell, are believed.
func Continues(ctx context.Context, at brokers.Access, l Log) error {
	cl, err := at.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	f := &fetcher{
		access: at, pinned: &plan.Tail{Partition: l.Partition, Epoch: l.Epoch}, cl: cl, topic: l.Topic, partition: l.Partition, to: l.Next,
		patience: DefaultPatience, held: true,
	}
	err = f.confirm(ctx, l.TopicID)
	switch {
	case errors.Is(err, ErrChanged):
		err = fmt.Errorf("the brokers' log of %s, partition %d, does not continue the one whose offsets before %d are in tiered storage: %w", l.Topic, l.Partition, l.Next, err)
	case err != nil:
		err = fmt.Errorf("ask whether the log of %s, partition %d, has its offsets before %d still: %w", l.Topic, l.Partition, l.Next, at.Explain(err))
	}
	return err
}
