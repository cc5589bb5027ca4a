package blob

import (
	"context"
	"io"
)

// Verb names a durable effect.
type Verb string

// The durable effects.
const (
	VerbPut    Verb = "put"
	VerbDelete Verb = "delete"
)

// Op is one side of a durable effect.
type Op struct {
	Verb Verb
	Key  string
	Cond Condition // of a put
	// Done is false before the effect, and true once it has landed. An effect
	// that failed is not reported a second time.
	Done bool
}

// Hook calls fn before and after every durable effect on s. An error of fn before
// the effect is returned in its place; one after it stands for a lost reply: the
// effect has landed, the caller is told of the error. A fn that blocks delays
// the effect or its reply, and one that ends the process is a crash there. It is called concurrently.
func Hook(s Store, fn func(Op) error) Store { return hooked{Store: s, fn: fn} }

type hooked struct {
	Store
	fn func(Op) error
}

func (h hooked) Put(ctx context.Context, key string, body io.ReadSeeker, cond Condition) (Info, error) {
	op := Op{Verb: VerbPut, Key: key, Cond: cond}
	if err := h.fn(op); err != nil {
		return Info{}, err
	}
	info, err := h.Store.Put(ctx, key, body, cond)
	if err != nil {
		return Info{}, err
	}
	op.Done = true
	if err := h.fn(op); err != nil {
		return Info{}, err
	}
	return info, nil
}

func (h hooked) Delete(ctx context.Context, key string) error {
	op := Op{Verb: VerbDelete, Key: key}
	if err := h.fn(op); err != nil {
		return err
	}
	if err := h.Store.Delete(ctx, key); err != nil {
		return err
	}
	op.Done = true
	return h.fn(op)
}

// Draft begins an object; see [NewDraft]. Only its put is a durable effect.
func (h hooked) Draft(key string) (Draft, bool) { return draftOf(h.Store, key) }
