//go:build unix

package aslfile

import (
	"errors"
	"os"
	"syscall"
)

// lock takes the file's lock, which ends with the process. ErrHeld means that another has it.
func lock(f *os.File) error { return flock(f, syscall.LOCK_EX) }

// look takes the lock in a way that others who look can, too.
func look(f *os.File) error { return flock(f, syscall.LOCK_SH) }

func flock(f *os.File, how int) error {
	err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrHeld
	}
	return err
}
