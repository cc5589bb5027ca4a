package spec

// kind is what a key's value must be.
type kind int

const (
	text     kind = iota + 1 // a string
	texts                    // a string, or a list of them
	boolean                  // true or false
	count                    // an integer, not negative
	share                    // a percentage
	duration                 // a length of time
	size                     // a number of bytes
	mapping                  // nested keys
	named                    // a mapping of names that the user chooses to mappings
	pairs                    // a mapping of names that the user chooses to single values
	list                     // a list of mappings
	secret                   // the name of a variable that has it
	unbuilt                  // known, but not built yet: refused by name
)

// key is one key of job.yaml. The table below is all that the parser accepts, and what the JSON Schema is made of.
type key struct {
	name     string
	kind     kind
	doc      string // for unbuilt keys: what they will be for
	required bool
	enum     []string
	later    []string // values that are known, but not built yet
	keys     []key    // of a mapping, or of the mappings of a list or of names
}

func jobKeys() []key {
	return []key{
		{name: "job", kind: text, required: true, doc: "The job's name, in lower case."},
		{name: "why", kind: text, doc: "What the job is for, in a sentence."},
		{name: "source", kind: mapping, required: true, doc: "The log that the job reads.", keys: sourceKeys()},
		{name: "outputs", kind: list, required: true, doc: "The tables that the job writes; they change together.", keys: outputKeys()},
		{
			name: "dataset", kind: text, required: true,
			doc: "Where the tables lie: a bare name (below the workspace's datasets), or a file:// or s3:// URL.",
		},
		{name: "checks", kind: mapping, doc: "What a candidate must pass before it can be promoted.", keys: checkKeys()},
		{
			name: "promote", kind: text, enum: []string{string(Ask), string(Auto), string(Approval)},
			doc: "Who moves the pointer when the checks pass: ask (a person, the default), auto, or approval (the run, which waits for a person to approve).",
		},
		{name: "budget", kind: unbuilt, doc: "a limit on what a run may cost"},
	}
}

func sourceKeys() []key {
	return []key{
		{name: "topic", kind: text, required: true, doc: "The Kafka topic."},
		{name: "segments", kind: mapping, required: true, doc: "Where the exported history lies.", keys: []key{
			{name: "parquet", kind: text, doc: "A folder of Parquet segments: a path, or a file:// or s3:// URL. Either this or tiered."},
			{
				name: "naming", kind: text, enum: namings(), later: []string{"flink", "firehose", "debezium", "tableflow"},
				doc: "How the exporter names its objects, which says where a segment lies in the log: kafka-connect (Confluent's S3 sink, any partitioner), aiven, lenses, " +
					"spark (what _spark_metadata commits), redpanda, or plain (names say nothing). Default: kafka-connect.",
			},
			{name: "columns", kind: mapping, doc: "The columns that hold what Kafka knows of a record: one in structures by its path, as redpanda.offset.", keys: []key{
				{name: "partition", kind: text, doc: "Default: kafka_partition, or what the naming's exporter calls it."},
				{name: "offset", kind: text, doc: "Default: kafka_offset, or what the naming's exporter calls it."},
				{name: "time", kind: text, doc: "The record time. Default: kafka_timestamp, or what the naming's exporter calls it."},
			}},
			{name: "value", kind: mapping, doc: "Where the event is not spread over columns but encoded in one of them; of tiered segments, how records' values are encoded, without column: it is the tail's where there is one.", keys: valueKeys()},
			{
				name: "registry", kind: text,
				doc: "The schema registry (Confluent's protocol) that has the schemas of Avro values, of segments and tail: a URL; $NAMES of the environment are expanded.",
			},
			{name: "schema", kind: text, doc: "An .avsc file of the job's folder: the schema of Avro values, of segments and tail, that bear no schema id."},
			{name: "sums", kind: text, doc: "A file in sha256sum's format that the segments must agree with."},
			{
				name: "tiered", kind: text,
				doc: "In place of parquet: where Kafka's tiered storage copies the topic's segments to. s3://BUCKET/PREFIX, with the plugin's key.prefix; or a folder, as a path or a file:// URL.",
			},
			{
				name: "layout", kind: text, enum: []string{string(AivenTiered), string(LocalTiered)},
				doc: "How tiered segments lie: aiven (Aiven's plugin) or local (Kafka's LocalTieredStorage, its rsm.config.dir). Default: aiven.",
			},
			{
				name: "key", kind: pairs,
				doc: "The private keys of encrypted tiered segments, by the ids that the plugin has for them: PEM files, relative to the project; $NAMES of the environment are expanded.",
			},
			{name: "iceberg", kind: unbuilt, doc: "Iceberg tables"},
		}},
		{name: "tail", kind: mapping, doc: "Where the offsets past the last segment are read; without it the segments are all there is.", keys: append([]key{
			{
				name: "brokers", kind: texts, required: true,
				doc: "Addresses, in a list or separated by commas; $NAMES of the environment are expanded. Samples: embedded:PATH.",
			},
			{
				name: "value", kind: text, enum: []string{string(JSON), string(Avro)}, later: []string{"protobuf"},
				doc: "How the records' values are encoded: json (an object) or avro (a record). Default: json.",
			},
		}, accessKeys()...)},
		{name: "event", kind: mapping, required: true, doc: "What identifies and dates an event.", keys: []key{
			{name: "id", kind: text, doc: "The column that identifies an event; a second one with the same id is a duplicate."},
			{name: "time", kind: text, required: true, doc: "The column that says when it happened."},
			{name: "lateness", kind: duration, doc: "How much later than it happened an event may enter the log: 21d, 36h, PT6H."},
			{name: "ahead", kind: duration, doc: "How far its time may be ahead of when it entered the log, by clocks that differ. Default: 1h."},
			{name: "dedupe", kind: boolean, doc: "false keeps events whose id repeats. Default: true."},
			{name: "columns", kind: named, doc: "How single columns are read, by their names: only what their types do not tell.", keys: columnKeys()},
			{name: "upcast", kind: list, doc: "Makes events of older versions look like current ones, in this order.", keys: upcastKeys()},
		}},
	}
}

