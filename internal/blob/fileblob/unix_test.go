//go:build linux || darwin

package fileblob_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/blob/fileblob"
	"hindcast/internal/testenv"
)

// childEnv makes the test binary a process that counts up: its value is the store's folder.
const childEnv = "HINDCAST_FILEBLOB_COUNT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		fmt.Println(countUp(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// countUp prints 0, then swaps the counter for the next number for ever, and prints each that was acknowledged.
func countUp(dir string) error {
	s, err := fileblob.New(dir)
	if err != nil {
		return err
	}
	key := "counter"
	if filepath.Base(dir) != "pointers" {
		key = "pointers/counter"
	}
	ctx := context.Background()
	fmt.Println(0)
	for {
		b, info, err := blob.ReadAll(ctx, s, key)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			return err
		}
		_, err = blob.PutBytes(ctx, s, key, fmt.Appendf(nil, "%5000d", n+1), blob.Condition{IfMatch: info.ETag})
		if errors.Is(err, blob.ErrPrecondition) {
			continue
		}
		if err != nil {
			return err
		}
		fmt.Println(n + 1)
	}
}

// Eight processes swap one object and are killed again and again; half of them
// open the store at an outer folder. No number is acknowledged twice, none is lost, and no read is torn.
func TestKilledProcesses(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	mustPut(t, s, "pointers/counter", fmt.Appendf(nil, "%5000d", 0))
	kills := 20
	if testenv.Full() {
		kills = 400
	}
	var mu sync.Mutex
	acknowledged := map[int]int{}
	var wg sync.WaitGroup
	for p := range 8 {
		wg.Go(func() {
			dir := root
			if p%2 == 0 {
				dir = filepath.Join(root, "pointers")
			}
			for range kills / 8 {
				lines, err := runAndKill(dir, time.Duration(20+rand.IntN(150))*time.Millisecond)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, n := range lines {
					acknowledged[n]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	b, _, err := blob.ReadAll(t.Context(), s, "pointers/counter")
	if err != nil {
		t.Fatal(err)
	}
	last, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	for n, times := range acknowledged {
		if times > 1 || n > last {
			t.Errorf("%d was acknowledged %d times; the counter stands at %d", n, times, last)
		}
	}
	// A process that was killed between the swap and its word leaves one number unacknowledged.
	if lost := last - len(acknowledged); lost > kills || len(acknowledged) == 0 {
		t.Errorf("%d swaps, of which %d were acknowledged, with %d kills", last, len(acknowledged), kills)
	}
	t.Logf("%d swaps, %d acknowledged, %d kills", last, len(acknowledged), kills)
	page, err := s.List(t.Context(), "", "", 10)
	if err != nil || len(page) != 1 {
		t.Errorf("left behind: %v, %v", page, err)
	}
}

// runAndKill runs countUp in a process, kills it some time after it began, and returns what it printed.
func runAndKill(dir string, life time.Duration) ([]int, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var numbers []int
	for sc := bufio.NewScanner(out); sc.Scan(); {
		n, err := strconv.Atoi(sc.Text())
		if err != nil {
			return nil, fmt.Errorf("process says: %s", sc.Text())
		}
		if n > 0 {
			numbers = append(numbers, n)
			continue
		}
		timer := time.AfterFunc(life, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
	}
	_ = cmd.Wait() // killed
	return numbers, nil
}

func mustPut(t *testing.T, s blob.Store, key string, b []byte) blob.Info {
	t.Helper()
	info, err := blob.PutBytes(t.Context(), s, key, b, blob.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// list gives the ETag of every key.
func list(t *testing.T, s blob.Store) map[string]blob.ETag {
	t.Helper()
	tags := map[string]blob.ETag{}
	for info, err := range blob.All(t.Context(), s, "") {
		if err != nil {
			t.Fatal(err)
		}
		tags[info.Key] = info.ETag
	}
	return tags
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Files that others write are objects; a change shows in the ETag, even at equal length and with the old time put back.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	must(t, os.MkdirAll(filepath.Join(dir, "in/empty"), 0o755))
	for _, n := range []int{10, 200_000} {
		path := filepath.Join(dir, "in", strconv.Itoa(n))
		must(t, os.WriteFile(path, bytes.Repeat([]byte("a"), n), 0o644))
		st, err := os.Stat(path)
		must(t, err)
		before := list(t, s)
		if again := list(t, s); !maps.Equal(before, again) {
			t.Errorf("tags change by themselves: %v, %v", before, again)
		}
		time.Sleep(20 * time.Millisecond) // past the file system's tick
		must(t, os.WriteFile(path, bytes.Repeat([]byte("b"), n), 0o644))
		must(t, os.Chtimes(path, st.ModTime(), st.ModTime()))
		key := "in/" + strconv.Itoa(n)
		after := list(t, s)[key]
		if after == before[key] {
			t.Errorf("%d bytes were overwritten, the tag stays %s", n, after)
		}
		_, err = blob.PutBytes(t.Context(), s, key, nil, blob.Condition{IfMatch: before[key]})
		if !errors.Is(err, blob.ErrPrecondition) {
			t.Error(err)
		}
		if _, err := blob.PutBytes(t.Context(), s, key, []byte("c"), blob.Condition{IfMatch: after}); err != nil {
			t.Error(err)
		}
	}
}

func TestOverwrittenWhileRead(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	info := mustPut(t, s, "x", make([]byte, 300_000))
	o, err := s.Get(t.Context(), "x", blob.GetOptions{Offset: 100, Length: 200_000, IfMatch: info.ETag})
	must(t, err)
	defer o.Body.Close()
	_, err = io.CopyN(io.Discard, o.Body, 1000)
	must(t, err)
	at := o.Body.(io.ReaderAt)
	if n, err := at.ReadAt(make([]byte, 1000), 199_500); n != 500 || !errors.Is(err, io.EOF) {
		t.Errorf("at the end of the range it reads %d bytes: %v", n, err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "x"), bytes.Repeat([]byte("b"), 300_000), 0o644))
	if _, err := at.ReadAt(make([]byte, 1000), 0); !errors.Is(err, blob.ErrPrecondition) {
		t.Error(err)
	}
	if _, err := io.Copy(io.Discard, o.Body); !errors.Is(err, blob.ErrPrecondition) {
		t.Error(err)
	}
}

// A draft that is put becomes the object: it is not copied, and a process that ends before leaves nothing.
func TestDraftsLieWhereTheyWillBe(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("files without a name are Linux's")
	}
	dir := t.TempDir()
	s := open(t, dir)
	for folder, in := range map[string]blob.Store{"": s, "sub": blob.Hook(blob.Sub(s, "sub"), func(blob.Op) error { return nil })} {
		d, err := blob.NewDraft(in, "a/x", "/nowhere")
		must(t, err)
		_, err = d.Write(make([]byte, 5<<20))
		must(t, err)
		if entries, err := os.ReadDir(filepath.Join(dir, folder, "a")); err != nil || len(entries) > 0 {
			t.Errorf("there are %v, %v", entries, err)
		}
		before, err := d.(interface{ Stat() (fs.FileInfo, error) }).Stat()
		must(t, err)
		info, err := in.Put(t.Context(), "a/x", d, blob.Condition{IfAbsent: true})
		must(t, err)
		must(t, d.Close())
		after, err := os.Stat(filepath.Join(dir, folder, "a/x"))
		must(t, err)
		if !os.SameFile(before, after) || after.Mode().Perm() != 0o644 {
			t.Errorf("it was copied, or has the mode %v", after.Mode())
		}
		if head, err := in.Head(t.Context(), "a/x"); err != nil || head.ETag != info.ETag {
			t.Errorf("head gives %v, %v, put %v", head.ETag, err, info.ETag)
		}
	}
}

func TestLinksAndOthers(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	elsewhere := t.TempDir()
	must(t, os.WriteFile(filepath.Join(elsewhere, "file"), []byte("x"), 0o644))
	must(t, os.Symlink(elsewhere, filepath.Join(dir, "folder")))
	must(t, os.Symlink(filepath.Join(elsewhere, "file"), filepath.Join(dir, "link")))
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644))
	if keys := slices.Sorted(maps.Keys(list(t, s))); !slices.Equal(keys, []string{"folder/file", "link"}) {
		t.Errorf("lists %q", keys)
	}
	for _, key := range []string{"pipe", "folder"} {
		if _, err := s.Get(t.Context(), key, blob.GetOptions{}); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("get of %s: %v", key, err)
		}
	}
	// The same lock, whichever way leads to the folder.
	mustPut(t, s, "folder/file", []byte("y"))
	if b, err := os.ReadFile(filepath.Join(elsewhere, "file")); err != nil || string(b) != "y" {
		t.Error(string(b), err)
	}
	must(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	if _, err := s.List(t.Context(), "", "", 10); err == nil || !strings.Contains(err.Error(), "dangling") {
		t.Errorf("a link that leads nowhere: %v", err)
	}
}

func TestTemporaryFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	mustPut(t, s, "a/x", nil)
	young, old := filepath.Join(dir, "a/.hindcast-put-1"), filepath.Join(dir, "a/.hindcast-put-2")
	for _, path := range []string{young, old} {
		must(t, os.WriteFile(path, []byte("half"), 0o644))
	}
	ago := time.Now().Add(-48 * time.Hour)
	must(t, os.Chtimes(old, ago, ago))
	if tags := list(t, s); len(tags) != 1 {
		t.Errorf("lists %v", tags)
	}
	if _, err := s.Get(t.Context(), "a/.hindcast-put-1", blob.GetOptions{}); err == nil || errors.Is(err, blob.ErrNotFound) {
		t.Errorf("get of a temporary file: %v", err)
	}
	mustPut(t, open(t, dir), "a/y", nil)
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old one was not removed: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("another process may be writing it: %v", err)
	}
	// A put that fails leaves none, and no folder is made for a put that cannot be.
	_, err := s.Put(t.Context(), "a/z", brokenBody{bytes.NewReader(make([]byte, 100))}, blob.Condition{})
	if !errors.Is(err, errBroken) {
		t.Error(err)
	}
	_, err = blob.PutBytes(t.Context(), s, "b/x", nil, blob.Condition{IfMatch: "x"})
	if !errors.Is(err, blob.ErrPrecondition) {
		t.Error(err)
	}
	var names []string
	must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, strings.TrimPrefix(path, dir))
		return err
	}))
	if want := []string{"", "/a", "/a/.hindcast-put-1", "/a/x", "/a/y"}; !slices.Equal(names, want) {
		t.Errorf("there are %q", names)
	}
}

