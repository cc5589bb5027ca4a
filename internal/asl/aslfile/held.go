package aslfile

import (
	"errors"
	"os"
	"path/filepath"

	"hindcast/internal/asl"
)

// Held reports whether a process has the history of an execution open, for displays.
func (h *Histories) Held(execution string) bool {
	dir, err := h.dir(asl.HistoryName{Execution: execution})
	if err != nil {
		return false
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR, 0)
	if err != nil {
		return false // never opened
	}
	defer f.Close()
	return errors.Is(look(f), ErrHeld)
}
