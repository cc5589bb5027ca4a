package parquetsrc

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// lenses is Lenses' S3 sink, whose names have the offset of the LAST row: …/<topic>/P/OFFSET[_MINTIME_MAXTIME].parquet, or, where it is partitioned by
// values (PARTITIONBY), <topic>(P_OFFSET).parquet, of which several are filled side by side. Times in names are not used. Its .indexes
// are passed over, as everything hidden is.
//
// Source: lensesio/stream-reactor, cloud-common (KeyNamer, FileNamer).
var lenses = profile{
	roots: func(string) []string { return []string{""} },
	parse: parseLenses,
	expect: func(topic string) string {
		return fmt.Sprintf("%s/P/OFFSET_….parquet or %s(P_OFFSET).parquet", topic, topic)
	},
	offsets: "have the connector write its envelope ('store.envelope'=true), flattened",
}

func parseLenses(topic, rel string) (name, error) {
	const want = "a segment is named TOPIC/P/LASTOFFSET_….parquet or TOPIC(P_LASTOFFSET).parquet; move other objects away"
	if !strings.HasSuffix(rel, ".parquet") {
		if !strings.Contains(rel, "/") {
			return name{}, passedOther // the location holds other things, too
		}
		return name{}, fmt.Errorf("it is no .parquet file; %s", want)
	}
	folders := strings.Split(rel, "/")
	base := folders[len(folders)-1]
	if of, rest, ok := strings.Cut(base, "("); ok {
		if of != topic {
			return name{}, passedOther
		}
		partition, rest, ok := partitionNumber(rest)
		if ok && strings.HasPrefix(rest, "_") {
			if last, rest, ok := digits(rest[1:]); ok && strings.HasPrefix(rest, ").") {
				return name{partition: partition, edge: lastEdge, offset: last, loose: true}, nil
			}
		}
		return name{}, fmt.Errorf("between its brackets there is no partition and offset; %s", want)
	}
	last, rest, ok := digits(base)
	if !ok || rest[0] != '.' && rest[0] != '_' {
		return name{}, fmt.Errorf("its name does not begin with an offset; %s", want)
	}
	// Below the topic's own root its folder is not seen.
	if len(folders) == 2 {
		folders = slices.Insert(folders, 0, topic)
	}
	if len(folders) < 3 {
		return name{}, fmt.Errorf("it lies in no folder of a partition; %s", want)
	}
	partition, more, ok := partitionNumber(folders[len(folders)-2])
	switch {
	case !ok || more != "":
		return name{}, fmt.Errorf("its folder %s is no partition; %s", path.Dir(rel), want)
	case folders[len(folders)-3] != topic:
		return name{}, passedOther
	}
	return name{partition: partition, edge: lastEdge, offset: last}, nil
}
