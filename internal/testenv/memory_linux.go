package testenv

import (
	"os"
	"syscall"
)

// InMemory has the temporary folders of this process, and of those that it starts, lie in memory where
// there is room for them: files are then made in no time, and syncing them costs nothing. What is tested of
// processes that are killed stays true, since what they wrote is the system's already. The caller calls remove at the end.
func InMemory() (remove func()) {
	const shm = "/dev/shm"
	room := uint64(1 << 30)
	if Full() {
		room *= 4
	}
	var st syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || syscall.Statfs(shm, &st) != nil || st.Bavail*uint64(st.Bsize) < room { //nolint:gosec // a block size
		return func() {}
	}
	dir, err := os.MkdirTemp(shm, "hindcast-test-")
	if err != nil || os.Setenv("TMPDIR", dir) != nil {
		return func() {}
	}
	return func() { _ = os.RemoveAll(dir) }
}
