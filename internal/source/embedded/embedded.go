// Package embedded is the broker of samples and tests: franz-go's kfake, in
// process, speaking the Kafka protocol on a local port, with one topic that
// holds exactly the records of a file.
//
// The log of each partition starts at the file's first offset, as if retention had
// deleted what came before. The topic's id depends on the file's contents alone,
// so that a run that is resumed by another process finds the same topic.
// Nothing written to it survives [Broker.Close].
package embedded

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kfake"
)

// Broker is a running broker. Its methods may be called concurrently.
type Broker struct {
	cluster *kfake.Cluster
	dir     string
	addrs   []string

	close    sync.Once
	closeErr error
}

// Start runs a broker with the records of file in topic. The file has one JSON object a line,
//
//	{"partition":0,"offset":12,"timestamp":1323244982000,"key":"…","value":{…}}
//
// and is compressed if its name ends in .zst. The timestamp is in milliseconds; a key or value that is null or absent is null in
// the log, and a value is there as it stands in the file. Lines of a partition must ascend by offset without a gap, and each partition
// up to the highest must have one: its first offset is where its log starts.
//
// The caller must call [Broker.Close]. The records lie in a folder of the system's temporary one until then.
func Start(ctx context.Context, file, topic string) (*Broker, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start the embedded broker: %w", err)
	}
	raw, err := readFile(file)
	if err != nil {
		return nil, fmt.Errorf("start the embedded broker: %w", err)
	}
	logs, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("start the embedded broker: %s: %w", file, err)
	}
	dir, err := os.MkdirTemp("", "hindcast-broker-")
	if err != nil {
		return nil, fmt.Errorf("start the embedded broker: %w", err)
	}
	id := sha256.Sum256(append([]byte(topic+"\n"), raw...))
	if err := writeState(dir, topic, [16]byte(id[:16]), logs); err != nil {
		return nil, errors.Join(fmt.Errorf("start the embedded broker: %w", err), os.RemoveAll(dir))
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(dir))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the embedded broker: %w", err), os.RemoveAll(dir))
	}
	b := &Broker{cluster: cluster, dir: dir, addrs: cluster.ListenAddrs()}
	// What the broker made of its files is not taken on trust: it passes over a batch that it cannot read.
	for p, log := range logs {
		info := cluster.PartitionInfo(topic, int32(p))
		if info == nil || info.LogStartOffset != log.first || info.HighWatermark != log.next() || info.LastStableOffset != log.next() {
			err := fmt.Errorf("start the embedded broker: partition %d holds %+v, expected offsets %d-%d", p, info, log.first, log.next())
			return nil, errors.Join(err, b.Close())
		}
	}
	return b, nil
}

// Addrs returns the addresses to connect to.
func (b *Broker) Addrs() []string { return b.addrs }

// Close stops the broker and removes what it stored. Closing again does nothing.
func (b *Broker) Close() error {
	b.close.Do(func() {
		// When it closes, the cluster would store what it holds, and wait for the disk a dozen times. A file in the folder's
		// place keeps it from that.
		err := errors.Join(os.RemoveAll(b.dir), os.WriteFile(b.dir, nil, 0o600))
		b.cluster.Close()
		if err := errors.Join(err, os.RemoveAll(b.dir)); err != nil {
			b.closeErr = fmt.Errorf("stop the embedded broker: %w", err)
		}
	})
	return b.closeErr
}

func readFile(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !strings.HasSuffix(file, ".zst") {
		return io.ReadAll(f)
	}
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	raw, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("decompress %s: %w", filepath.Base(file), err)
	}
	return raw, nil
}

// entry is a line of the file.
type entry struct {
	Partition *int32          `json:"partition"`
	Offset    *int64          `json:"offset"`
	Timestamp *int64          `json:"timestamp"`
	Key       *string         `json:"key"`
	Value     json.RawMessage `json:"value"`
}

// partitionLog is the records of a partition, from offset first without a gap.
type partitionLog struct {
	first   int64
	entries []entry
}

func (l *partitionLog) next() int64 { return l.first + int64(len(l.entries)) }

const maxPartitions = 1000

// parse returns the logs by partition.
func parse(raw []byte) ([]partitionLog, error) {
	var logs []partitionLog
	in := json.NewDecoder(bytes.NewReader(raw))
	in.DisallowUnknownFields()
	for n := 1; ; n++ {
		var e entry
		if err := in.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("record %d: %w", n, err)
		}
		switch {
		case e.Partition == nil || e.Offset == nil || e.Timestamp == nil:
			return nil, fmt.Errorf("record %d: partition, offset and timestamp are needed", n)
		case *e.Partition < 0 || *e.Partition >= maxPartitions || *e.Offset < 0:
			return nil, fmt.Errorf("record %d: there is no partition %d, offset %d", n, *e.Partition, *e.Offset)
		}
		p := int(*e.Partition)
		for len(logs) <= p {
			logs = append(logs, partitionLog{})
		}
		log := &logs[p]
		if len(log.entries) == 0 {
			log.first = *e.Offset
		}
		if *e.Offset != log.next() {
			return nil, fmt.Errorf("record %d: partition %d has offset %d after %d: every offset must be there, in order", n, p, *e.Offset, log.next()-1)
		}
		log.entries = append(log.entries, e)
	}
	if len(logs) == 0 {
		return nil, errors.New("no records")
	}
	for p, log := range logs {
		if len(log.entries) == 0 {
			return nil, fmt.Errorf("no record of partition %d, so its offsets are unknown", p)
		}
	}
	return logs, nil
}
