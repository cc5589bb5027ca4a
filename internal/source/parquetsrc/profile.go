package parquetsrc

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"hindcast/internal/blob"
	"hindcast/internal/spec"
)

// edge is which offset of a segment its name has.
type edge uint8

const (
	noEdge    edge = iota
	firstEdge      // that of its first row
	lastEdge       // that of its last row
)

// name is what an object's key says of it.
type name struct {
	partition int32 // negative where it is not said
	edge      edge
	offset    int64
	// loose says that several objects of a partition are filled side by side, as by a time or field partitioner: what a name says does not
	// bound its neighbours.
	loose bool
}

// profile is how an exporter names its objects. Each has a file of its own; [profileOf] lists them.
type profile struct {
	// roots are the prefixes below the location under which a topic's objects may lie. The first that has some is taken.
	roots func(topic string) []string
	// parse reads an object's key, as it lies below the folder of a root. A passedOver is no error: the object is no part of the log.
	parse func(topic, rel string) (name, error)
	// expect names the objects of a topic, for people.
	expect func(topic string) string
	// unordered says that names tell no offsets, so that without an offset column a run is at-least-once. Others refuse.
	unordered bool
	// committed, where set, narrows the objects to those that the exporter committed.
	committed func(c commits) error
	// offsets says how the exporter is made to write an offset column.
	offsets string
}

// profileOf returns how a naming's objects are called.
func profileOf(n spec.Naming) (profile, error) {
	switch n {
	case spec.KafkaConnect:
		return kafkaConnect, nil
	case spec.Aiven:
		return aiven, nil
	case spec.Lenses:
		return lenses, nil
	case spec.Spark:
		return spark, nil
	case spec.Redpanda:
		return redpanda, nil
	case spec.PlainFolder:
		return plain, nil
	}
	return profile{}, fmt.Errorf("the naming %q is not read yet", n)
}

// passedOver says why an object is no part of the log, though it lies among the segments.
type passedOver string

func (p passedOver) Error() string { return string(p) }

// Why objects are passed over, as the listing counts them.
const (
	passedHidden     passedOver = "markers and temporary or hidden objects, as _SUCCESS"
	passedFolder     passedOver = "markers of folders"
	passedSums       passedOver = "checksums"
	passedBeside     passedOver = "keys and headers of records, beside their values"
	passedTombstones passedOver = "tombstones: records without a value"
	passedOther      passedOver = "objects of other topics"
	passedMetadata   passedOver = "metadata of tables"
	passedNoCommit   passedOver = "files that _spark_metadata does not commit"
)

// generic returns why an object is no part of the log whatever the exporter; empty where it may be.
func generic(rel string, size int64) passedOver {
	for part := range strings.SplitSeq(rel, "/") {
		if strings.HasPrefix(part, "_") || strings.HasPrefix(part, ".") {
			if strings.HasSuffix(rel, ".crc") {
				return passedSums
			}
			return passedHidden
		}
	}
	base := path.Base(rel)
	switch {
	case strings.HasSuffix(base, ".crc"):
		return passedSums
	case strings.HasSuffix(base, "_$folder$") || strings.HasSuffix(rel, "/") && size == 0:
		return passedFolder
	}
	return ""
}

// folderOf is the folder that a root's objects are named from.
func folderOf(root string) string { return root[:strings.LastIndexByte(root, '/')+1] }

// digits reads a number at the start of s, in decimal with or without leading zeros, and returns what follows.
func digits(s string) (n int64, rest string, ok bool) {
	end := len(s) - len(strings.TrimLeft(s, "0123456789"))
	v, err := strconv.ParseUint(s[:end], 10, 63)
	return int64(v), s[end:], err == nil
}

// partitionNumber reads a topic partition at the start of s.
func partitionNumber(s string) (p int32, rest string, ok bool) {
	n, rest, ok := digits(s)
	return int32(min(n, math.MaxInt32)), rest, ok && n <= math.MaxInt32
}

// object is a listed segment.
type object struct {
	blob.Info
	name
}
