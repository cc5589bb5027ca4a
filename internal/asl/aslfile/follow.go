package aslfile

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"hindcast/internal/asl"
)

// Follower reads a history that another process appends to, each event once. It neither locks nor repairs.
type Follower struct {
	dir       string
	segmented bool
	index     int   // of the file that is read
	offset    int64 // in it, decompressed: the events before it were yielded
}

// Follow begins to read a history at its first event. It may not have begun yet.
func (h *Histories) Follow(name asl.HistoryName) (*Follower, error) {
	dir, err := h.dir(name)
	if err != nil {
		return nil, err
	}
	return &Follower{dir: dir, segmented: name.MapRun != "", index: 1}, nil
}

// Next yields the events that were recorded since the last call. One that is being written comes with the next.
func (f *Follower) Next() iter.Seq2[asl.Event, error] {
	return func(yield func(asl.Event, error) bool) {
		for {
			sealed, ok := f.file(yield)
			if !ok || !sealed {
				return
			}
			f.index, f.offset = f.index+1, 0
		}
	}
}

// file yields what is new in the file that is read. Sealed says that nothing more comes to it; ok is false where the yielding was ended.
func (f *Follower) file(yield func(asl.Event, error) bool) (sealed, ok bool) {
	r := reader{yield: yield}
	path := filepath.Join(f.dir, historyFile)
	if f.segmented {
		path = segment(f.dir, f.index)
	}
	in, err := os.Open(strings.TrimSuffix(path, plain) + compressed)
	sealed = err == nil && f.segmented
	if !sealed {
		if in, err = os.Open(path); errors.Is(err, os.ErrNotExist) {
			return false, true // not there yet, or it is being compressed: the next call finds it
		}
	}
	if err != nil {
		return false, r.fail(err)
	}
	defer in.Close()
	var events io.Reader = in
	if sealed {
		if events, err = gzip.NewReader(in); err == nil {
			_, err = io.CopyN(io.Discard, events, f.offset)
		}
	} else {
		_, err = in.Seek(f.offset, io.SeekStart)
	}
	if err != nil {
		return false, r.fail(fmt.Errorf("read history %s: %w", path, err))
	}
	ok = r.lines(path, events, true)
	f.offset += r.size
	return sealed, ok
}
