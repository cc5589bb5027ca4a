package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"hindcast/internal/blob"
)

// PointerKey is where a dataset's pointer lies.
const PointerKey = "pointer.json"

// ErrNoVersion means that the dataset has no version yet.
var ErrNoVersion = errors.New("the dataset has no version yet")

// Pointer says which version is served. No two pointers of a history have the same bytes: generations only grow.
type Pointer struct {
	Format  int    `json:"format"`
	Dataset string `json:"dataset"`
	Ref
	Op  Op        `json:"op"`
	Run string    `json:"run"`
	By  string    `json:"by,omitempty"`
	At  time.Time `json:"at"`
	Why string    `json:"why,omitempty"`
}

// PointTo is the pointer to a version.
func PointTo(ref Ref, c Commit) Pointer {
	return Pointer{Format: Format, Dataset: c.Dataset, Ref: ref, Op: c.Op, Run: c.Run, By: c.By, At: c.At, Why: c.Why}
}

// Encode gives the pointer's bytes.
func (p Pointer) Encode() ([]byte, error) { return encode(p) }

// DecodePointer reads a pointer strictly.
func DecodePointer(b []byte) (Pointer, error) {
	var p Pointer
	if err := decode(b, maxPointer, &p); err != nil {
		return Pointer{}, err
	}
	if err := cmpErr(p.validate(), CheckName("dataset", p.Dataset), CheckName("run", p.Run), checkAt(p.At)); err != nil {
		return Pointer{}, err
	}
	return p, nil
}

// ReadPointer reads which version a dataset serves, and the ETag that a swap must
// name. The error is ErrNoVersion where there is none yet.
func ReadPointer(ctx context.Context, store blob.Store) (Pointer, blob.ETag, error) {
	b, info, err := readLimited(ctx, store, PointerKey, maxPointer)
	if errors.Is(err, blob.ErrNotFound) {
		return Pointer{}, "", ErrNoVersion
	}
	if err != nil {
		return Pointer{}, "", fmt.Errorf("read pointer: %w", err)
	}
	p, err := DecodePointer(b)
	if err != nil {
		return Pointer{}, "", fmt.Errorf("read pointer %s: %w", PointerKey, err)
	}
	return p, info.ETag, nil
}

// readLimited reads an object that must be small.
func readLimited(ctx context.Context, store blob.Store, key string, limit int64) ([]byte, blob.Info, error) {
	o, err := store.Get(ctx, key, blob.GetOptions{})
	if err != nil {
		return nil, blob.Info{}, err
	}
	defer o.Body.Close()
	if o.Size > limit {
		return nil, blob.Info{}, fmt.Errorf("%s has %d bytes, more than the %d that are read", key, o.Size, limit)
	}
	b, err := io.ReadAll(o.Body)
	if err == nil && int64(len(b)) != o.Size {
		err = fmt.Errorf("%d bytes came of %d", len(b), o.Size)
	}
	if err != nil {
		return nil, blob.Info{}, fmt.Errorf("read %s: %w", key, err)
	}
	return b, o.Info, nil
}
