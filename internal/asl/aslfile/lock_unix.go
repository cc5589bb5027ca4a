//go:build unix

package aslfile

import (
	"os"
	"syscall"
)

// lock takes the file's lock, which ends with the process.
func lock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
