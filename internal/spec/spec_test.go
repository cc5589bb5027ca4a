package spec

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"hindcast/internal/partition"
	"hindcast/internal/unit"
)

var update = flag.Bool("update", false, "write golden files anew")

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it anew):\n%s", path, got)
	}
}

func TestParse(t *testing.T) {
	day := partition.Scheme{Unit: partition.Day, Column: "occurred_at", Zone: "Europe/London"}
	for _, c := range []struct {
		name, yaml string
		want       Spec
	}{
		{"retail", retail, Spec{
			Job: "daily-country-revenue", Why: "Net revenue by London day and country, cancellations subtracted",
			Source: Source{
				Topic: "retail.invoice-lines",
				Segments: Segments{
					Parquet: "samples/retail", Naming: KafkaConnect, Sums: "samples/retail/SHA256SUMS",
					Columns: KafkaColumns{"kafka_partition", "kafka_offset", "kafka_timestamp"},
				},
				Tail:  &Tail{Brokers: []string{"embedded:samples/retail/tail.jsonl.zst"}, Value: JSON},
				Event: Event{ID: "event_id", Time: "occurred_at", Lateness: 21 * Day, Ahead: 2 * Hour, Dedupe: true},
			},
			Outputs: []Output{{Table: "daily-country-revenue", Scheme: day}},
			Dataset: "retail",
			Checks:  Checks{Rows: &RowsCheck{Base, 500}, Canaries: []string{"canaries.csv"}, Emptied: RefuseEmptied},
			Promote: Ask,
		}},
		{"accounts", accounts, Spec{
			Job: "account-balance",
			Source: Source{
				Topic:    "retail.invoice-lines",
				Segments: Segments{Parquet: "s3://exports/retail", Naming: KafkaConnect, Columns: KafkaColumns{"p", "o", "t"}},
				Tail:     &Tail{Brokers: []string{"$KAFKA_BROKERS", "b-3:9092"}, Value: JSON},
				Event:    Event{ID: "event_id", Time: "occurred_at", Ahead: Hour},
			},
			Outputs: []Output{
				{Table: "account-balance", Scheme: partition.Scheme{Buckets: 16}, BucketColumn: "account_id"},
				{Table: "ledger-entry", Scheme: partition.Scheme{Unit: partition.Month, Column: "occurred_at", Zone: "Europe/London"}},
			},
			Dataset: "s3://lake/accounts",
			Checks:  Checks{Emptied: RefuseEmptied},
			Promote: Auto,
		}},
	} {
		got, err := Parse("job.yaml", []byte(c.yaml))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, *got, c.want)
		}
		if got.WholeLog() != (c.name == "accounts") {
			t.Errorf("%s: whole log %v", c.name, got.WholeLog())
		}
		b, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, c.name+".json", string(b)+"\n")
		var back Spec
		if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(&back, got) || back.Digest() != got.Digest() {
			t.Errorf("%s: read back: %+v, %v", c.name, back, err)
		}
	}
}

