package transform

import (
	"os"
	"runtime"
	"testing"
)

// What is on disk for want of memory has no name: a process that is killed leaves nothing.
func TestScratchFilesHaveNoName(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a file that is open has its name there")
	}
	dir := t.TempDir()
	f, err := newScratchFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("%v: it is there as %v", err, names)
	}
	if _, err := f.w.WriteString("kept"); err != nil {
		t.Fatal(err)
	}
	in, err := f.read(0, 4)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := in.r.Peek(4); err != nil || string(b) != "kept" {
		t.Errorf("%v: %q is read back", err, b)
	}
	if err := f.remove(); err != nil {
		t.Error(err)
	}
}
