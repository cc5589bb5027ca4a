// Package memblob keeps objects in memory, for tests. It is the strictest of the
// stores: it refuses a key that is a folder of another, which S3 lets pass.
package memblob

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"hindcast/internal/blob"
)

// Store is a blob.Store in memory. Its ETags are hashes of the contents.
type Store struct {
	mu      sync.RWMutex
	objects map[string]object
	keys    []string // of objects, sorted
}

type object struct {
	blob.Info
	data []byte // never changed
}

// New gives an empty store.
func New() *Store { return &Store{objects: map[string]object{}} }

// Get opens an object; see [blob.Store].
func (s *Store) Get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	o, err := s.find(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	if opts.IfMatch != "" && opts.IfMatch != o.ETag {
		return nil, fmt.Errorf("get %s: %w: it is another object by now", key, blob.ErrPrecondition)
	}
	from, to, err := opts.Range(o.Size)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	return &blob.Object{Info: o.Info, Body: io.NopCloser(bytes.NewReader(o.data[from:to]))}, nil
}

// Head describes an object; see [blob.Store].
func (s *Store) Head(ctx context.Context, key string) (blob.Info, error) {
	o, err := s.find(ctx, key)
	if err != nil {
		return blob.Info{}, fmt.Errorf("head %s: %w", key, err)
	}
	return o.Info, nil
}

func (s *Store) find(ctx context.Context, key string) (object, error) {
	if err := cmp.Or(ctx.Err(), blob.CheckKey(key)); err != nil {
		return object{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	o, ok := s.objects[key]
	if !ok {
		return object{}, blob.ErrNotFound
	}
	return o, nil
}

// List lists objects; see [blob.Store].
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	i, found := slices.BinarySearch(s.keys, max(prefix, after))
	if found && s.keys[i] == after {
		i++
	}
	var page []blob.Info
	for ; i < len(s.keys) && len(page) < limit && strings.HasPrefix(s.keys[i], prefix); i++ {
		page = append(page, s.objects[s.keys[i]].Info)
	}
	return page, nil
}

// Put writes an object; see [blob.Store].
func (s *Store) Put(ctx context.Context, key string, body io.ReadSeeker, cond blob.Condition) (blob.Info, error) {
	info, err := s.put(ctx, key, body, cond)
	if err != nil {
		return blob.Info{}, fmt.Errorf("put %s: %w", key, err)
	}
	return info, nil
}

func (s *Store) put(ctx context.Context, key string, body io.ReadSeeker, cond blob.Condition) (blob.Info, error) {
	if err := cmp.Or(ctx.Err(), blob.CheckKey(key)); err != nil {
		return blob.Info{}, err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return blob.Info{}, err
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return blob.Info{}, err
	}
	sum := sha256.Sum256(data)
	info := blob.Info{Key: key, Size: int64(len(data)), ETag: blob.ETag(hex.EncodeToString(sum[:16])), Modified: time.Now()}

	s.mu.Lock()
	defer s.mu.Unlock()
	old, exists := s.objects[key]
	if err := cond.Check(old.ETag, exists); err != nil {
		return blob.Info{}, err
	}
	if err := s.checkFolders(key); err != nil {
		return blob.Info{}, err
	}
	if i, found := slices.BinarySearch(s.keys, key); !found {
		s.keys = slices.Insert(s.keys, i, key)
	}
	s.objects[key] = object{Info: info, data: data}
	return info, nil
}

// checkFolders refuses a key that has another one as a folder, or is one.
func (s *Store) checkFolders(key string) error {
	for i, c := range key {
		if _, ok := s.objects[key[:i]]; c == '/' && ok {
			return fmt.Errorf("%s is an object, so it cannot be a folder, too", key[:i])
		}
	}
	i, _ := slices.BinarySearch(s.keys, key+"/")
	if i < len(s.keys) && strings.HasPrefix(s.keys[i], key+"/") {
		return fmt.Errorf("it is the folder of %s, so it cannot be an object, too", s.keys[i])
	}
	return nil
}

// Delete removes an object; see [blob.Store].
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := cmp.Or(ctx.Err(), blob.CheckKey(key)); err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
	if i, found := slices.BinarySearch(s.keys, key); found {
		s.keys = slices.Delete(s.keys, i, i+1)
	}
	return nil
}
