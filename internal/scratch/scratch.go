// Package scratch makes files for what finds no room in memory.
package scratch

import (
	"errors"
	"fmt"
	"os"
)

// File is a temporary file. Where the system lets a file that is open have no name, as Unix does, it has none: of a process that is killed
// nothing is left.
type File struct {
	*os.File
	name string // that is still to be removed
}

// New makes a file in a folder; empty: the system's for temporary files. The caller must call [File.Close].
func New(dir string) (*File, error) {
	f, err := os.CreateTemp(dir, "hindcast-scratch-*")
	if err != nil {
		return nil, fmt.Errorf("make a scratch file: %w", err)
	}
	out := &File{File: f}
	if os.Remove(f.Name()) != nil {
		out.name = f.Name()
	}
	return out, nil
}

// Close closes the file, which is gone then.
func (f *File) Close() error {
	err := f.File.Close()
	if f.name != "" {
		err = errors.Join(err, os.Remove(f.name))
	}
	return err
}
