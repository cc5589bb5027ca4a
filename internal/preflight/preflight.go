// Package preflight asks, for every plan, whether the log is the source of truth: whether all that a window needs is still there, and will be
// until the run has read it; whether it is decided, and what the record times mean.
//
// It is pure: facts about the topic go in (topicinfo gathers them from the brokers), findings come out, the same for the same
// facts. What is not known is a finding of its own, never an ok. A finding that refuses may be accepted by name where a person can know better; what
// no person can decide is marked so, and cannot be accepted.
package preflight

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"hindcast/internal/plan"
	"hindcast/internal/spec"
)

// Rule names what is asked; it is what a person accepts a finding by.
type Rule string

// The rules, in the order of their findings.
const (
	Compacted    Rule = "compacted"    // does the log keep every record, or the last of each key?
	Deleted      Rule = "deleted"      // are offsets of the read range gone?
	Retention    Rule = "retention"    // will what the run reads from the brokers be there until it has been read?
	Transactions Rule = "transactions" // is everything before the pinned ends decided?
	Uncommitted  Rule = "uncommitted"  // do the exports hold records of aborted transactions?
	Clock        Rule = "clock"        // whose clock are the record times?
	Partitions   Rule = "partitions"   // were partitions added in the read range?
)

// Rules lists the rules.
func Rules() []Rule {
	return []Rule{Compacted, Deleted, Retention, Transactions, Uncommitted, Clock, Partitions}
}

// State is what a rule comes to.
type State string

// The states.
const (
	OK      State = "ok"
	Warn    State = "warn"
	Refuse  State = "refuse"
	Unknown State = "unknown" // it cannot be told
)

// Finding is what a rule found.
type Finding struct {
	Rule  Rule   `json:"rule"`
	State State  `json:"state"`
	Text  string `json:"text"`          // what, and where
	Why   string `json:"why,omitempty"` // why it is not known
	Fix   string `json:"fix,omitempty"` // what to do; empty where there is nothing to
	// Final says that nobody can accept it: what it is about is not a matter of opinion.
	Final bool `json:"final,omitempty"`
	// Accepted says that a person has accepted it, by name.
	Accepted bool `json:"accepted,omitempty"`
}

// Blocks reports whether the finding keeps a run from being planned.
func (f Finding) Blocks() bool { return f.State == Refuse && !f.Accepted }

// Input is what the rules are asked about.
type Input struct {
	// Now is the instant at which brokers act, in microseconds: not the one that the plan is made for.
	Now int64
	// Plan is nil where none could be made: then only the rules about the topic itself are asked.
	Plan      *plan.Plan
	Inventory plan.Inventory
	Facts     Facts
	// Rows is how many rows the workers will read, as often as they do.
	Rows int64
}

// Check asks the rules. It gives one finding a rule, in their order.
func Check(in Input) []Finding {
	c := checker{in}
	if in.Plan == nil {
		return []Finding{c.compacted(), c.clock()}
	}
	return []Finding{c.compacted(), c.deleted(), c.retention(), c.transactions(), c.uncommitted(), c.clock(), c.partitions()}
}

// What one worker does in a second, measured on the retail sample on a machine of two cores and rounded down: it makes estimates, which are no promise.
const (
	computeRate = 500_000 // rows read and folded
	captureRate = 50_000  // records of the tail decoded and written as segments
)

// Estimate is about how long a run takes that captures so many records of the tail and whose one worker reads so many rows.
func Estimate(tail, rows int64) spec.Duration {
	d := spec.Duration(float64(tail)/captureRate*float64(spec.Second)) + spec.Duration(float64(rows)/computeRate*float64(spec.Second))
	return max(spec.Second, (d+spec.Second/2)/spec.Second*spec.Second)
}

// ParseRules reads the names that a person accepts findings by: each may be several, parted by commas.
func ParseRules(names []string) ([]Rule, error) {
	var out []Rule
	for _, list := range names {
		for name := range strings.SplitSeq(list, ",") {
			r := Rule(strings.TrimSpace(name))
			if !slices.Contains(Rules(), r) {
				return nil, fmt.Errorf("%q is no finding of the preflight: they are %s", name, strings.Join(ruleNames(Rules()), ", "))
			}
			if !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// Accept marks the findings that a person has accepted. A name that accepts nothing (the finding is ok, or nobody can accept it) is an error.
func Accept(findings []Finding, rules []Rule) error {
	var errs []error
	for _, r := range rules {
		i := slices.IndexFunc(findings, func(f Finding) bool { return f.Rule == r })
		switch {
		case i < 0:
			errs = append(errs, fmt.Errorf("accepted by --accept %s, but the plan was not asked about it", r))
		case findings[i].State == OK:
			errs = append(errs, fmt.Errorf("accepted by --accept %s, but there is nothing to accept: %s", r, findings[i].Text))
		case findings[i].Final:
			errs = append(errs, fmt.Errorf("%s cannot be accepted: %s", r, findings[i].Text))
		default:
			findings[i].Accepted = true
		}
	}
	return errors.Join(errs...)
}

// RefusedError refuses a plan by findings that nobody has accepted.
type RefusedError struct{ Findings []Finding }

func (e *RefusedError) Error() string {
	var b strings.Builder
	b.WriteString("preflight: the log cannot be taken for the truth:")
	for _, f := range e.Findings {
		fmt.Fprintf(&b, "\n  %s: %s", f.Rule, f.Text)
		if f.Fix != "" {
			fmt.Fprintf(&b, "\n    do: %s", f.Fix)
		}
	}
	return b.String()
}

// Acceptable are the rules that a person may accept.
func (e *RefusedError) Acceptable() []Rule {
	var out []Rule
	for _, f := range e.Findings {
		if !f.Final {
			out = append(out, f.Rule)
		}
	}
	return out
}

// Refused gives a [RefusedError] if a finding blocks.
func Refused(findings []Finding) error {
	var e RefusedError
	for _, f := range findings {
		if f.Blocks() {
			e.Findings = append(e.Findings, f)
		}
	}
	if len(e.Findings) == 0 {
		return nil
	}
	return &e
}

func ruleNames(rules []Rule) []string {
	out := make([]string, len(rules))
	for i, r := range rules {
		out[i] = string(r)
	}
	return out
}
