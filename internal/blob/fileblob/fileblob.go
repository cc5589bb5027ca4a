// Package fileblob keeps objects as files below a folder. Files that others put
// there are objects, too.
//
// A put writes a temporary file beside its target, or takes one that was begun there ([Store.Draft]), syncs it, locks the target's
// folder (flock on the folder itself, so that stores opened at different roots
// contend on the same lock, and nothing is left behind), checks the condition, renames,
// unlocks, and syncs the folder. Readers take no lock: a file is never written in place. Not
// for network file systems, on which flock on a folder fails or does not hold.
//
// The ETag of a file up to 64 KiB is the hash of its contents: it survives copies, and
// everything that is swapped by compare-and-swap is that small. Reading larger files to
// list them would cost too much: their ETag is made of size, modification time, change time and
// inode. It differs for every put. Another program that overwrites such a file in place is noticed, except
// within the same tick of the file system's clock (4 ms or so); a copy, or a restore from a backup, is another object.
package fileblob

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"hindcast/internal/blob"
)

const (
	// hashedSize is the largest file whose ETag is a hash of its contents.
	hashedSize = 64 << 10
	// tempPrefix begins the names of files that are being written. They are no objects.
	tempPrefix = ".hindcast-put-"
	// tempAge is how old a temporary file must be to be taken for a killed process's.
	tempAge = 24 * time.Hour
)

// Store is a blob.Store in a folder.
type Store struct {
	root  string
	swept sync.Map // folders whose old temporary files were removed
}

// New opens a store below dir, which need not exist before the first put.
func New(dir string) (*Store, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	if st, err := os.Stat(root); err == nil && !st.IsDir() {
		return nil, fmt.Errorf("open store %s: it is a file; name a folder", dir)
	}
	return &Store{root: root}, nil
}

// path gives the file of key.
func (s *Store) path(ctx context.Context, key string) (string, error) {
	if err := cmp.Or(ctx.Err(), blob.CheckKey(key)); err != nil {
		return "", err
	}
	for elem := range strings.SplitSeq(key, "/") {
		if strings.HasPrefix(elem, tempPrefix) {
			return "", fmt.Errorf("names that begin with %s are reserved", tempPrefix)
		}
	}
	return filepath.Join(s.root, filepath.FromSlash(key)), nil
}

// opened is a file and what it is right now.
type opened struct {
	*os.File
	info blob.Info
	data []byte // the contents, if they were needed for the ETag
}

// open opens a file; anything but a regular file is not found.
func open(path, key string) (*opened, error) {
	// O_NONBLOCK, lest a named pipe blocks; it means nothing for regular files.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if missing(err) {
		return nil, blob.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = blob.ErrNotFound
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	o := &opened{File: f, info: blob.Info{Key: key, Size: st.Size(), ETag: statTag(st), Modified: st.ModTime()}}
	if st.Size() <= hashedSize {
		// One byte more, to notice a file that grows.
		o.data, err = io.ReadAll(io.LimitReader(f, hashedSize+1))
		if err == nil && int64(len(o.data)) != st.Size() {
			err = fmt.Errorf("%w: it is being written in place", blob.ErrTransient)
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		o.info.ETag = hashTag(o.data)
	}
	return o, nil
}

// missing reports that a path does not exist, or leads through a file.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func hashTag(data []byte) blob.ETag {
	sum := sha256.Sum256(data)
	return blob.ETag(hex.EncodeToString(sum[:16]))
}

func statTag(st fs.FileInfo) blob.ETag {
	changed, inode := changeOf(st)
	return blob.ETag(fmt.Sprintf("stat-%x-%x-%x-%x", st.Size(), st.ModTime().UnixNano(), changed, inode))
}

// Get opens an object; see [blob.Store]. Reading to the end of the range fails
// with ErrPrecondition if the file was overwritten in place meanwhile.
func (s *Store) Get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	o, err := s.get(ctx, key, opts)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", filepath.Join(s.root, key), err)
	}
	return o, nil
}

func (s *Store) get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	path, err := s.path(ctx, key)
	if err != nil {
		return nil, err
	}
	f, err := open(path, key)
	if err != nil {
		return nil, err
	}
	err = blob.Condition{IfMatch: opts.IfMatch}.Check(f.info.ETag, true)
	from, to, rangeErr := opts.Range(f.info.Size)
	if err := cmp.Or(err, rangeErr); err != nil {
		f.Close()
		return nil, err
	}
	if f.data != nil {
		f.Close()
		return &blob.Object{Info: f.info, Body: io.NopCloser(bytes.NewReader(f.data[from:to]))}, nil
	}
	body := &fileBody{ctx: ctx, f: f.File, r: io.NewSectionReader(f, from, to-from), left: to - from, info: f.info}
	return &blob.Object{Info: f.info, Body: body}, nil
}

// fileBody reads a range of a large file, and looks at its end whether the file
// is still the same. A file that a put replaced is, though its change time is another.
type fileBody struct {
	ctx  context.Context //nolint:containedctx // the request's
	f    *os.File
	r    *io.SectionReader
	left int64
	info blob.Info
}

func (b *fileBody) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	if b.left > 0 && err == nil {
		return n, nil
	}
	if err := b.same(); err != nil {
		return 0, err
	}
	return n, err
}

// ReadAt reads at an offset from the range's beginning; see [blob.Object].
func (b *fileBody) ReadAt(p []byte, off int64) (int, error) {
	n, err := b.r.ReadAt(p, off)
	if err := cmp.Or(b.ctx.Err(), b.same()); err != nil {
		return 0, err
	}
	return n, err
}