// Each case changes one thing of a right file, and must be told where and what.
func TestMistakesAreNamedWithFileAndLine(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"why: Net", "wyh: Net", `job.yaml:3: wyh: unknown key; did you mean why?`},
		{"  topic:", "  tpoic:", `job.yaml:5: source.tpoic: unknown key; did you mean topic?`},
		{"promote: ask", "color: red", `job.yaml:18: color: unknown key; known here are job, why, source, outputs, dataset, checks, promote`},
		{"promote: ask", "budget: 5 USD", `job.yaml:18: budget: not built yet (a limit on what a run may cost); take the key out`},
		{"promote: ask", "promote: maybe", `job.yaml:18: promote: found "maybe", expected ask, auto or approval`},
		{"promote: ask", "promote: yes", `job.yaml:18: promote: found "yes", expected ask, auto or approval`},
		{"promote: ask", "promote: true", `job.yaml:18: promote: found the truth value true, expected a text`},
		{"job: daily-country-revenue", "job: 2011", `job.yaml:2: job: found the number 2011, expected a text`},
		{"job: daily-country-revenue", "job: Daily Revenue", `job.yaml:2: job: found "Daily Revenue", expected the name of a job`},
		{"job: daily-country-revenue", "job: ../x", `job.yaml:2: job: found "../x", expected the name of a job`},
		{"job: daily-country-revenue\n", "", `job.yaml:2: the key job is missing: the job's name`},
		{"  topic: retail.invoice-lines", "  topic: a/b", `job.yaml:5: source.topic: found "a/b", expected a topic's name`},
		{"parquet: samples/retail", "parquet: gs://x/y", `job.yaml:6: source.segments.parquet: found a gs:// URL`},
		{"naming: kafka-connect", "naming: flink", `job.yaml:6: source.segments.naming: "flink" is not built yet; expected kafka-connect, aiven, lenses, spark, redpanda or plain`},
		{"naming: kafka-connect", "naming: s3", `job.yaml:6: source.segments.naming: found "s3", expected kafka-connect, aiven`},
		{"naming: kafka-connect", "naming: aiven, columns: {offset: timestamp}", `job.yaml:6: source.segments.columns: partition, offset and time must be three columns`},
		{"naming: kafka-connect", "columns: {offset: kafka_partition}", `job.yaml:6: source.segments.columns: partition, offset and time must be three columns`},
		{"value: json", "value: avro", `job.yaml:7: source.tail.value: Avro needs the schema that values were written with: name the schema registry`},
		{"value: json", "value: protobuf", `job.yaml:7: source.tail.value: "protobuf" is not built yet`},
		{"sums: samples/retail/SHA256SUMS", "registry: \"http://r:8081\"", `job.yaml:6: source.segments.registry: it has no effect: no value is read as avro`},
		{"sums: samples/retail/SHA256SUMS", "registry: \"r:8081\"", `job.yaml:6: source.segments.registry: expected an http:// or https:// URL`},
		{"sums: samples/retail/SHA256SUMS", "registry: \"http://me:secret@r:8081\"", `job.yaml:6: source.segments.registry: a password does not belong into a job.yaml`},
		{"sums: samples/retail/SHA256SUMS", "schema: ../line.avsc", `job.yaml:6: source.segments.schema: found "../line.avsc", expected an .avsc file in the job's folder`},
		{"sums: samples/retail/SHA256SUMS", "value: {column: value, format: avro}", `job.yaml:6: source.segments.value.format: Avro needs the schema`},
		{"sums: samples/retail/SHA256SUMS", "value: {format: json}", `job.yaml:6: source.segments.value: the key column is missing`},
		{"sums: samples/retail/SHA256SUMS", "value: {column: kafka_offset}", `job.yaml:6: source.segments.value.column: the column kafka_offset cannot hold the event as well`},
		{
			"sums: samples/retail/SHA256SUMS", "value: {column: v, format: avro}, registry: \"http://r\", schema: a.avsc",
			`job.yaml:6: source.segments: values have their schema from a registry or from a file`,
		},
		{"ahead: 2h", "columns: {}", `job.yaml:8: source.event.columns: found keys and values, expected names, each with what it stands for`},
		{"ahead: 2h", "columns: {price: 3}", `job.yaml:8: source.event.columns.price: found the number 3, expected the keys aliases, scale, zone, unit, int96`},
		{"ahead: 2h", "columns: {price: {}}", `job.yaml:8: source.event.columns.price: it says nothing`},
		{"ahead: 2h", "columns: {price: {scal: 3}}", `job.yaml:8: source.event.columns.price.scal: unknown key; did you mean scale?`},
		{"ahead: 2h", "columns: {price: {scale: 19}}", `job.yaml:8: source.event.columns.price.scale: found 19, expected at most 18 digits`},
		{"ahead: 2h", "columns: {price: {scale: 2, zone: UTC}}", `job.yaml:8: source.event.columns.price: scale is for decimals`},
		{"ahead: 2h", "columns: {at: {zone: Mars}}", `job.yaml:8: source.event.columns.at.zone: unknown zone "Mars"`},
		{"ahead: 2h", "columns: {at: {unit: m}}", `job.yaml:8: source.event.columns.at.unit: found "m", expected s, ms, us or ns`},
		{"ahead: 2h", "columns: {a: {aliases: [x]}, b: {aliases: [x]}}", `job.yaml:8: source.event.columns.b.aliases[0]: the name x is already that of the column a`},
		{"ahead: 2h", "columns: {a: {aliases: b}, b: {aliases: x}}", `job.yaml:8: source.event.columns.a.aliases: the name b is already that of the column b`},
		{"ahead: 2h", "upcast: {below: 2}", `job.yaml:8: source.event.upcast: found keys and values, expected a list with at least one entry`},
		{"ahead: 2h", "upcast: [{below: 2}]", `job.yaml:8: source.event.upcast[0]: by and below belong together`},
		{"ahead: 2h", "upcast: [{by: v, below: 2}]", `job.yaml:8: source.event.upcast[0]: it changes nothing`},
		{"ahead: 2h", "upcast: [{by: v, below: 0, rename: {a: b}}]", `job.yaml:8: source.event.upcast[0].below: found 0, expected at least 1`},
		{"ahead: 2h", "upcast: [{rename: {a: a}}]", `job.yaml:8: source.event.upcast[0].rename.a: the new name is the old one`},
		{"ahead: 2h", "upcast: [{rename: {a: c, b: c}}]", `job.yaml:8: source.event.upcast[0].rename.b: two columns cannot both become c`},
		{"ahead: 2h", "upcast: [{rename: [a]}]", `job.yaml:8: source.event.upcast[0].rename: found a list, expected names`},
		{"ahead: 2h", "upcast: [{default: {a: [1]}}]", `job.yaml:8: source.event.upcast[0].default.a: found a list, expected a text, a plain number, true or false`},
		{"ahead: 2h", "upcast: [{default: {a: 0x10}}]", `job.yaml:8: source.event.upcast[0].default.a: found the number 0x10`},
		{"ahead: 2h", "upcast: [{multiply: {a: 1}}]", `job.yaml:8: source.event.upcast[0].multiply.a: found 1, expected a factor of at least 2`},
		{
			"ahead: 2h", "upcast: [{by: v, below: 2, rename: {a: b}}, {by: w, below: 3, rename: {b: c}}]",
			`job.yaml:8: source.event.upcast[1].by: found w, but an upcast before it goes by v`,
		},
		{"value: json", "sasl: x", `job.yaml:7: source.tail.sasl: found the text "x", expected the keys mechanism, username, password`},
		{"value: json", "sasl: {mechanism: kerberos}", `job.yaml:7: source.tail.sasl.mechanism: found "kerberos", expected plain, scram-sha-256`},
		{"value: json", "sasl: {mechanism: plain, username: u}", `job.yaml:7: source.tail.sasl: plain needs username and password`},
		{"value: json", "sasl: {mechanism: aws-msk-iam, username: u}, tls: {}", `job.yaml:7: source.tail.sasl: aws-msk-iam takes the AWS credentials`},
		{"value: json", "sasl: {mechanism: aws-msk-iam}", `job.yaml:7: source.tail.sasl: aws-msk-iam needs encryption`},
		{"value: json", "tls: {}", `job.yaml:7: source.tail: an embedded broker asks for neither tls nor sasl: take them out`},
		{"value: json", "tls: {cert: a.pem}", `job.yaml:7: source.tail.tls: cert and key belong together`},
		{`"embedded:samples/retail/tail.jsonl.zst"`, `"embedded:x, b:9092"`, `job.yaml:7: source.tail.brokers: an embedded broker stands alone`},
		{`"embedded:samples/retail/tail.jsonl.zst"`, `"b:9092,,c:9092"`, `job.yaml:7: source.tail.brokers: found "b:9092,,c:9092": an address between commas is empty`},
		{`"embedded:samples/retail/tail.jsonl.zst"`, `[]`, `job.yaml:7: source.tail.brokers: found a list, expected a text, or a list with at least one`},
		{`"embedded:samples/retail/tail.jsonl.zst"`, `[b:9092, 7]`, `job.yaml:7: source.tail.brokers[1]: found the number 7, expected a text`},
		{"lateness: 21d", "lateness: 21", `job.yaml:8: source.event.lateness: found the number 21, expected a duration with its unit`},
		{"lateness: 21d", "lateness: 3 weeks", `job.yaml:8: source.event.lateness: duration "3 weeks": unknown unit " weeks": units are w, d, h, m, s, ms, us`},
		{"lateness: 21d", "lateness: P1M", `job.yaml:8: source.event.lateness: duration "P1M": a month has no fixed length`},
		{"lateness: 21d", "lateness: 9999999d", `job.yaml:8: source.event.lateness: 9999999d is more than a hundred years`},
		{"lateness: 21d, ", "", `job.yaml:8: source.event: the key lateness is missing`},
		{"id: event_id, ", "", `job.yaml:8: source.event: the key id is missing`},
		{"id: event_id", "id: occurred_at", `job.yaml:8: source.event.id: the column occurred_at cannot be both`},
		{"time: occurred_at, ", "", `job.yaml:8: source.event: the key time is missing`},
		{"ahead: 2h", "dedupe: no", `job.yaml:8: source.event.dedupe: found the text "no", expected true or false`},
		{"day: occurred_at,", "day: settled_at,", `job.yaml:11: outputs[0].partition.day: found "settled_at", expected the event's time, occurred_at`},
		{"day: occurred_at,", "", `job.yaml:11: outputs[0].partition: a table is cut by one of hour, day, month and bucket; found none of them`},
		{"day: occurred_at,", "day: occurred_at, hour: occurred_at,", `found hour and day`},
		{", zone: Europe/London", "", `job.yaml:11: outputs[0].partition: the key zone is missing`},
		{"zone: Europe/London", "zone: Europe/Londn", `job.yaml:11: outputs[0].partition.zone: unknown zone "Europe/Londn"`},
		{"zone: Europe/London", "zone: Local", `job.yaml:11: outputs[0].partition.zone: "Local" names no zone`},
		{"zone: Europe/London", "zone: UTC, count: 3", `job.yaml:11: outputs[0].partition.count: only a table cut by bucket has a count`},
		{"day: occurred_at, zone: Europe/London", "bucket: account_id", `job.yaml:11: outputs[0].partition: the key count is missing`},
		{"day: occurred_at, zone: Europe/London", "bucket: account_id, count: 0", `job.yaml:11: outputs[0].partition.count: found 0, expected 1 to 10000 buckets`},
		{"day: occurred_at, zone: Europe/London", "bucket: account_id, count: -3", `found the number -3, expected a whole number`},
		{"day: occurred_at, zone: Europe/London", "bucket: account_id, count: 3, zone: UTC", `a table cut by bucket has no zone`},
		{"dataset: retail", "    file-size: 12\ndataset: retail", `job.yaml:12: outputs[0].file-size: found the number 12, expected a size with its unit, as 64MB or 1GiB`},
		{"dataset: retail", "    file-size: 64 MB\ndataset: retail", `job.yaml:12: outputs[0].file-size: "64 MB" is not a size`},
		{"dataset: retail", "    file-size: 999kB\ndataset: retail", `job.yaml:12: outputs[0].file-size: found 999.0 kB, expected 1.0 MB to 5.0 TB`},
		{"dataset: retail", "dataset: a/b", `job.yaml:12: dataset: found "a/b", expected a bare name`},
		{"dataset: retail", "dataset: http://x", `job.yaml:12: dataset: found a http:// URL`},
		{"dataset: retail", "dataset:", `job.yaml:12: dataset: found nothing, expected a text`},
		{"dataset: retail", "job: x", `job.yaml:12: this is not YAML: mapping key "job" already defined`},
		{"within: 5%", "within: 5", `job.yaml:14: checks.rows.within: found the number 5, expected a percentage, as 5%`},
		{"within: 5%", "within: 0.125%", `job.yaml:14: checks.rows.within: "0.125%" is not a share`},
		{"against: base", "against: yesterday", `job.yaml:14: checks.rows.against: found "yesterday", expected base`},
		{"canaries: canaries.csv", "canaries: ../canaries.csv", `job.yaml:15: checks.canaries: found "../canaries.csv", expected a file in the job's folder`},
		{"emptied: refuse", "emptied: ignore", `job.yaml:16: checks.emptied: found "ignore", expected refuse or allow`},
		{"dead-letters: 0", "dead_letters: 0", `job.yaml:17: checks.dead_letters: unknown key; did you mean dead-letters?`},
		{"dead-letters: 0", "invariants: []", `job.yaml:17: checks.invariants: not built yet`},
		{"checks:\n", "checks: &c\n", `an anchor or alias, which a job.yaml has none of`},
		{"dataset: retail", "dataset: !x retail", `a tag, which a job.yaml has none of`},
		{"promote: ask", "---\njob: other", `job.yaml:19: a second document begins here`},
		{"dataset: retail", "dataset: [", `this is not YAML`},
		{retail, "", `job.yaml:1: the file is empty`},
		{retail, "- a", `job.yaml:1: found a list, expected the keys job, why, source`},
		{retail, "7", `job.yaml:1: found the number 7, expected the keys job`},
	} {
		text := strings.Replace(retail, c.old, c.new, 1)
		if text == retail {
			t.Errorf("%q is not in the sample", c.old)
		}
		s, err := Parse("job.yaml", []byte(text))
		if err == nil {
			t.Errorf("%q for %q: parsed as %+v", c.new, c.old, s)
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q for %q:\n got %v\nwant %s", c.new, c.old, err, c.want)
		}
		var e *Error
		if !errors.As(err, &e) || e.File != "job.yaml" || e.Line < 1 {
			t.Errorf("%q for %q: %#v has no file and line", c.new, c.old, err)
		}
	}
}

