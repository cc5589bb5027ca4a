package fileblob

import (
	"context"
	"os"
	"path/filepath"

	"hindcast/internal/blob"
)

// draft is a file without a name in the folder that its object will lie in.
type draft struct {
	*os.File
	dir            string
	written, begun int64 // bytes; of those that are begun the disk knows
}

// begunEvery is how many bytes of a draft the disk is told of at a time, so that it has most of them when they must be there.
const begunEvery = 4 << 20

// Draft begins an object that a put then takes as it lies; see [blob.NewDraft]. It reports false where the system cannot do so.
func (s *Store) Draft(key string) (blob.Draft, bool) {
	path, err := s.path(context.Background(), key)
	if err != nil {
		return nil, false // the put will say why, here and below
	}
	dir := filepath.Dir(path)
	if err := makeDir(dir); err != nil {
		return nil, false
	}
	f, err := openUnnamed(dir)
	if err != nil {
		return nil, false
	}
	return &draft{File: f, dir: dir}, true
}

func (d *draft) Write(b []byte) (int, error) {
	n, err := d.File.Write(b)
	if d.written += int64(n); d.written-d.begun >= begunEvery {
		beginSync(d.File, d.begun, d.written-d.begun)
		d.begun = d.written
	}
	return n, err
}
