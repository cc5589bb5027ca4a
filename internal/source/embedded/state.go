package embedded

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/url"
	"os"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The broker's data directory is how a topic with a given id and a log that does not start at 0 gets into kfake: over the
// protocol, ids are random and each log starts at 0. A partition's folder has its record batches as they go over the wire, in a
// file named by the first offset. Start compares what the broker found with what was written, so a kfake that
// stores otherwise is noticed at once.

// batchRecords is how many records a batch has. Small batches let a bounded fetch stop near its bound.
const batchRecords = 500

func writeState(dir, topic string, id [16]byte, logs []partitionLog) error {
	type topicState struct {
		Name       string            `json:"name"`
		ID         string            `json:"id"`
		Partitions int               `json:"partitions"`
		Replicas   int               `json:"replicas"`
		Configs    map[string]string `json:"configs"`
	}
	err := writeJSON(filepath.Join(dir, "meta.json"), map[string]any{"version": 1, "cluster_id": "hindcast-embedded"})
	if err != nil {
		return err
	}
	err = writeJSON(filepath.Join(dir, "topics.json"), map[string]any{"version": 1, "topics": []topicState{
		{
			Name: topic, ID: base64.StdEncoding.EncodeToString(id[:]), Partitions: len(logs), Replicas: 1,
			Configs: map[string]string{"retention.ms": "-1"}, // what the file has is never deleted, however old it is
		},
	}})
	if err != nil {
		return err
	}
	for p, log := range logs {
		var data []byte
		for at := 0; at < len(log.entries); at += batchRecords {
			data = appendBatch(data, log.entries[at:min(len(log.entries), at+batchRecords)])
		}
		folder := filepath.Join(dir, "partitions", fmt.Sprintf("%s-%d", url.PathEscape(topic), p))
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%d.dat", log.first)), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func writeJSON(file string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

// appendBatch appends the entries as one record batch of format 2.
func appendBatch(out []byte, entries []entry) []byte {
	const (
		lengthAt = 12 // what comes after the length field
		crcAt    = 17
		crcFrom  = 21
	)
	b := kmsg.RecordBatch{
		FirstOffset: *entries[0].Offset, Magic: 2, LastOffsetDelta: int32(len(entries) - 1), NumRecords: int32(len(entries)),
		FirstTimestamp: *entries[0].Timestamp, MaxTimestamp: *entries[0].Timestamp, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
	}
	var scratch []byte
	for i, e := range entries {
		r := kmsg.Record{OffsetDelta: int32(i), TimestampDelta64: *e.Timestamp - b.FirstTimestamp}
		if e.Key != nil {
			r.Key = []byte(*e.Key)
		}
		if len(e.Value) > 0 && string(e.Value) != "null" {
			r.Value = e.Value
		}
		scratch = r.AppendTo(scratch[:0])
		r.Length = int32(len(scratch) - 1) // a length of 0 takes one byte
		b.Records = r.AppendTo(b.Records)
		b.MaxTimestamp = max(b.MaxTimestamp, *e.Timestamp)
	}
	start := len(out)
	out = b.AppendTo(out)
	batch := out[start:]
	binary.BigEndian.PutUint32(batch[8:], uint32(len(batch)-lengthAt))
	binary.BigEndian.PutUint32(batch[crcAt:], crc32.Checksum(batch[crcFrom:], crc32.MakeTable(crc32.Castagnoli)))
	return out
}
