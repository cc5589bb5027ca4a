// Package aslfile keeps the histories of package asl in files: JSON lines with a checksum
// each, fsynced.
//
// An execution has DIR/NAME/history.jsonl. The child executions of a Map Run share
// DIR/NAME/LABEL/000001.jsonl and on; a file that is full is compressed (000001.jsonl.gz).
//
// A last line that was not written whole, as a crash leaves it, is cut off. Damage
// anywhere else is refused: a [DamageError] names the file and the offset.
package aslfile

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"hindcast/internal/asl"
)

// Histories keeps histories below a directory, which is made when it is needed.
type Histories struct {
	Dir string
	// SegmentBytes is how large a file of child executions may grow; 0 means 1 MiB.
	SegmentBytes int64
}

// ErrHeld means that another process has the history open.
var ErrHeld = errors.New("another process has it open")

const (
	historyFile = "history.jsonl"
	lockFile    = "history.lock"
	plain       = ".jsonl"
	compressed  = ".jsonl.gz"
)

// Open opens a history. That of an execution is locked against other processes.
func (h *Histories) Open(_ context.Context, name asl.HistoryName) (asl.History, error) {
	dir, err := h.dir(name)
	if err != nil {
		return nil, err
	}
	out := &history{dir: dir, segmented: name.MapRun != "", limit: h.SegmentBytes}
	if out.limit == 0 {
		out.limit = 1 << 20
	}
	if _, err := os.Stat(dir); err == nil {
		if err := out.acquire(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Read yields a history's events without locking or repairing it, for displays. An event
// that is being written is not there yet.
func (h *Histories) Read(name asl.HistoryName) iter.Seq2[asl.Event, error] {
	return func(yield func(asl.Event, error) bool) {
		dir, err := h.dir(name)
		if err != nil {
			yield(asl.Event{}, err)
			return
		}
		r := reader{yield: yield}
		_ = r.all(dir, name.MapRun != "") // yielded
	}
}

func (h *Histories) dir(name asl.HistoryName) (string, error) {
	below := filepath.Join(filepath.FromSlash(name.Execution), filepath.FromSlash(name.MapRun))
	if name.Execution == "" || !filepath.IsLocal(below) || slices.Contains(strings.Split(name.String(), "/"), "..") {
		return "", fmt.Errorf("open history %q: not a usable name", name)
	}
	return filepath.Join(h.Dir, below), nil
}

// history is an open history.
type history struct {
	dir       string
	segmented bool
	limit     int64

	lock  *os.File
	file  *os.File // that which is appended to; nil until the first Append
	path  string   // of file, or of what it will be
	size  int64    // of what is at path
	index int      // number of the segment at path
	read  bool     // Events went through to the end
	buf   bytes.Buffer
}

// acquire locks the history of an execution; those of its Map Runs are safe behind that.
func (h *history) acquire() error {
	if h.segmented || h.lock != nil {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(h.dir, lockFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("open history: %w", err)
	}
	// Who looks whether it is held has the lock for a moment: so one refusal says nothing.
	for try := 1; ; try++ {
		if err = lock(f); err == nil {
			h.lock = f
			return nil
		}
		if try == lockTries || !errors.Is(err, ErrHeld) {
			return errors.Join(fmt.Errorf("open history %s: %w", h.dir, err), f.Close())
		}
		time.Sleep(lockPause)
	}
}

const (
	lockTries = 5
	lockPause = 10 * time.Millisecond
)

// Events yields what is recorded and cuts off a torn end.
func (h *history) Events(context.Context) iter.Seq2[asl.Event, error] {
	return func(yield func(asl.Event, error) bool) {
		r := reader{yield: yield, repair: true}
		if !r.all(h.dir, h.segmented) {
			return
		}
		h.path, h.size, h.index = r.path, r.size, r.index
		if r.torn {
			if err := truncate(h.path, h.size); err != nil {
				yield(asl.Event{}, fmt.Errorf("cut the torn end off the history: %w", err))
				return
			}
		}
		h.read = true
	}
}

func truncate(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Append writes events and syncs them.
func (h *history) Append(_ context.Context, events []asl.Event) error {
	if !h.read {
		return fmt.Errorf("append to history %s: its events were not read first", h.dir)
	}
	if h.file == nil {
		if err := h.openFile(); err != nil {
			return fmt.Errorf("append to history: %w", err)
		}
	}
	h.buf.Reset()
	for i := range events {
		if err := encode(&h.buf, &events[i]); err != nil {
			return fmt.Errorf("append to history %s: %w", h.path, err)
		}
	}
	if _, err := h.file.Write(h.buf.Bytes()); err != nil {
		return fmt.Errorf("append to history: %w", err)
	}
	if err := h.file.Sync(); err != nil {
		return fmt.Errorf("append to history: %w", err)
	}
	h.size += int64(h.buf.Len())
	if h.buf.Cap() > 4<<20 {
		h.buf = bytes.Buffer{}
	}
	if h.segmented && h.size >= h.limit {
		return h.seal()
	}
	return nil
}

// openFile opens the file to append to, made anew unless Events found it.
func (h *history) openFile() error {
	if err := makeDir(h.dir); err != nil {
		return err
	}
	if err := h.acquire(); err != nil {
		return err
	}
	flags := os.O_WRONLY | os.O_APPEND
	if h.size == 0 {
		if _, err := os.Stat(h.path); errors.Is(err, os.ErrNotExist) {
			flags |= os.O_CREATE | os.O_EXCL
		}
	}
	f, err := os.OpenFile(h.path, flags, 0o644)
	if err != nil {
		return err
	}
	if info, err := f.Stat(); err != nil || info.Size() != h.size {
		return errors.Join(err, f.Close(), fmt.Errorf("%s changed since it was read", h.path))
	}
	h.file = f
	return syncDir(h.dir)
}

// makeDir makes a directory and those above it, durably.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return syncDir(parent)
}

// seal compresses the full segment and moves on to the next one.
func (h *history) seal() error {
	if err := h.file.Close(); err != nil {
		return err
	}
	h.file = nil
	if err := compress(h.path); err != nil {
		return fmt.Errorf("compress history %s: %w", h.path, err)
	}
	h.index++
	h.path, h.size = segment(h.dir, h.index), 0
	return nil
}

// zippers are costly to make: each has a table of a megabyte.
var zippers = sync.Pool{New: func() any {
	zip, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // a level that there is
	return zip
}}

// compress replaces FILE by FILE.gz. After a crash either is whole, or both are.
func compress(path string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	tmp := path + ".tmp"
	out, err := os.Create(tmp)
	if err != nil {
		return err
	}
	zip, _ := zippers.Get().(*gzip.Writer)
	defer func() {
		zip.Reset(io.Discard) // lets go of the file
		zippers.Put(zip)
	}()
	zip.Reset(out)
	_, err = io.Copy(zip, in)
	if err == nil {
		err = zip.Close()
	}
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	if err := os.Rename(tmp, strings.TrimSuffix(path, plain)+compressed); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return err
	}
	return os.Remove(path)
}

func segment(dir string, index int) string {
	return filepath.Join(dir, fmt.Sprintf("%06d%s", index, plain))
}

// Close releases the history. A last segment with events is compressed too: it is not
// appended to unless the Map Run was interrupted, and then the next one is begun.
func (h *history) Close() error {
	var errs []error
	if h.file != nil {
		if h.segmented && h.size > 0 {
			errs = append(errs, h.seal())
		} else {
			errs = append(errs, h.file.Close())
		}
		h.file = nil
	}
	if h.lock != nil {
		errs = append(errs, h.lock.Close())
		h.lock = nil
	}
	return errors.Join(errs...)
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
