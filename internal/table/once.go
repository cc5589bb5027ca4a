package table

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"hindcast/internal/blob"
)

// ErrOther means that a name which is written once holds other contents.
var ErrOther = errors.New("there are other contents under this name")

// putAttempts bounds how often PutOnce asks a store that does not answer.
const putAttempts = 5

// PutOnce stores body, whose SHA-256 is sum, under a name that is written once. If
// the name is taken by the same contents it succeeds: a repeat, a crash after the
// write and a lost reply look alike. The error is ErrOther if it is taken by others. It may be called concurrently.
func PutOnce(ctx context.Context, store blob.Store, key string, body io.ReadSeeker, sum string) error {
	for attempt := 1; ; attempt++ {
		_, err := store.Put(ctx, key, body, blob.Condition{IfAbsent: true})
		if err == nil {
			return nil
		}
		if !errors.Is(err, blob.ErrPrecondition) && !blob.IsTransient(err) {
			return err
		}
		there, readErr := SumOf(ctx, store, key)
		switch {
		case readErr == nil && there == sum:
			return nil
		case readErr == nil:
			return fmt.Errorf("write %s: %w: their SHA-256 is %s, that of the new ones %s", key, ErrOther, there, sum)
		case attempt == putAttempts:
			return err
		case !errors.Is(readErr, blob.ErrNotFound) && !blob.IsTransient(readErr):
			return readErr
		}
		if err := blob.Sleep(ctx, time.Duration(attempt*attempt)*50*time.Millisecond); err != nil {
			return err
		}
	}
}

// SumOf is the SHA-256 of a stored object, in hexadecimal.
func SumOf(ctx context.Context, store blob.Store, key string) (string, error) {
	o, err := store.Get(ctx, key, blob.GetOptions{})
	if err != nil {
		return "", err
	}
	defer o.Body.Close()
	h := sha256.New()
	if _, err := io.Copy(h, o.Body); err != nil {
		return "", fmt.Errorf("read %s: %w", key, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
