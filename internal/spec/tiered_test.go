package spec

import (
	"reflect"
	"strings"
	"testing"
)

func TestTieredSegments(t *testing.T) {
	const parquet = `parquet: samples/retail, naming: kafka-connect, sums: samples/retail/SHA256SUMS`
	parse := func(segments, tail string) (*Spec, error) {
		text := strings.Replace(retail, parquet, segments, 1)
		if tail != "same" {
			text = strings.Replace(text, "  tail: { brokers: \"embedded:samples/retail/tail.jsonl.zst\", value: json }\n", tail, 1)
		}
		return Parse("job.yaml", []byte(text))
	}
	for _, c := range []struct {
		segments, tail string
		want           Tiered
		location       string
		prefixes       []string
	}{
		{"tiered: s3://b/x/y/, key: {k1: $KEYS/one.pem, k2: two.pem}", "same", Tiered{At: "s3://b/x/y/", Layout: AivenTiered, Keys: map[string]string{"k1": "$KEYS/one.pem", "k2": "two.pem"}, Value: JSON}, "s3://b", []string{"x/y/", "x/y"}},
		{"tiered: s3://b", "", Tiered{At: "s3://b", Layout: AivenTiered, Value: JSON}, "s3://b", []string{""}},
		{"tiered: data/tiered, layout: local", "", Tiered{At: "data/tiered", Layout: LocalTiered, Value: JSON}, "data/tiered", []string{"", "kafka-tiered-storage/"}},
		{"tiered: s3://b/x, layout: local", "", Tiered{At: "s3://b/x", Layout: LocalTiered, Value: JSON}, "s3://b", []string{"x/", "x", "x/kafka-tiered-storage/"}},
		{"tiered: t, value: {format: avro}, schema: a.avsc", "", Tiered{At: "t", Layout: AivenTiered, Value: Avro}, "t", []string{""}},
		{"tiered: t, schema: a.avsc", "  tail: {brokers: b:9092, value: avro}\n", Tiered{At: "t", Layout: AivenTiered, Value: Avro}, "t", []string{""}},
		{"tiered: t, value: {}, schema: a.avsc", "  tail: {brokers: b:9092, value: avro}\n", Tiered{At: "t", Layout: AivenTiered, Value: Avro}, "t", []string{""}},
	} {
		s, err := parse(c.segments, c.tail)
		if err != nil {
			t.Errorf("%s: %v", c.segments, err)
			continue
		}
		if got := *s.Source.Segments.Tiered; !reflect.DeepEqual(got, c.want) || s.Source.Segments.Parquet != "" || s.Source.Segments.Value != nil {
			t.Errorf("%s: %+v of %+v", c.segments, got, s.Source.Segments)
		}
		if location, prefixes := c.want.Store(); location != c.location || !reflect.DeepEqual(prefixes, c.prefixes) {
			t.Errorf("%s: the store is %s with %q", c.segments, location, prefixes)
		}
	}
	for _, c := range []struct{ segments, want string }{
		{"schema: a.avsc", "job.yaml:6: source.segments: the key parquet is missing: a folder of Parquet segments; or tiered"},
		{parquet + ", layout: aiven", "job.yaml:6: source.segments.layout: it is for tiered segments"},
		{parquet + ", key: {a: b}", "job.yaml:6: source.segments.key: it is for tiered segments"},
		{parquet + ", tiered: x", "job.yaml:6: source.segments.sums: it is for Parquet segments"},
		{"tiered: x, naming: aiven", "job.yaml:6: source.segments.naming: it is for Parquet segments"},
		{"tiered: gs://x", "job.yaml:6: source.segments.tiered: found a gs:// URL"},
		{"tiered: s3:///x", `job.yaml:6: source.segments.tiered: found "s3:///x", expected s3://BUCKET/PREFIX`},
		{"tiered: x, layout: redpanda", `job.yaml:6: source.segments.layout: found "redpanda", expected aiven or local`},
		{"tiered: x, value: {column: v}", "job.yaml:6: source.segments.value.column: tiered segments have records, not columns"},
		{"tiered: x, value: {format: avro}, schema: a.avsc", "job.yaml:6: source.segments.value: found avro, but the tail's values are json"},
		{"tiered: x, layout: local, key: {k: a.pem}", "job.yaml:6: source.segments.key: LocalTieredStorage does not encrypt"},
		{`tiered: x, key: {k: "-----BEGIN PRIVATE KEY-----"}`, "job.yaml:6: source.segments.key.k: a key itself stands here"},
		{"tiered: x, key: {k: 7}", "job.yaml:6: source.segments.key.k: found the number 7, expected the path of a PEM file"},
		{`tiered: x, key: {k: ""}`, `job.yaml:6: source.segments.key.k: found "", expected the path of a PEM file`},
		{"tiered: x, schema: a.avsc", "job.yaml:6: source.segments.schema: it has no effect"},
	} {
		if s, err := parse(c.segments, "same"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v", c.segments, s, err)
		}
	}
}
