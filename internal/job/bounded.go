package job

// Bounded is a [Runner] that can be kept from growing, as those of folds are. (A map, which keeps nothing of an event but its rows, can be drained at any time.)
type Bounded interface {
	Runner
	// Seal has the runner take no more keys: events of others are left, in [Outcome.Left], for another runner of the same transform.
	Seal()
}

// Left is an event of a key that a sealed runner does not have.
type Left struct {
	Row int32 // in the batch
	// Hash is that of the slot and the key: equal wherever these are.
	Hash uint64
}

// Seal implements [Bounded].
func (r *foldRunner[E, S]) Seal() { r.sealed = true }

// Seal implements [Bounded].
func (r *columnRunner[E, S]) Seal() { r.sealed = true }
