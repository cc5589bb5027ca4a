package fileblob

import (
	"io/fs"
	"syscall"
)

// changeOf gives the time of a file's last change of any kind, in ns, which no program can set, and its inode.
func changeOf(st fs.FileInfo) (changed int64, inode uint64) {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return sys.Ctimespec.Nano(), sys.Ino
	}
	return 0, 0
}