var errBroken = errors.New("broken")

type brokenBody struct{ io.ReadSeeker }

func (brokenBody) Read([]byte) (int, error) { return 0, errBroken }

// Someone who was stopped while holding the lock must not hold up a caller past its deadline.
func TestLockWaitEndsWithContext(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	mustPut(t, s, "a/x", []byte("1"))
	f, err := os.Open(filepath.Join(dir, "a"))
	must(t, err)
	defer f.Close()
	must(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := blob.PutBytes(ctx, s, "a/x", []byte("2"), blob.Condition{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := s.Delete(ctx, "a/x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if b, _, err := blob.ReadAll(t.Context(), s, "a/x"); err != nil || string(b) != "1" {
		t.Error(string(b), err)
	}
}

func TestNew(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o644))
	if _, err := fileblob.New(filepath.Join(dir, "file")); err == nil {
		t.Error("a file is taken for a store")
	}
	s := open(t, filepath.Join(dir, "not/yet"))
	if tags := list(t, s); len(tags) > 0 {
		t.Error(tags)
	}
	if _, err := os.Stat(filepath.Join(dir, "not")); err == nil {
		t.Error("reading made a folder")
	}
	mustPut(t, s, "x", nil)
	if tags := list(t, s); len(tags) != 1 {
		t.Error(tags)
	}
}

// A listing of large files must not read them: it is made of what stat tells.
func TestListDoesNotReadLargeFiles(t *testing.T) {
	dir := t.TempDir()
	for i := range 50 {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%03d.parquet", i)))
		must(t, err)
		must(t, f.Truncate(1<<40)) // a terabyte of nothing
		must(t, f.Close())
	}
	if tags := list(t, open(t, dir)); len(tags) != 50 {
		t.Errorf("lists %d", len(tags))
	}
}
