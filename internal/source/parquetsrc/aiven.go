package parquetsrc

import (
	"fmt"
	"path"
	"strings"
)

// aiven is Aiven's S3 sink with a template that ends as the default one does, {{topic}}-{{partition}}-{{start_offset}}: the offset of the first row,
// padded or not, and whatever extension. Folders before it, as of {{timestamp}} (by default the connector's clock), say nothing. Objects named
// by {{key}} hold the newest record of each key: that is a state and no history, and is refused.
//
// Source: Aiven-Open/cloud-storage-connectors-for-apache-kafka (FilenameTemplateVariable, OutputFieldType).
var aiven = profile{
	roots:   func(string) []string { return []string{""} },
	parse:   parseAiven,
	expect:  func(topic string) string { return topic + "-PARTITION-OFFSET" },
	offsets: "have the connector write it: format.output.fields with offset and timestamp",
}

func parseAiven(topic, rel string) (name, error) {
	base := path.Base(rel)
	rest, ok := strings.CutPrefix(base, topic+"-")
	if ok {
		if partition, rest, ok := partitionNumber(rest); ok && strings.HasPrefix(rest, "-") {
			if first, extension, ok := digits(rest[1:]); ok && (extension == "" || extension[0] == '.') {
				return name{partition: partition, edge: firstEdge, offset: first}, nil
			}
		}
	}
	if ofAnotherTopic(base) {
		return name{}, passedOther
	}
	return name{}, fmt.Errorf("a segment is named TOPIC-PARTITION-OFFSET, here %s-…; objects that are named by {{key}} hold the newest record of each key, "+
		"which is a state and no history: export by offset, and move other objects away", topic)
}

// ofAnotherTopic reports whether a name is that of a segment of some topic: it ends with a partition and an offset.
func ofAnotherTopic(base string) bool {
	base, _, _ = strings.Cut(base, ".")
	for range 2 {
		i := strings.LastIndexByte(base, '-')
		if _, rest, ok := digits(base[i+1:]); i <= 0 || !ok || rest != "" {
			return false
		}
		base = base[:i]
	}
	return true
}
