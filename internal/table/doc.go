// Package table is how results lie in a dataset: files, partitions, immutable
// versions, and the readers of one version. It does not move the pointer; see
// package serve for that.
//
// A dataset is one or more tables that change together:
//
//	pointer.json                                        the only mutable object: names the manifest that is served
//	manifests/<generation>-<digest>.json                a version: every partition and file of every table
//	data/<run>/<table>/<partition>/part-0000.parquet    rows, sorted by key, across part-0001 and so on; the partition column first
//
// Everything but the pointer is written once, under a name that nothing else
// uses: by [PutOnce], which takes an object with the same contents for its own and refuses any other. A file
// belongs to a version only through a manifest, and a manifest is served only
// through the pointer or as an ancestor of one that is; what a run writes is unreachable until then.
//
// A manifest is read by its digest, and names its parent by digest, so a history
// is one chain that cannot be altered behind its pointer. Manifests, pointers and
// candidates are canonical JSON: what does not encode back to the same bytes is
// refused, and with it unknown, repeated and misspelt fields.
//
// A [Candidate] is a version to be: the partitions that a run replaces, their new
// files, and a digest of what the base had there. [Candidate.Apply] makes a
// version of it on any base that still has exactly that, and carries over all
// other partitions; [Revert] takes a version's partitions back out under the same rule.
package table
