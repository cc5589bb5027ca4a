//go:build linux || darwin

package fileblob

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockDir opens dir and locks it against all others who do so, in this process
// or another; closing it unlocks, too. It waits in steps, so that a cancelled context is obeyed
// even if the holder was stopped; the lock of a process that ends is gone with it.
func lockDir(ctx context.Context, dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	wait := 100 * time.Microsecond
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s (network file systems are not supported): %w", dir, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("wait for the lock on %s: %w", dir, ctx.Err())
		case <-time.After(wait):
		}
		wait = min(2*wait, 5*time.Millisecond)
	}
}

func unlock(dir *os.File) error { return syscall.Flock(int(dir.Fd()), syscall.LOCK_UN) }
