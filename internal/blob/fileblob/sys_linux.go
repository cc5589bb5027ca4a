package fileblob

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// changeOf gives the time of a file's last change of any kind, in ns, which no program can set, and its inode.
func changeOf(st fs.FileInfo) (changed int64, inode uint64) {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return sys.Ctim.Nano(), sys.Ino
	}
	return 0, 0
}

// openUnnamed makes a file in dir that has no name yet (O_TMPFILE), which not every file system has.
func openUnnamed(dir string) (*os.File, error) {
	return os.OpenFile(dir, unix.O_TMPFILE|os.O_RDWR, 0o644)
}

// linkUnnamed gives such a file its name. One whose name was removed again cannot have another.
func linkUnnamed(f *os.File, path string) error {
	if err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW); err != nil {
		return fmt.Errorf("link %s: %w", path, err)
	}
	return nil
}

// beginSync has the system begin to write bytes to the disk. They are there after a Sync only, as all others: an error means nothing.
func beginSync(f *os.File, from, n int64) {
	_ = unix.SyncFileRange(int(f.Fd()), from, n, unix.SYNC_FILE_RANGE_WRITE)
}
