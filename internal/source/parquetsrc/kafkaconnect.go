package parquetsrc

import (
	"fmt"
	"path"
	"strings"
)

// kafkaConnect is Confluent's S3 sink: [topics/]<topic>/<folders>/<topic>+P+OFFSET[.codec].parquet, OFFSET being that of the first row. Its default
// partitioner has one folder, partition=P; others have folders of time (of a clock that is the connector's by default) or of a field's values,
// of which several are open at a time. What folders say is never used. The location is what holds the topics folder, that folder (topics.dir), or
// the topic's own.
//
// Source: kafka-connect-storage-common (PartitionerConfig, FileUtils) and kafka-connect-storage-cloud.
var kafkaConnect = profile{
	roots:   func(topic string) []string { return []string{"topics/" + topic + "/", topic + "/", ""} },
	parse:   parseKafkaConnect,
	expect:  func(topic string) string { return fmt.Sprintf("topics/%s/…/%s+P+OFFSET.parquet", topic, topic) },
	offsets: "have the connector write it: transform InsertField$Value with offset.field, partition.field and timestamp.field",
}

func parseKafkaConnect(topic, rel string) (name, error) {
	const want = "a segment is named partition=P/TOPIC+P+OFFSET.parquet, with folders of a time or field in place of partition=P, and where a codec may stand before .parquet; " +
		"move other objects away"
	dir, base := path.Split(rel)
	folders := strings.Split(strings.TrimSuffix(dir, "/"), "/")
	rest, ok := strings.CutPrefix(base, topic+"+")
	if !ok {
		if folders[0] == "topics" || dir == "" && !strings.HasSuffix(base, ".parquet") {
			return name{}, passedOther // the location holds other things, too
		}
		if !strings.HasSuffix(base, ".parquet") {
			return name{}, fmt.Errorf("it is no .parquet file; %s", want)
		}
		return name{}, fmt.Errorf("its name does not begin with the topic, %s+; %s", topic, want)
	}
	p, rest, ok := strings.Cut(rest, "+")
	partition, more, isNumber := partitionNumber(p)
	if !ok || !isNumber || more != "" {
		return name{}, fmt.Errorf("%q is no partition number; %s", p, want)
	}
	label, isPartition := strings.CutPrefix(folders[0], "partition=")
	byPartition := len(folders) == 1 && isPartition
	if byPartition && label != p {
		return name{}, fmt.Errorf("its name does not have the partition of its folder, %s; %s", label, want)
	}
	first, extension, ok := digits(rest)
	if !ok || !strings.HasPrefix(extension, ".") {
		return name{}, fmt.Errorf("its name has no offset behind the partition; %s", want)
	}
	switch {
	case strings.HasPrefix(extension, ".keys.") || strings.HasPrefix(extension, ".headers."):
		return name{}, passedBeside
	case path.Base(strings.TrimSuffix(dir, "/")) == "tombstone":
		return name{}, passedTombstones
	case !strings.HasSuffix(base, ".parquet"):
		return name{}, fmt.Errorf("it is no .parquet file; %s", want)
	case dir == "":
		return name{}, fmt.Errorf("it lies in no folder; %s", want)
	}
	return name{partition: partition, edge: firstEdge, offset: first, loose: !byPartition}, nil
}
