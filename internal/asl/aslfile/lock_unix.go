//go:build unix

package aslfile

import (
	"errors"
	"os"
	"syscall"
)

// lock takes the file's lock, which ends with the process. ErrHeld means that another has it.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrHeld
	}
	return err
}
