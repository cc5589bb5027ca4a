// Package serve moves the pointer: promotion, rollback and live commits. It owns
// promises 4 and 5: what was checked is what is served, and one history, whoever races.
//
// # The swap
//
// Every operation has a nonce and goes through one function, swap:
//
//  1. Read the pointer, its ETag E, and the version it names. If the nonce is in that version's history, the operation is done: success.
//  2. Build the next version from that one, or refuse. This is pure: the same version gives the same bytes.
//  3. Write its manifest, under a name that has its digest.
//  4. Put the pointer, on the condition that its ETag is still E (or that there is none yet).
//  5. If the store said yes: done. If it said that the condition does not hold: go to 1. If it did not
//     answer, the put may have landed, or may land later: go to 1 as well, whatever the caller's context says.
//
// Why that is enough. A pointer's bytes have its generation, which only grows, and
// the digest of a manifest that names its parent: no two pointers of a history are
// equal, so an ETag does not come back (no A-B-A). An unanswered put can land only
// while the pointer's ETag is E. So once a later read shows another pointer, the
// put has landed, and its nonce is in the history; or it never will. While the
// read still shows E, the same put is sent again, until it is answered: the answer settles all earlier
// ones. Only when the store does not answer for [Options].Settle is the outcome left open, as [ErrOutcomeUnknown];
// every other error means that nothing can land any more.
//
// # Nonces
//
// Nonces are derived from what the operation is for, not drawn. So whoever
// repeats it, in the same process or another, early or late, looks for the same
// nonce, and a history has it once:
//
//   - promotion: of the run and its candidate's digest; it stands in the run's decision
//   - rollback: of the nonce of the promotion that it undoes
//   - promotion again, after a rollback: of the nonce of that rollback
//   - live commit: of its name
//
// An operation settles which nonce is its own before its first attempt, and keeps
// it: a promoter that sleeps through a promotion and a rollback of its run wakes up,
// finds its nonce in the history, and moves nothing.
//
// # Decisions
//
// Promotion and abort of a run contend on decision.json in the run's folder,
// written once. A promotion is decided after a passing verdict on exactly the candidate at hand, and after a look at the
// base; only then is the pointer touched. After an abort nothing ever promotes the run.
//
// # What it needs
//
// Of the store: conditional puts that work, which [Dataset] proves before its first
// swap, and reads that return an ETag and the bytes that belong to it. Of whoever cleans up: the pointer is
// never deleted, and manifests and files are kept while an operation that may name them can be under way.
package serve
