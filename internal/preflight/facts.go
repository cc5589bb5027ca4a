package preflight

import (
	"cmp"
	"strconv"

	"hindcast/internal/plan"
)

// Facts are what the brokers say of a topic. The zero value is that of a job without a tail: nobody was asked.
type Facts struct {
	// Asked says that the brokers were asked.
	Asked bool `json:"asked"`
	// Config has the topic's settings by their names; nil where it is not known.
	Config map[string]string `json:"config,omitempty"`
	// Partitions are the topic's, ascending from 0.
	Partitions []PartitionFacts `json:"partitions,omitempty"`
	// NotKnown says, by question, why the brokers did not answer it.
	NotKnown map[Question]string `json:"not_known,omitempty"`
}

// Question is one that brokers may refuse to answer.
type Question string

// The questions.
const (
	AskConfig    Question = "config"    // DescribeConfigs
	AskOffsets   Question = "offsets"   // ListOffsets: where the log starts, and how far it is decided
	AskTimes     Question = "times"     // ListOffsets by time
	AskNeeded    Question = "needed"    // Fetch of what is read first
	AskSizes     Question = "sizes"     // DescribeLogDirs
	AskProducers Question = "producers" // DescribeProducers
	AskAborted   Question = "aborted"   // Fetch
)

// PartitionFacts are those of one partition.
type PartitionFacts struct {
	// Start is where the log starts by now, and Stable up to where it is decided: no transaction is open before it.
	Start, Stable int64
	// First is the first record of the log, Latest the one with the greatest record time; nil where there is none or it is not known.
	First, Latest *Stamp
	// Needed is the first record that is read from the brokers, or one that was sent with it; nil where it is not known.
	Needed *Stamp
	// Bytes is the size of the log on its leader; 0 where it is not known.
	Bytes int64
	// Open are the transactions that are open now, as far as it is known.
	Open []OpenTransaction
	// Aborted are offsets at which aborted transactions begin: each is that of a record that no reader of committed records sees. They are
	// those that ended in Searched or later.
	Aborted  []int64
	Searched plan.Ranges
}

// Stamp is a record's offset and record time, in microseconds.
type Stamp struct{ Offset, Time int64 }

// OpenTransaction is a transaction without an end.
type OpenTransaction struct {
	Producer int64
	Since    int64 // its first offset
	// ID is the transactional id and Timeout how long it may stay open, in milliseconds; empty and 0 where the brokers do not say.
	ID      string
	Timeout int32
}

// setting returns a number of the topic's settings, or ok=false where it is missing or no number.
func (f *Facts) setting(name string) (int64, bool) {
	n, err := strconv.ParseInt(f.Config[name], 10, 64)
	return n, err == nil
}

// why says why a question has no answer.
func (f *Facts) why(q Question) string {
	if !f.Asked {
		return noTail
	}
	return cmp.Or(f.NotKnown[q], "the brokers do not say")
}

const noTail = "the job has no tail, so no broker was asked"

// partition returns the facts of a partition; ok is false where there are none.
func (f *Facts) partition(p int32) (PartitionFacts, bool) {
	if int(p) >= len(f.Partitions) {
		return PartitionFacts{}, false
	}
	return f.Partitions[p], true
}
