// Package tieredsrc reads a topic's history out of the segments that Kafka's tiered storage (KIP-405) copied to an
// object store: as Aiven's plugin lays them out ([Aiven]), or Kafka's own LocalTieredStorage ([Local]). It asks no
// broker.
//
// # What is the log
//
// A store holds more than the log: segments that two leaders copied twice or cut differently, ones of a leader whose
// records were lost in an unclean election, what is left of a deletion or of a copy that failed. Which is which stands
// in the brokers' metadata only, but follows from the segments as well. Each carries the history of leader epochs up to
// its end. The history of the one with the highest last epoch, then end, is the log's lineage; two logs that have the
// same leader epoch at an offset have the same records up to there, so a segment is good up to where its own epochs
// leave the lineage. What is past that is stale, and dropped. Offsets below the lineage's start, where the log started
// when the segment was copied, are leftovers, and dropped as well. Of what is left each offset is read from one
// segment. Where two overlap at the place where reading goes from one to the other, they must have the same batch
// there.
//
// The newest leader's records are on the brokers only until its first segment is copied, so an unclean election since
// then does not show here: who goes on from the brokers must ask them whether the last epoch of [Partition.Epochs]
// reaches to the handover (OffsetForLeaderEpoch).
//
// # Transactions
//
// A segment is copied once all its transactions are decided, but the markers that end them may be in a later segment,
// or on the brokers. What an aborted transaction wrote is named by the transaction index of the segment that holds its
// marker. So records are decided by the store alone up to the oldest transaction that has no marker in the store yet.
// Those that are open at the end of a segment stand in its snapshot of the producers; [Partition.Ranges] ends before
// the oldest, and a read never goes past it. Who goes on from the brokers from there on, reading committed records,
// gets those transactions whole, with the brokers' word on each. So one pass over the data is enough, and nothing is
// held back in memory.
//
// The indexes have no checksum. So a reader holds each marker against what it took the transaction for, and reads on
// past the end of its range until it has met the markers of all transactions in it; where they differ, that is an
// error.
//
// # Trust
//
// Every length, count and position that an object states has a limit, and is held against the object's size. Reads are
// pinned to the ETag of the listing: an object that was replaced is an error, never other contents. A reader holds at
// most one window of a file (4 MiB, or one chunk), one decoded chunk (at most 64 MiB, usually 4) and one batch (see
// package logbatch). Kafka's checksums leave out a batch's own offset: a flipped bit there is found out only if the
// batch then overlaps another, or leaves the segment's range or its leader's epoch. Encrypted segments are authentic.
package tieredsrc

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hindcast/internal/blob"
)

// Layout is how segments lie in a store.
type Layout string

// The layouts.
const (
	// Aiven is that of Aiven's plugin (Aiven-Open/tiered-storage-for-apache-kafka), of its manifests' version 1.
	Aiven Layout = "aiven"
	// Local is that of Kafka's LocalTieredStorage, which is made for tests: its folders lie in kafka-tiered-storage,
	// in the folder it was given. It does not say where a segment ends, so one that is missing between two others
	// cannot be told from offsets at the last batch's end that have no record: both are a gap.
	Local Layout = "local"
)

// ErrChanged means that the store no longer has what was listed: an object was deleted or replaced. A new listing may help.
var ErrChanged = errors.New("the tiered segments have changed since they were listed")

// Options say which topic to read. Those that are not needed may be left out.
type Options struct {
	Topic string
	// TopicID as Kafka's tools write it (22 characters). It is needed where the store has several topics of the name: one that
	// was deleted and created again is another topic.
	TopicID string
	Layout  Layout
	// Prefixes are what the plugin was told to put before its keys (key.prefix), verbatim: no slash is added. Where that was
	// changed, each counts. None means that there is no prefix.
	Prefixes []string
	// Keys open encrypted segments, by the id that the plugin was given for each (Aiven only). See [ParseKey].
	Keys map[string]*rsa.PrivateKey
	// Partitions are those to list; none means all.
	Partitions []int32
	// Objects, where set, are taken for the store's listing, so that what was planned is what is read. See [Partition.Objects].
	Objects []Object
}

// Object is an object of the store, with the contents that it had.
type Object struct {
	Key  string    `json:"key"`
	ETag blob.ETag `json:"etag"`
	Size int64     `json:"size"`
}

// Range is a range of offsets, half-open.
type Range struct {
	First int64 `json:"first"`
	Next  int64 `json:"next"`
}

func (r Range) String() string { return fmt.Sprintf("%d-%d", r.First, r.Next) }

