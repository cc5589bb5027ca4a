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
	Modified time.Time
}

// GetOptions narrow a read.
type GetOptions struct {
	// Offset and Length select bytes; Length 0 means to the end. A range that
	// ends past the object is clipped; one that starts past it is an error.
	Offset, Length int64
	// IfMatch, where set, fails the read with ErrPrecondition if the object is another by now.
	IfMatch ETag
}

// Condition guards a put. The zero Condition writes unconditionally.
type Condition struct {
	IfAbsent bool // the key must have no object
	IfMatch  ETag // the key must have this object; one that is gone is ErrPrecondition, too
}

// Object is an open read. The caller closes Body.
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
	// greater than after, in ascending bytewise order. An empty page ends a listing.
	List(ctx context.Context, prefix, after string, limit int) ([]Info, error)
	// Put writes a whole object, atomically and durably. Body is read from its
	// start, possibly more than once.
	Put(ctx context.Context, key string, body io.ReadSeeker, cond Condition) (Info, error)
	// Delete removes an object; one that does not exist is no error.
	Delete(ctx context.Context, key string) error
}
