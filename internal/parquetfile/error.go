package parquetfile

import (
	"fmt"
	"strings"
)

// Error is why a file, or a part of it, cannot be read: what is wrong, where, and what to do about it.
type Error struct {
	File     string
	RowGroup int    // -1 where it concerns no single row group
	Column   string // empty where it concerns no single column
	Reason   string
	Err      error // the cause, where there is one
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "parquet file %s", e.File)
	if e.RowGroup >= 0 {
		fmt.Fprintf(&b, ", row group %d", e.RowGroup)
	}
	if e.Column != "" {
		fmt.Fprintf(&b, ", column %q", e.Column)
	}
	b.WriteString(": " + e.Reason)
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// guard runs f and turns a panic into an error: what other people's bytes do to a decoder must not end the process.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return f()
}
