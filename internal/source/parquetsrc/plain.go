package parquetsrc

import (
	"fmt"
	"strings"
)

// plain is a folder whose names say nothing, as of Firehose, of Flink or of people. If the files have offset and partition columns, the columns say
// where they lie in the log. If none has, the run is at-least-once.
var plain = profile{
	roots:     func(string) []string { return []string{""} },
	parse:     func(_, rel string) (name, error) { return parquetFile(rel) },
	expect:    func(string) string { return "any .parquet file" },
	unordered: true,
	offsets:   "have the exporter write it, and name it under source.segments.columns",
}

// redpanda is the data files of Redpanda's Iceberg topics, without the table: what lies in the folder is read, whichever snapshot has it. Their
// columns say where they lie in the log; records that Redpanda could not translate are in the table <topic>~dlq, and their offsets are gaps.
var redpanda = profile{
	roots: func(string) []string { return []string{"data/", ""} },
	parse: func(_, rel string) (name, error) {
		if strings.HasPrefix(rel, "metadata/") || strings.HasSuffix(rel, ".avro") || strings.HasSuffix(rel, ".metadata.json") {
			return name{}, passedMetadata
		}
		return parquetFile(rel)
	},
	expect:  func(string) string { return "data/….parquet" },
	offsets: "Redpanda has it in the structure redpanda, with partition and timestamp: if the table was written anew, name its columns under source.segments.columns",
}

// parquetFile accepts any .parquet file.
func parquetFile(rel string) (name, error) {
	if !strings.HasSuffix(rel, ".parquet") && !strings.HasSuffix(rel, ".parq") {
		return name{}, fmt.Errorf("it is no .parquet file; move other objects away")
	}
	return name{partition: -1}, nil
}