func outputKeys() []key {
	return []key{
		{name: "table", kind: text, required: true, doc: "The table's name."},
		{
			name: "partition", kind: mapping, required: true,
			doc: "How the table is cut: one of hour, day and month, with zone; or bucket, with count. It never changes.", keys: []key{
				{name: "hour", kind: text, doc: "Cut by hour of this column, the event's time."},
				{name: "day", kind: text, doc: "Cut by day of this column, the event's time."},
				{name: "month", kind: text, doc: "Cut by month of this column, the event's time."},
				{name: "zone", kind: text, doc: "The IANA zone whose clocks decide, as Europe/London or UTC."},
				{name: "bucket", kind: text, doc: "Cut by a hash of this column, a key of the table's rows."},
				{name: "count", kind: count, doc: "The number of buckets."},
			},
		},
		{
			name: "file-size", kind: size,
			doc: "The size at which a partition's next file begins, about: 64MB, 1GiB. It takes effect with what is written next. Default: 256MB.",
		},
		{name: "topic", kind: unbuilt, doc: "writing results to a topic"},
	}
}

func checkKeys() []key {
	return []key{
		{name: "rows", kind: mapping, doc: "Compares the number of rows.", keys: []key{
			{name: "against", kind: text, required: true, enum: []string{string(Base)}, doc: "base: the version that was served when the plan was made."},
			{name: "within", kind: share, required: true, doc: "By how much it may differ: 5%."},
		}},
		{name: "canaries", kind: texts, doc: "CSV files in the job's folder: rows whose right values are known independently."},
		{
			name: "emptied", kind: text, enum: []string{string(RefuseEmptied), string(AllowEmptied)},
			doc: "What to do when a partition that had rows would have none. Default: refuse.",
		},
		{name: "dead-letters", kind: count, doc: "How many unreadable events are accepted. Default: 0."},
		{name: "diff", kind: unbuilt, doc: "a full comparison with the base"},
		{name: "distributions", kind: unbuilt, doc: "comparing distributions with the base"},
		{name: "invariants", kind: unbuilt, doc: "rules that every row must obey"},
	}
}
