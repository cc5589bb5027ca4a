package fileblob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hindcast/internal/blob"
)

// List lists objects; see [blob.Store]. Symbolic links are followed; one that
// leads nowhere is an error, since what it stood for would be left out unnoticed.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	l := lister{ctx: ctx, root: s.root, prefix: prefix, after: after, limit: limit}
	// Begin in the folder that the prefix names, if objects can be there: "../" must not lead out.
	folder := prefix[:strings.LastIndexByte(prefix, '/')+1]
	var err error
	if folder == "" || blob.CheckKey(folder[:len(folder)-1]) == nil {
		err = l.walk(folder)
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", filepath.Join(s.root, prefix), err)
	}
	return l.page, nil
}

type lister struct {
	ctx           context.Context //nolint:containedctx // of one List
	root          string
	prefix, after string
	limit         int
	page          []blob.Info
}

// walk adds the objects of a folder, given as a key that ends with a slash, or "" for the root.
func (l *lister) walk(folder string) error {
	if len(l.page) >= l.limit {
		return nil
	}
	if err := l.ctx.Err(); err != nil {
		return err
	}
	dir := filepath.Join(l.root, filepath.FromSlash(folder))
	entries, err := os.ReadDir(dir)
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	// Keys sort bytewise, so a folder sorts as its name with the slash: "a-b" before "a/b".
	type child struct {
		key    string
		folder bool
	}
	children := make([]child, 0, len(entries))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tempPrefix) {
			continue
		}
		mode := e.Type()
		if mode&fs.ModeSymlink != 0 {
			st, err := os.Stat(filepath.Join(dir, e.Name()))
			if err != nil {
				return fmt.Errorf("symbolic link: %w", err)
			}
			mode = st.Mode()
		}
		switch {
		case mode.IsDir():
			children = append(children, child{folder + e.Name() + "/", true})
		case mode.IsRegular():
			children = append(children, child{folder + e.Name(), false})
		}
	}
	slices.SortFunc(children, func(a, b child) int { return strings.Compare(a.key, b.key) })

	for _, c := range children {
		if len(l.page) >= l.limit {
			return nil
		}
		if c.folder {
			within := strings.HasPrefix(c.key, l.prefix) || strings.HasPrefix(l.prefix, c.key)
			past := l.after >= c.key && !strings.HasPrefix(l.after, c.key)
			if within && !past {
				if err := l.walk(c.key); err != nil {
					return err
				}
			}
			continue
		}
		if !strings.HasPrefix(c.key, l.prefix) || c.key <= l.after {
			continue
		}
		info, err := head(filepath.Join(l.root, filepath.FromSlash(c.key)), c.key)
		if errors.Is(err, blob.ErrNotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return err
		}
		l.page = append(l.page, info)
	}
	return nil
}