// Gap is a range of offsets that cannot be read from the store.
type Gap struct {
	Range
	Why string `json:"why"`
}

// Epoch is the start of a leader's epoch in a log.
type Epoch struct {
	Epoch int32 `json:"epoch"`
	First int64 `json:"first"`
}

// Segment is one that is read.
type Segment struct {
	Log          Object `json:"log"`
	Range        Range  `json:"range"`         // the offsets that are read from it
	Whole        Range  `json:"whole"`         // all that it has
	MaxTimestamp int64  `json:"max_timestamp"` // of its records, in milliseconds; -1: not known. It is a bound, there may be no record that has it
	Size         int64  `json:"size"`          // in bytes, as the broker had it
}

// Log is what a store holds of a topic. It does not change, and may be used concurrently.
type Log struct {
	Topic      string
	TopicID    string
	Partitions []*Partition // ascending by number, those that have a segment
	// Ignored counts the objects that are of the topic, but of no segment that is complete.
	Ignored int

	store blob.Store
	keys  map[string]*rsa.PrivateKey
}

// Partition is what a store holds of a partition.
type Partition struct {
	Partition int32
	Segments  []Segment // those that are read, ascending
	// Ranges are the offsets that can be read, ascending, with a gap between each and the next: the segments without a hole between
	// them, up to the oldest transaction that is not decided by them.
	Ranges []Range
	// Gaps are all other offsets between the first and the last segment's end, ascending.
	Gaps []Gap
	// Epochs are the lineage, ascending. The first begins where the log started when the last segment was copied.
	Epochs []Epoch
	// Stale names the segments that are read in part or not at all, because their records are not of the lineage.
	Stale []string

	runs    []run
	lineage *segment
}

// Handover returns where reading from the store must end that begins at offset from: reading goes on from the brokers there, with
// committed records only. Where the store does not have from, that is from itself.
func (p *Partition) Handover(from int64) int64 {
	for _, r := range p.Ranges {
		if from >= r.First && from < r.Next {
			return r.Next
		}
	}
	return from
}

// Objects returns what must be listed for the offsets [from, to) to be read in the same way: it is [Options.Objects] of a later
// listing of this partition, and what a plan's digest is to cover.
func (p *Partition) Objects(from, to int64) []Object {
	var out []Object
	for _, r := range p.runs {
		if r.first >= to || r.next <= from {
			continue
		}
		for _, piece := range r.pieces {
			// Those after the range decide its transactions.
			if piece.next > from {
				out = append(out, piece.seg.objects()...)
			}
		}
	}
	if len(out) > 0 && p.lineage != nil {
		out = append(out, p.lineage.objects()...)
	}
	slices.SortFunc(out, func(a, b Object) int { return strings.Compare(a.Key, b.Key) })
	return slices.Compact(out)
}

// Find returns the partition with that number, or nil.
func (l *Log) Find(partition int32) *Partition {
	for _, p := range l.Partitions {
		if p.Partition == partition {
			return p
		}
	}
	return nil
}

// List finds the segments of a topic, reads what they say of themselves, and decides which offsets can be read from which. No record is read,
// but where a segment is good in part only, or has no snapshot of its producers. A topic that the store has nothing of is an error.
func List(ctx context.Context, store blob.Store, opts Options) (*Log, error) {
	l, err := list(ctx, store, opts)
	if err != nil {
		return nil, fmt.Errorf("list the tiered segments of topic %s: %w", opts.Topic, err)
	}
	return l, nil
}

func list(ctx context.Context, store blob.Store, opts Options) (*Log, error) {
	switch {
	case opts.Topic == "" || strings.Contains(opts.Topic, "/"):
		return nil, errors.New("this is no topic's name")
	case opts.Layout != Aiven && opts.Layout != Local:
		return nil, fmt.Errorf("layout %q is not read, only %q and %q", opts.Layout, Aiven, Local)
	case opts.TopicID != "" && !isID(opts.TopicID):
		return nil, fmt.Errorf("topic id %q: want the 22 characters that Kafka's tools print", opts.TopicID)
	}
	in := &inventory{store: store, opts: opts}
	found, err := in.take(ctx)
	if err != nil {
		return nil, err
	}
	l := &Log{Topic: opts.Topic, TopicID: in.topicID, Ignored: in.ignored, store: store, keys: opts.Keys}
	for _, segments := range found {
		p, err := l.arrange(ctx, segments)
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", segments[0].partition, err)
		}
		l.Partitions = append(l.Partitions, p)
	}
	slices.SortFunc(l.Partitions, func(a, b *Partition) int { return int(a.Partition) - int(b.Partition) })
	return l, nil
}
