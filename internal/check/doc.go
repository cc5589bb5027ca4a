// Package check proves a candidate, or shows why it cannot be promoted: one file a check, one verdict on exactly one candidate.
//
// Checks look at what the run counted, at what it wrote (read back as readers will read it), and at the base that it was
// planned against. They change nothing, and depend on their inputs only.
package check