func TestAllMistakesAreTold(t *testing.T) {
	_, err := Parse("job.yaml", []byte(strings.NewReplacer("promote: ask", "promote: x", "wyh", "wyh", "why:", "wyh:", "5%", "five").Replace(retail)))
	var lines []string
	for l := range strings.SplitSeq(err.Error(), "\n") {
		lines = append(lines, strings.Join(strings.SplitN(l, ":", 4)[:3], ":"))
	}
	want := []string{"job.yaml:3: wyh", "job.yaml:14: checks.rows.within", "job.yaml:18: promote"}
	if !reflect.DeepEqual(lines, want) {
		t.Errorf("mistakes %q, want %q", lines, want)
	}
}

func TestDuplicateTable(t *testing.T) {
	_, err := Parse("job.yaml", []byte(strings.Replace(accounts, "table: ledger-entry", "table: account-balance", 1)))
	if err == nil || !strings.Contains(err.Error(), "job.yaml:19: outputs[1].table: the table account-balance is already an output, in line 17") {
		t.Error(err)
	}
}

func TestBrokersOfTheEnvironment(t *testing.T) {
	env := map[string]string{"KAFKA_BROKERS": "b-1:9092, b-2:9092", "PORT": "9093", "EMPTY": ""}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	tail := Tail{Brokers: []string{"$KAFKA_BROKERS", "b-3:${PORT}"}}
	got, err := tail.Addrs(lookup)
	if want := []string{"b-1:9092", "b-2:9092", "b-3:9093"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	for _, b := range []string{"$NOPE", "$EMPTY"} {
		if got, err := (&Tail{Brokers: []string{b}}).Addrs(lookup); err == nil || !strings.Contains(err.Error(), "the environment has no "+b[1:]) {
			t.Errorf("%s: %q, %v", b, got, err)
		}
	}
}

func TestColumnRulesAndUpcasts(t *testing.T) {
	s, err := Parse("job.yaml", []byte(strings.NewReplacer(
		"sums: samples/retail/SHA256SUMS", "value: {column: payload, format: avro}, registry: \"https://$SR_USER:${SR_KEY}@sr:8081\"", "ahead: 2h",
		`columns: {price: {aliases: [unit_price, "Price"], scale: 3}, occurred_at: {zone: Europe/London, int96: true}, sent: {unit: ms}},
    upcast: [{by: v, below: 2, rename: {amount: price}, default: {currency: "<GBP>", rate: 1.50, live: true}}, {multiply: {price: 10}}]`,
	).Replace(retail)))
	if err != nil {
		t.Fatal(err)
	}
	scale := 3
	want := map[string]Column{
		"price": {Aliases: []string{"unit_price", "Price"}, Scale: &scale}, "occurred_at": {Zone: "Europe/London", INT96: true}, "sent": {Unit: Millis},
	}
	if got := s.Source.Event.Columns; !reflect.DeepEqual(got, want) {
		t.Errorf("columns %+v", got)
	}
	upcasts := []Upcast{
		{
			By: "v", Below: 2, Rename: map[string]string{"amount": "price"},
			Default: map[string]json.RawMessage{"currency": json.RawMessage(`"\u003cGBP\u003e"`), "rate": json.RawMessage("1.50"), "live": json.RawMessage("true")},
		},
		{Multiply: map[string]int64{"price": 10}},
	}
	if got := s.Source.Event.Upcasts; !reflect.DeepEqual(got, upcasts) {
		t.Errorf("upcasts %+v", got)
	}
	env := map[string]string{"SR_USER": "me", "SR_KEY": "se/c @ret"}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	if url, err := s.Source.Segments.RegistryURL(lookup); err != nil || url != "https://me:se%2Fc%20%40ret@sr:8081" {
		t.Errorf("registry %s, %v", url, err)
	}
	delete(env, "SR_KEY")
	if _, err := s.Source.Segments.RegistryURL(lookup); err == nil || !strings.Contains(err.Error(), "the environment has no SR_KEY") {
		t.Error(err)
	}
}

func TestDurations(t *testing.T) {
	for s, want := range map[string]Duration{
		"21d": 21 * Day, "36h": 36 * Hour, "1d12h": 36 * Hour, "90m": 90 * Minute, "1h30m": 90 * Minute, "2w": 14 * Day, "250ms": 250 * Millisecond,
		"7us": 7, "0s": 0, "PT6H": 6 * Hour, "P1DT12H": 36 * Hour, "P3W": 21 * Day, "PT90M": 90 * Minute, "P21D": 21 * Day, "PT1H30M5S": Hour + 30*Minute + 5*Second,
	} {
		got, err := ParseDuration(s)
		if err != nil || got != want {
			t.Errorf("%s: %v, %v", s, got, err)
		}
		if back, err := ParseDuration(got.String()); err != nil || back != got {
			t.Errorf("%s is written %s and read as %v, %v", s, got, back, err)
		}
	}
	for _, s := range []string{
		"", "P", "PT", "P1DT", "d", "21", "21 d", "-1d", "1.5h", "1h1h", "1m1h", "P1Y", "P1M", "P1H", "PT1D", "1y", "99999999999999d", "9223372036854775807h", "1dT1h", "p1d",
	} {
		if got, err := ParseDuration(s); err == nil {
			t.Errorf("%q is %v", s, got)
		}
	}
}

func TestPercents(t *testing.T) {
	for s, want := range map[string]Percent{"5%": 500, "0%": 0, "0.25%": 25, "12.5%": 1250, "100%": 10000, "150%": 15000} {
		got, err := ParsePercent(s)
		if err != nil || got != want || got.String() != s {
			t.Errorf("%s: %d, %v, written %s", s, got, err, got)
		}
	}
	for _, s := range []string{"", "5", "%", "-5%", "5.%", ".5%", "5.123%", "5 %", "NaN%", "1e2%"} {
		if got, err := ParsePercent(s); err == nil {
			t.Errorf("%q is %d", s, got)
		}
	}
}

func TestSizesHaveTheirUnit(t *testing.T) {
	for text, want := range map[string]unit.Bytes{"": DefaultFileSize, "64MB": 64e6, "1GiB": 1 << 30, "1000000B": 1e6, "1500kB": 1.5e6, "2TB": 2e12} {
		job := retail
		if text != "" {
			job = strings.Replace(retail, "dataset: retail", "    file-size: "+text+"\ndataset: retail", 1)
		}
		s, err := Parse("job.yaml", []byte(job))
		if err != nil || s.Outputs[0].TargetSize() != want {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	for _, text := range []string{"MB", "1", "-1MB", "1.5MB", "1mb", "1MiBB", "99999999999999999999MB", "9223372036854775807kB"} {
		if got, err := unit.ParseBytes(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}

func TestJSONSchema(t *testing.T) {
	b, err := JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "schema.json", string(b)+"\n")
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(retail))
	f.Add([]byte(accounts))
	f.Add([]byte(strings.Replace(retail, "ahead: 2h", `columns: {a: {aliases: [x], scale: 3}}, upcast: [{by: v, below: 2, default: {b: "<"}}]`, 1)))
	for _, s := range []string{"", "-", "a: &a [*a]", "? x\n: y", "<<: {a: b}", "job: |\n  x", "outputs: [{partition: {count: 99999999999999999999}}]", "job: \"\\ud800\"", "%YAML 1.2\n---\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Parse("job.yaml", b)
		if err != nil {
			for e := range strings.SplitSeq(err.Error(), "\n") {
				if e == "" {
					t.Fatalf("an error without words: %q", err)
				}
			}
			return
		}
		j, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back Spec
		if err := json.Unmarshal(j, &back); err != nil || !reflect.DeepEqual(&back, s) {
			t.Fatalf("read back: %+v, %v; want %+v", back, err, s)
		}
		if s.Job == "" || len(s.Outputs) == 0 || s.Source.Event.Time == "" || s.Dataset == "" {
			t.Fatalf("not complete: %+v", s)
		}
		for _, o := range s.Outputs {
			if err := o.Scheme.Validate(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"21d", "P1DT12H", "1w2d3h4m5s6ms7us", "PT"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if err != nil {
			return
		}
		if back, err := ParseDuration(d.String()); err != nil || back != d || d < 0 {
			t.Fatalf("%q is %d, written %s, read as %d, %v", s, int64(d), d, int64(back), err)
		}
	})
}

func TestNamingsHaveTheirExportersColumns(t *testing.T) {
	for naming, want := range map[Naming]KafkaColumns{
		KafkaConnect: {"kafka_partition", "kafka_offset", "kafka_timestamp"}, PlainFolder: {"kafka_partition", "kafka_offset", "kafka_timestamp"},
		Aiven: {"partition", "offset", "timestamp"}, Spark: {"partition", "offset", "timestamp"},
		Lenses: {"metadata.partition", "metadata.offset", "metadata.timestamp"}, Redpanda: {"redpanda.partition", "redpanda.offset", "redpanda.timestamp"},
	} {
		s, err := Parse("job.yaml", []byte(strings.Replace(retail, "naming: kafka-connect", "naming: "+string(naming), 1)))
		if err != nil || s.Source.Segments.Naming != naming || s.Source.Segments.Columns != want {
			t.Errorf("%s: %+v, %v", naming, s, err)
		}
		s, err = Parse("job.yaml", []byte(strings.Replace(retail, "naming: kafka-connect", "columns: {offset: o}, naming: "+string(naming), 1)))
		if want.Offset = "o"; err != nil || s.Source.Segments.Columns != want {
			t.Errorf("%s: %+v, %v", naming, s, err)
		}
	}
}

// A password in job.yaml is refused, in whatever form, and no error repeats it. What is accepted is a name, and it is all that a run stores.
func TestSecretsStandInTheEnvironment(t *testing.T) {
	const hunter = "hunter2"
	retail := strings.Replace(retail, "embedded:samples/retail/tail.jsonl.zst", "b:9092", 1)
	with := func(password string) (*Spec, error) {
		sasl := "value: json, tls: {ca: certs/ca.pem, server-name: kafka}, sasl: {mechanism: scram-sha-512, username: $KAFKA_USER, password: " + password + "}"
		return Parse("job.yaml", []byte(strings.Replace(retail, "value: json", sasl, 1)))
	}
	for _, literal := range []string{hunter, `"` + hunter + `"`, "$KAFKA_" + hunter + "$", "'x${KAFKA}" + hunter + "'", "[" + hunter + "]", "{a: " + hunter + "}", "12345", "'${KAFKA-" + hunter + "}'", "$1" + hunter} {
		_, err := with(literal)
		if err == nil || !strings.Contains(err.Error(), "job.yaml:7: source.tail.sasl.password: ") || strings.Contains(err.Error(), hunter) || strings.Contains(err.Error(), "12345") {
			t.Errorf("the password %s: %v", literal, err)
		}
	}
	for _, name := range []string{"$KAFKA_PASSWORD", `"${KAFKA_PASSWORD}"`, `"$KAFKA_PASSWORD"`} {
		s, err := with(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		tail := s.Source.Tail
		if *tail.TLS != (TLS{CA: "certs/ca.pem", ServerName: "kafka"}) || *tail.SASL != (SASL{ScramSHA512, "$KAFKA_USER", strings.Trim(name, `"`)}) {
			t.Errorf("%s: %+v, %+v", name, tail.TLS, tail.SASL)
		}
	}
	s, err := Parse("job.yaml", []byte(strings.Replace(retail, "value: json", "tls: {}", 1)))
	if err != nil || s.Source.Tail.TLS == nil || s.Source.Tail.SASL != nil {
		t.Errorf("tls: {}: %+v, %v", s, err)
	}
	lookup := func(name string) (string, bool) { return "v", name == "A" }
	if got, err := Expand("${A}/$A", lookup); got != "v/v" || err != nil {
		t.Errorf("expanded to %q, %v", got, err)
	}
	if _, err := Expand("$A/$B", lookup); err == nil || !strings.Contains(err.Error(), "has no B") {
		t.Errorf("a variable that is not set: %v", err)
	}
}
