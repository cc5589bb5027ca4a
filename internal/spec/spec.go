// Package spec is what the user asked for: a job's job.yaml and the window of a run.
//
// It owns strict parsing (an unknown key, a wrong type or a bad value is an
// error with file and line), durations, windows and zones. It refuses what is
// not built, by name, and it reads neither files, nor clocks, nor the environment.
package spec

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"hindcast/internal/partition"
	"hindcast/internal/unit"
)

// Spec is a job.yaml. [Parse] makes valid ones, with every default filled in;
// its JSON is what a run stores.
type Spec struct {
	Job     string   `json:"job"`
	Why     string   `json:"why,omitempty"`
	Source  Source   `json:"source"`
	Outputs []Output `json:"outputs"`
	// Dataset is a bare name, which lies under the workspace's datasets, or a file:// or s3:// URL.
	Dataset string  `json:"dataset"`
	Checks  Checks  `json:"checks"`
	Promote Promote `json:"promote"`
}

// Promote says who moves the pointer when the checks pass.
type Promote string

// The values of promote.
const (
	Ask  Promote = "ask"  // a person
	Auto Promote = "auto" // the run itself
	// Approval has the run wait until a person approves, and promote then.
	Approval Promote = "approval"
)

// Source is the log that a job reads.
type Source struct {
	Topic    string   `json:"topic"`
	Segments Segments `json:"segments"`
	// Tail is nil where the exported segments are all there is.
	Tail  *Tail `json:"tail,omitempty"`
	Event Event `json:"event"`
}

// Segments says where the exported history lies.
type Segments struct {
	// Parquet is the location: a path relative to the project, an absolute one, or a file:// or s3:// URL. It is empty where Tiered is set.
	Parquet string `json:"parquet"`
	// Tiered is nil where the segments are Parquet.
	Tiered  *Tiered      `json:"tiered,omitempty"`
	Naming  Naming       `json:"naming"`
	Columns KafkaColumns `json:"columns"`
	// Value is nil where the event's columns are columns of the segments.
	Value *Value `json:"value,omitempty"`
	// Registry is the schema registry of Avro values, as written; see [Segments.RegistryURL]. Schema is the file of the job's
	// folder that has their schema instead, and SchemaText what it holds, which whoever reads the folder fills in.
	Registry   string `json:"registry,omitempty"`
	Schema     string `json:"schema,omitempty"`
	SchemaText string `json:"schema_text,omitempty"`
	// Sums, where set, is a file in sha256sum's format that the segments must agree with.
	Sums string `json:"sums,omitempty"`
}

// KafkaColumns names the columns of a segment that hold what Kafka knows of a record.
type KafkaColumns struct {
	Partition string `json:"partition"`
	Offset    string `json:"offset"`
	Time      string `json:"time"` // record time
}

// Tail says where the offsets past the last segment are read.
type Tail struct {
	// Brokers are as written: addresses, $NAMES of the environment, or one "embedded:PATH". [Tail.Addrs] resolves them.
	Brokers []string `json:"brokers"`
	// Value is how the records' values are encoded.
	Value ValueFormat `json:"value"`
	// TLS and SASL are nil where brokers ask for nothing.
	TLS  *TLS  `json:"tls,omitempty"`
	SASL *SASL `json:"sasl,omitempty"`
}

// ValueFormat is the encoding of a record's value.
type ValueFormat string

// JSON is one object a record, whose members are the event's columns.
const JSON ValueFormat = "json"

// Event says what identifies and dates an event.
type Event struct {
	// ID is the column that identifies an event. It may be empty only where Dedupe is off.
	ID string `json:"id,omitempty"`
	// Time is the column that says when it happened.
	Time string `json:"time"`
	// An event of time t enters the log with a record time in [t-Ahead, t+Lateness].
	Lateness Duration `json:"lateness"`
	Ahead    Duration `json:"ahead"`
	// Dedupe is on unless the job says dedupe: false.
	Dedupe bool `json:"dedupe"`
	// Columns are rules for single columns, by their names. Upcasts make old events look like current ones.
	Columns map[string]Column `json:"columns,omitempty"`
	Upcasts []Upcast          `json:"upcasts,omitempty"`
}

// Output is one table that a job writes.
type Output struct {
	Table  string           `json:"table"`
	Scheme partition.Scheme `json:"scheme"`
	// BucketColumn is the key column that decides, of a table cut in buckets; empty for one cut by time.
	BucketColumn string `json:"bucket_column,omitempty"`
	// FileSize is what the job says of the size of files; 0: nothing. See [Output.TargetSize].
	FileSize unit.Bytes `json:"file_size,omitempty"`
}

// DefaultFileSize is the size at which a partition's next file begins where a job does not say.
const DefaultFileSize unit.Bytes = 256_000_000

// TargetSize is the size at which a partition's next file begins, about.
func (o Output) TargetSize() unit.Bytes { return cmp.Or(o.FileSize, DefaultFileSize) }

// ByTime reports whether the table is cut by time, not by key bucket.
func (o Output) ByTime() bool { return o.Scheme.Buckets == 0 }

// Checks are the thresholds that a candidate must meet.
type Checks struct {
	// Rows is nil where the number of rows is not compared.
	Rows *RowsCheck `json:"rows,omitempty"`
	// Canaries are CSV files of the job's folder.
	Canaries []string `json:"canaries,omitempty"`
	Emptied  Emptied  `json:"emptied"`
	// DeadLetters is how many unreadable events are accepted.
	DeadLetters int64 `json:"dead_letters"`
}

// RowsCheck compares the number of rows with that of the same partitions elsewhere.
type RowsCheck struct {
	Against Against `json:"against"`
	Within  Percent `json:"within"`
}

// Against is what a run is compared with.
type Against string

// Base is the version that was served when the plan was made.
const Base Against = "base"

// Emptied says what to do when a partition that had rows would have none.
type Emptied string

// The values of emptied.
const (
	RefuseEmptied Emptied = "refuse"
	AllowEmptied  Emptied = "allow"
)

// Schemes returns the distinct schemes of the outputs, in their order.
func (s *Spec) Schemes() []partition.Scheme {
	var out []partition.Scheme
	for _, o := range s.Outputs {
		if !slices.Contains(out, o.Scheme) {
			out = append(out, o.Scheme)
		}
	}
	return out
}

// WholeLog reports whether the job is computed from the whole log and has no
// window: one of its tables is cut by key bucket.
func (s *Spec) WholeLog() bool {
	for _, o := range s.Outputs {
		if !o.ByTime() {
			return true
		}
	}
	return false
}

// Digest identifies the spec's contents: "sha256:" and hex digits.
func (s *Spec) Digest() string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // plain data: cannot happen
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
