package check

import "fmt"

// Status is what a check came to.
type Status string

// The statuses.
const (
	OK   Status = "ok"
	Warn Status = "warn" // to be looked at; it does not keep the candidate from being promoted
	Fail Status = "fail"
	// NotApplicable means that there was nothing to check; the summary says why.
	NotApplicable Status = "not-applicable"
)

// Result is the outcome of one check.
type Result struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	// Summary is one sentence with the figures.
	Summary string `json:"summary"`
	// Findings are single things that are wrong, at most [MaxFindings]; Total counts all of them.
	Findings []string `json:"findings,omitempty"`
	Total    int64    `json:"total,omitempty"`
	// Figures are the numbers behind the summary, by name.
	Figures map[string]int64 `json:"figures,omitempty"`
	// Do says what to do about a warning or failure.
	Do string `json:"do,omitempty"`
}

// MaxFindings is how many findings a result keeps.
const MaxFindings = 20

// find adds a finding.
func (r *Result) find(format string, args ...any) {
	if r.Total++; len(r.Findings) < MaxFindings {
		r.Findings = append(r.Findings, fmt.Sprintf(format, args...))
	}
}

// Verdict is what all checks of a run say about one candidate.
type Verdict struct {
	Run string `json:"run"`
	// Candidate is the digest of the candidate that was checked. Nothing else may be promoted on its account.
	Candidate string   `json:"candidate"`
	Results   []Result `json:"results"`
}

// Passed reports whether the candidate may be promoted: checks were made, and none failed.
func (v Verdict) Passed() bool {
	for _, r := range v.Results {
		if r.Status != OK && r.Status != Warn && r.Status != NotApplicable {
			return false
		}
	}
	return len(v.Results) > 0 && v.Candidate != ""
}