// same asks that the file was not overwritten.
func (b *fileBody) same() error {
	st, err := b.f.Stat()
	if err == nil && (st.Size() != b.info.Size || !st.ModTime().Equal(b.info.Modified)) {
		err = fmt.Errorf("%w: %s was overwritten while it was read", blob.ErrPrecondition, b.f.Name())
	}
	return err
}

func (b *fileBody) Close() error { return b.f.Close() }

// Head describes an object; see [blob.Store].
func (s *Store) Head(ctx context.Context, key string) (blob.Info, error) {
	path, err := s.path(ctx, key)
	if err == nil {
		var info blob.Info
		if info, err = head(path, key); err == nil {
			return info, nil
		}
	}
	return blob.Info{}, fmt.Errorf("head %s: %w", filepath.Join(s.root, key), err)
}

func head(path, key string) (blob.Info, error) {
	f, err := open(path, key)
	if err != nil {
		return blob.Info{}, err
	}
	return f.info, f.Close()
}

// Put writes an object; see [blob.Store].
func (s *Store) Put(ctx context.Context, key string, body io.ReadSeeker, cond blob.Condition) (blob.Info, error) {
	info, err := s.put(ctx, key, body, cond)
	if err != nil {
		return blob.Info{}, fmt.Errorf("put %s: %w", filepath.Join(s.root, key), err)
	}
	return info, nil
}

func (s *Store) put(ctx context.Context, key string, body io.ReadSeeker, cond blob.Condition) (blob.Info, error) {
	path, err := s.path(ctx, key)
	if err != nil {
		return blob.Info{}, err
	}
	// Asked again under the lock; here it spares the loser the writing.
	if err := check(path, key, cond); err != nil {
		return blob.Info{}, err
	}
	dir := filepath.Dir(path)
	if err := makeDir(dir); err != nil {
		return blob.Info{}, err
	}
	s.sweep(dir)
	temp, err := tempOf(dir, body)
	if err != nil {
		return blob.Info{}, err
	}
	defer os.Remove(temp) // gone already, if all went well

	lock, err := lockDir(ctx, dir)
	if err != nil {
		return blob.Info{}, err
	}
	defer lock.Close() // unlocks
	if err := check(path, key, cond); err != nil {
		return blob.Info{}, err
	}
	if err := os.Rename(temp, path); err != nil {
		return blob.Info{}, err
	}
	info, err := head(path, key)
	if err != nil {
		return blob.Info{}, err
	}
	// Readers see the file from the rename on. So the lock would hide nothing while
	// the folder is synced, but make every other put here wait for the disk in turn.
	return info, cmp.Or(unlock(lock), lock.Sync())
}

// check holds cond against the file at path.
func check(path, key string, cond blob.Condition) error {
	if cond.IsZero() {
		return nil
	}
	current, err := head(path, key)
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		return err
	}
	return cond.Check(current.ETag, err == nil)
}

// tempOf makes body a synced file in dir, and returns its path.
func tempOf(dir string, body io.ReadSeeker) (path string, err error) {
	if d, ok := body.(*draft); ok && d.dir == dir {
		path := filepath.Join(dir, tempPrefix+rand.Text())
		if linkUnnamed(d.File, path) == nil {
			if err := settle(d.File, path); err != nil {
				os.Remove(path)
				return "", err
			}
			return path, nil
		}
		// It was put before, or this system cannot: it is copied as any other.
	}
	return writeTemp(dir, body)
}

// writeTemp writes body to a new, synced file in dir and returns its path.
func writeTemp(dir string, body io.ReadSeeker) (path string, err error) {
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, tempPrefix)
	if err != nil {
		return "", err
	}
	defer func() {
		err = cmp.Or(err, f.Close())
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if _, err := io.Copy(f, body); err != nil {
		return "", err
	}
	return f.Name(), settle(f, f.Name())
}

// settle ends writing a file.
func settle(f *os.File, path string) error {
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	// The kernel's own times are coarse; this one tells apart two puts of one tick, which may get the same inode.
	now := time.Now()
	if err := os.Chtimes(path, now, now); err != nil {
		return err
	}
	return f.Sync()
}

// makeDir makes dir and its parents, durably.
func makeDir(dir string) error {
	if st, err := os.Stat(dir); err == nil && st.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		if st, statErr := os.Stat(dir); statErr != nil || !st.IsDir() {
			return err
		}
	}
	return syncDir(parent)
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// sweep removes, once for each folder, what killed processes left there long ago.
func (s *Store) sweep(dir string) {
	if _, done := s.swept.LoadOrStore(dir, true); done {
		return
	}
	// The pattern holds no meta characters, dir may: so no filepath.Glob. Errors leave a file lying, no more.
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) {
			continue
		}
		if st, err := e.Info(); err == nil && time.Since(st.ModTime()) > tempAge {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// Delete removes an object; see [blob.Store]. Its folder stays.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := s.delete(ctx, key); err != nil {
		return fmt.Errorf("delete %s: %w", filepath.Join(s.root, key), err)
	}
	return nil
}

func (s *Store) delete(ctx context.Context, key string) error {
	path, err := s.path(ctx, key)
	if err != nil {
		return err
	}
	lock, err := lockDir(ctx, filepath.Dir(path))
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		if err == nil || missing(err) {
			return nil
		}
		return err
	}
	if err := os.Remove(path); err != nil && !missing(err) {
		return err
	}
	return cmp.Or(unlock(lock), lock.Sync())
}
