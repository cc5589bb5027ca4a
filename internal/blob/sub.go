package blob

import (
	"context"
	"io"
	"strings"
)

// Sub is the part of s under a folder: its keys are those of s without "prefix/".
// Errors name the whole key. An empty prefix gives s itself.
func Sub(s Store, prefix string) Store {
	prefix = strings.Trim(prefix, "/")
	if prefix == "" {
		return s
	}
	if outer, ok := s.(sub); ok {
		return sub{store: outer.store, prefix: outer.prefix + prefix + "/"}
	}
	return sub{store: s, prefix: prefix + "/"}
}

type sub struct {
	store  Store
	prefix string // ends with a slash
}

func (s sub) strip(info Info) Info {
	info.Key = strings.TrimPrefix(info.Key, s.prefix)
	return info
}

func (s sub) Get(ctx context.Context, key string, opts GetOptions) (*Object, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	o, err := s.store.Get(ctx, s.prefix+key, opts)
	if err != nil {
		return nil, err
	}
	o.Info = s.strip(o.Info)
	return o, nil
}

func (s sub) Head(ctx context.Context, key string) (Info, error) {
	if err := CheckKey(key); err != nil {
		return Info{}, err
	}
	info, err := s.store.Head(ctx, s.prefix+key)
	return s.strip(info), err
}

func (s sub) List(ctx context.Context, prefix, after string, limit int) ([]Info, error) {
	// Begun after "prefix/", a listing leaves out the folder's own marker, which S3 consoles write.
	page, err := s.store.List(ctx, s.prefix+prefix, s.prefix+after, limit)
	for i := range page {
		page[i] = s.strip(page[i])
	}
	return page, err
}

func (s sub) Put(ctx context.Context, key string, body io.ReadSeeker, cond Condition) (Info, error) {
	if err := CheckKey(key); err != nil {
		return Info{}, err
	}
	info, err := s.store.Put(ctx, s.prefix+key, body, cond)
	return s.strip(info), err
}

func (s sub) Delete(ctx context.Context, key string) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	return s.store.Delete(ctx, s.prefix+key)
}

// Draft begins an object in s where that can; see [NewDraft].
func (s sub) Draft(key string) (Draft, bool) { return draftOf(s.store, s.prefix+key) }
