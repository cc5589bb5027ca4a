package jobs_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hindcast/internal/job"
	"hindcast/jobs"
)

func TestEveryFolderIsAJobThatCanBeListed(t *testing.T) {
	var folders, listed []string
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			folders = append(folders, e.Name())
		}
	}
	for _, j := range jobs.All() {
		listed = append(listed, j.Folder())
		s, err := j.Spec()
		if err != nil {
			t.Error(err)
			continue
		}
		if err := job.Validate(j, s); err != nil {
			t.Error(err)
		}
		if s.Job != j.Folder() {
			t.Errorf("job %s lies in the folder %s", s.Job, j.Folder())
		}
	}
	slices.Sort(listed)
	if !slices.Equal(folders, listed) {
		t.Errorf("the folders are %v, jobs.All lists %v", folders, listed)
	}
}

// A change to any file that a job's transform is made of must change its digest.
func TestDigestsCoverAllCode(t *testing.T) {
	for _, j := range jobs.All() {
		code, err := j.Code()
		if err != nil {
			t.Fatal(err)
		}
		covered := map[string]bool{}
		for _, b := range code {
			covered[string(b)] = true
		}
		for _, file := range sources(t, j.Folder(), map[string]bool{}) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !covered[string(b)] {
				t.Errorf("job %s: %s is not in its digest: embed it, or add the folder by With", j.Folder(), file)
			}
		}
	}
}

// What a transform may import: nothing here can read a clock, draw at random, or reach out of the process. From package time
// it takes types and arithmetic; that it does not take time.Now is for the linter to see.
var allowed = []string{
	"bytes", "cmp", "embed", "errors", "fmt", "maps", "math", "math/big", "math/bits", "regexp", "slices", "sort", "strconv", "strings", "time", "unicode",
	"unicode/utf8", "hindcast/internal/job",
}

func TestJobsImportOnlyWhatIsPure(t *testing.T) {
	for _, j := range jobs.All() {
		for _, file := range sources(t, j.Folder(), map[string]bool{}) {
			for _, path := range imports(t, file) {
				if !slices.Contains(allowed, path) && !strings.HasPrefix(path, "hindcast/jobs/") {
					t.Errorf("%s imports %s: a transform is a pure function of its events", file, path)
				}
			}
		}
	}
}

// sources returns the Go files, without tests, of a folder here and of those that it imports.
func sources(t *testing.T, folder string, done map[string]bool) []string {
	t.Helper()
	if done[folder] {
		return nil
	}
	done[folder] = true
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
	for _, file := range slices.Clone(files) {
		for _, path := range imports(t, file) {
			if other, ok := strings.CutPrefix(path, "hindcast/jobs/"); ok {
				files = append(files, sources(t, other, done)...)
			}
		}
	}
	return files
}

func imports(t *testing.T, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, i := range f.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, path)
	}
	return out
}
