package blob

import (
	"io"

	"hindcast/internal/scratch"
)

// Draft is a file in which an object is built before it is put. It is not safe for concurrent use. Close gives up what was not put.
type Draft interface {
	io.ReadWriteSeeker
	io.ReaderAt
	io.Closer
}

// drafter is a [Store] that can take a draft for an object as it lies.
type drafter interface {
	// Draft begins the object of a key; false: here it cannot.
	Draft(key string) (Draft, bool)
}

// NewDraft begins an object that is to be put under key: beside where it will lie, if s can take it from there without copying,
// else in the folder dir; "" is the system's for temporary files. Of a process that is killed nothing is left.
func NewDraft(s Store, key, dir string) (Draft, error) {
	if f, ok := draftOf(s, key); ok {
		return f, nil
	}
	f, err := scratch.New(dir)
	if err != nil {
		return nil, err // not f: a draft that is no file is nil
	}
	return f, nil
}

func draftOf(s Store, key string) (Draft, bool) {
	d, ok := s.(drafter)
	if !ok {
		return nil, false
	}
	return d.Draft(key)
}
