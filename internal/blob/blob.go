// Package blob is what Hindcast needs of an object store: ranged reads pinned
// to a version, listings in key order, and conditional puts. Drivers lie in the
// folders below; all pass the suite in blobtest. Cross-cutting behaviour
// (retry, limits, faults) wraps a [Store].
//
// Keys are slash-separated, not empty, without a leading or trailing slash and
// without empty, "." or ".." elements. A key must not also be a prefix of another
// key's path ("a" beside "a/b"): file systems cannot hold both.
package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// The classes of errors. Drivers wrap them with the operation and the key.
var (
	// ErrNotFound means that there is no object under the key.
	ErrNotFound = errors.New("object not found")
	// ErrPrecondition means that the object is not what the condition asked
	// for; the store was not changed by this request.
	ErrPrecondition = errors.New("precondition not met")
	// ErrTransient marks an error that may go away by itself: 5xx, throttling, a broken connection.
	// A put that ended so may still have taken, or may yet take, effect.
	ErrTransient = errors.New("transient error")
)

// ETag identifies an object's contents, opaquely. Equal contents may have equal
// tags (A-B-A): who needs to tell them apart puts a nonce in the contents.
type ETag string

// Info describes an object.
type Info struct {
	Key      string
	Size     int64
	ETag     ETag
	Modified time.Time // zero from the put of a store that does not say
}

// GetOptions narrow a read.
type GetOptions struct {
	// Offset and Length select bytes; Length 0 means to the end. A range that
	// ends past the object is clipped; one that starts past it is an error.
	Offset, Length int64
	// IfMatch, where set, fails the read with ErrPrecondition if the object is another by now.
	IfMatch ETag
}

// Range resolves the options against an object's size, as the half-open range
// of bytes to read. An offset of 0 is within an empty object.
func (o GetOptions) Range(size int64) (from, to int64, err error) {
	if o.Offset < 0 || o.Length < 0 || o.Offset > 0 && o.Offset >= size {
		return 0, 0, fmt.Errorf("range of %d bytes from %d is not within the object's %d bytes", o.Length, o.Offset, size)
	}
	if o.Length == 0 || o.Length > size-o.Offset {
		return o.Offset, size, nil
	}
	return o.Offset, o.Offset + o.Length, nil
}

// Condition guards a put. The zero Condition writes unconditionally.
type Condition struct {
	IfAbsent bool // the key must have no object
	IfMatch  ETag // the key must have this object; one that is gone is ErrPrecondition, too
}

// IsZero reports that there is no condition.
func (c Condition) IsZero() bool { return c == Condition{} }

// Check returns ErrPrecondition if an object with this tag, or none, is not what c asks for.
func (c Condition) Check(current ETag, exists bool) error {
	switch {
	case c.IfAbsent && exists:
		return fmt.Errorf("%w: there is an object already", ErrPrecondition)
	case c.IfMatch != "" && !exists:
		return fmt.Errorf("%w: the object is gone", ErrPrecondition)
	case c.IfMatch != "" && current != c.IfMatch:
		return fmt.Errorf("%w: it is another object by now", ErrPrecondition)
	}
	return nil
}

// Object is an open read. The caller closes Body. One that lies on this machine may be read at any place, too: its Body is then an [io.ReaderAt].
type Object struct {
	Info
	Body io.ReadCloser
}

// Store is an object store, or a part of one. All methods may be called concurrently.
type Store interface {
	// Get opens an object for reading.
	Get(ctx context.Context, key string, opts GetOptions) (*Object, error)
	// Head describes an object.
	Head(ctx context.Context, key string) (Info, error)
	// List returns at most limit objects whose keys begin with prefix and are
	// greater than after, in ascending bytewise order. An empty page ends a
	// listing, a short one does not. Foreign keys come as they are, even ones that CheckKey refuses.
	List(ctx context.Context, prefix, after string, limit int) ([]Info, error)
	// Put writes a whole object, atomically and durably. Body is read from its
	// start, possibly more than once. After an error other than
	// ErrPrecondition, a cancelled context among them, the caller cannot know
	// whether the put took effect, or yet will: read back.
	Put(ctx context.Context, key string, body io.ReadSeeker, cond Condition) (Info, error)
	// Delete removes an object; one that does not exist is no error.
	Delete(ctx context.Context, key string) error
}
