// Package check proves a candidate, or shows why it cannot be promoted: one file a check, and one verdict on exactly one candidate.
package check
