package peers

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"hindcast/internal/parquetfile"
	"hindcast/internal/record"
)

// pythonEnv names a Python that has pyarrow; .ci/peers installs one.
const pythonEnv = "HINDCAST_PEERS_PYTHON"

// mustReadInPython reads a file by pyarrow, which must find what was written.
func mustReadInPython(t *testing.T, path string, s record.Schema, b *record.Batch) {
	t.Helper()
	python := os.Getenv(pythonEnv)
	if python == "" {
		t.Skipf("%s names no Python with pyarrow", pythonEnv)
	}
	cmd := exec.Command(python, "values.py", path)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("pyarrow: %v", err)
	}
	got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	var want []string
	for i, f := range s {
		d := newDigest(f.Name, request{Column: f.Name, To: int64(b.Len)})
		for row := range b.Len {
			hindcastValue(&b.Columns[i], row, parquetfile.Stored{}, parquetfile.Rule{}, &d)
		}
		want = append(append(want, f.Name), d.Values...)
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			column, row := i/(b.Len+1), i%(b.Len+1)-1
			t.Fatalf("column %q, row %d: pyarrow reads %q, want %q", s[column].Name, row, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("pyarrow has %d lines, want %d", len(got), len(want))
	}
}
