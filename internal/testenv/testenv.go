// Package testenv tells tests where they are and how much to do. Only tests import it.
package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

// Root returns the project's root: the nearest folder above with a go.mod.
func Root(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			tb.Fatal("no go.mod above the working directory")
		}
		dir = parent
	}
}

// Shared returns a folder of test input that is not part of the project: that
// named by the variable env, or else ../shared/name beside the project. Where
// it is absent the test is skipped, but fails if CI is true: there it must run.
func Shared(tb testing.TB, env, name string) string {
	tb.Helper()
	dir := os.Getenv(env)
	if dir == "" {
		dir = filepath.Join(Root(tb), "..", "shared", filepath.FromSlash(name))
	}
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv("CI") == "true" {
			tb.Fatalf("%v: in CI this test must run; %s names its folder", err, env)
		}
		tb.Skipf("needs the folder %s (or the one that %s names), which is not here", dir, env)
	}
	return dir
}

// Full reports whether the loops run their full counts, as in CI: HINDCAST_TEST_FULL=1.
func Full() bool { return os.Getenv("HINDCAST_TEST_FULL") == "1" }
