package cli

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sorted writes rows as CSV without quotes, the header first, the rest in bytewise order.
func sorted(rows [][]string) string {
	lines := make([]string, len(rows))
	for i, r := range rows {
		lines[i] = strings.Join(r, ",") + "\n"
	}
	slices.Sort(lines[1:])
	return strings.Join(lines, "")
}

func column(t *testing.T, rows [][]string, name string) int {
	t.Helper()
	i := slices.Index(rows[0], name)
	if i < 0 {
		t.Fatalf("no column %q in %q", name, rows[0])
	}
	return i
}

func integer(t *testing.T, s string) int64 {
	t.Helper()
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
