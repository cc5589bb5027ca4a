package parquetsrc

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"hindcast/internal/blob"
)

// name is what an object's key says of it.
type name struct {
	partition int32
	first     int64
}

// ignored reports whether an object is not part of the log by its name:
// markers and folders as other tools leave them, and the keys and headers that
// Kafka Connect writes beside the values.
func ignored(rel string, size int64) bool {
	for part := range strings.SplitSeq(rel, "/") {
		if strings.HasPrefix(part, "_") || strings.HasPrefix(part, ".") {
			return true
		}
	}
	base := path.Base(rel)
	return strings.HasSuffix(base, ".crc") || strings.HasSuffix(base, "_$folder$") || strings.HasSuffix(rel, "/") && size == 0 ||
		strings.Contains(base, ".keys.") || strings.Contains(base, ".headers.")
}

// parseName reads partition=P/<topic>+P+OFFSET….parquet.
func parseName(topic, rel string) (name, error) {
	const want = "a segment is named partition=P/TOPIC+P+OFFSET.parquet, where a codec may stand before .parquet; move other objects away"
	dir, base, ok := strings.Cut(rel, "/")
	label, isPartition := strings.CutPrefix(dir, "partition=")
	switch {
	case !ok || strings.Contains(base, "/") || !isPartition:
		if key, _, found := strings.Cut(dir, "="); found && !isPartition {
			return name{}, fmt.Errorf("it lies under %s=: segments laid out by time or field are not read yet, only those of the default partitioner", key)
		}
		return name{}, fmt.Errorf("%s", want)
	case !strings.HasSuffix(base, ".parquet"):
		return name{}, fmt.Errorf("it is no .parquet file; %s", want)
	}
	rest, ok := strings.CutPrefix(base, topic+"+")
	if !ok {
		return name{}, fmt.Errorf("its name does not begin with the topic, %s+; %s", topic, want)
	}
	p, rest, ok := strings.Cut(rest, "+")
	if !ok || p != label {
		return name{}, fmt.Errorf("its name does not have the partition of its folder, %s; %s", label, want)
	}
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	partition, err := strconv.ParseUint(p, 10, 31)
	if err != nil || partition > math.MaxInt32 {
		return name{}, fmt.Errorf("%q is no partition number; %s", p, want)
	}
	first, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || !strings.HasPrefix(rest[len(digits):], ".") {
		return name{}, fmt.Errorf("its name has no offset behind the partition; %s", want)
	}
	return name{int32(partition), int64(first)}, nil
}

// prefixes are where below the location a topic's segments may lie: location is what holds Kafka
// Connect's topics folder, or is that folder (topics.dir), or the topic's own.
func prefixes(topic string) []string {
	return []string{"topics/" + topic + "/", topic + "/", "partition="}
}

// object is a listed segment.
type object struct {
	blob.Info
	name
}
