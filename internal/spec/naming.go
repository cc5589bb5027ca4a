package spec

// Naming is a profile of how an exporter names its objects: what a name, and a folder, says of where a segment lies in the log.
type Naming string

// The namings. Package parquetsrc has their forms.
const (
	// KafkaConnect is Confluent's S3 sink, with any partitioner: …/<topic>/<folders>/<topic>+P+OFFSET….parquet, of the first offset.
	KafkaConnect Naming = "kafka-connect"
	// Aiven is Aiven's S3 sink with its default template: <topic>-P-OFFSET, of the first offset.
	Aiven Naming = "aiven"
	// Lenses is Lenses' S3 sink, whose names have the last offset: <topic>/P/OFFSET_….parquet or <topic>(P_OFFSET).parquet.
	Lenses Naming = "lenses"
	// Spark is Spark's streaming file sink: the files that _spark_metadata commits.
	Spark Naming = "spark"
	// Redpanda is the data files of Redpanda's Iceberg topics.
	Redpanda Naming = "redpanda"
	// PlainFolder is a folder whose names say nothing.
	PlainFolder Naming = "plain"
)

// Namings lists them.
func Namings() []Naming { return []Naming{KafkaConnect, Aiven, Lenses, Spark, Redpanda, PlainFolder} }

func namings() []string {
	var out []string
	for _, n := range Namings() {
		out = append(out, string(n))
	}
	return out
}

// columns are the names that the exporter gives to what Kafka knows of a record, where a job does not say.
func (n Naming) columns() KafkaColumns {
	switch n {
	case Aiven: // format.output.fields; the partition is in the name only
		return KafkaColumns{Partition: "partition", Offset: "offset", Time: "timestamp"}
	case Spark: // of its Kafka source
		return KafkaColumns{Partition: "partition", Offset: "offset", Time: "timestamp"}
	case Lenses: // of its envelope
		return KafkaColumns{Partition: "metadata.partition", Offset: "metadata.offset", Time: "metadata.timestamp"}
	case Redpanda:
		return KafkaColumns{Partition: "redpanda.partition", Offset: "redpanda.offset", Time: "redpanda.timestamp"}
	}
	return KafkaColumns{Partition: "kafka_partition", Offset: "kafka_offset", Time: "kafka_timestamp"}
}
