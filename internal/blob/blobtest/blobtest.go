// Package blobtest is the suite that every blob.Store must pass. Only tests import it.
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
	"time"

	"hindcast/internal/blob"
)

// Run holds what open gives against the contract of [blob.Store]. Each call of open gives an empty store.
func Run(t *testing.T, open func(t *testing.T) blob.Store) { RunWith(t, Options{}, open) }

// Options say what the server behind a store is known to get wrong.
type Options struct {
	// LoosePins is for a server that holds the pin of a read against an object, and then opens what lies there by now: what was put
	// in between is read, if whole. versitygw 1.8.0 does so (posix.GetObject); S3 does not.
	LoosePins bool
}

// RunWith is [Run] over a server with known faults.
func RunWith(t *testing.T, opts Options, open func(t *testing.T) blob.Store) {
	for _, part := range []struct {
		name string
		test func(*testing.T, blob.Store)
	}{
		{"RoundTrip", roundTrip},
		{"Drafts", drafts},
		{"Keys", keys},
		{"BadKeys", badKeys},
		{"Ranges", ranges},
		{"Missing", missing},
		{"Conditions", conditions},
		{"PinnedReads", pinnedReads},
		{"ETags", etags},
		{"Cancelled", cancelled},
		{"ReaderAt", readerAt},
		{"List", list},
		{"Pages", pages},
		{"OneWinner", oneWinner},
		{"NoLostUpdate", noLostUpdate},
		{"OneCreator", oneCreator},
		{"WholeReads", func(t *testing.T, s blob.Store) { wholeReads(t, s, opts.LoosePins) }},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, open(t)) })
	}
}

// sizes lie on both sides of what stores treat apart: hashed or not, sent at once or after "100 Continue".
var sizes = []int{0, 1, 1000, 64 << 10, 64<<10 + 1, 3 << 20}

// content gives n bytes that differ for every seed.
func content(n int, seed uint64) []byte {
	var key [32]byte
	copy(key[:], fmt.Sprint(seed))
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(b) // never fails
	return b
}

func put(t *testing.T, s blob.Store, key string, b []byte, cond blob.Condition) blob.Info {
	t.Helper()
	info, err := blob.PutBytes(t.Context(), s, key, b, cond)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func wantBytes(t *testing.T, s blob.Store, key string, want []byte) {
	t.Helper()
	got, info, err := blob.ReadAll(t.Context(), s, key)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) || info.Size != int64(len(want)) {
		t.Fatalf("%s has %d bytes (said to be %d), want other %d", key, len(got), info.Size, len(want))
	}
}

func wantErr(t *testing.T, err, class error) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Fatalf("error is %v, want %v", err, class)
	}
	for _, other := range []error{blob.ErrNotFound, blob.ErrPrecondition, blob.ErrTransient} {
		if !errors.Is(class, other) && errors.Is(err, other) {
			t.Fatalf("%v is %v, too", err, other)
		}
	}
}

func roundTrip(t *testing.T, s blob.Store) {
	for i, n := range sizes {
		key := fmt.Sprintf("sizes/%d", n)
		b := content(n, uint64(i))
		// The body stands at its end: a store reads from the start.
		body := bytes.NewReader(b)
		_, _ = body.Seek(0, io.SeekEnd)
		begin := time.Now()
		info, err := s.Put(t.Context(), key, body, blob.Condition{})
		if err != nil {
			t.Fatal(err)
		}
		if info.Key != key || info.Size != int64(n) || info.ETag == "" {
			t.Errorf("put gives %+v", info)
		}
		wantBytes(t, s, key, b)
		head, err := s.Head(t.Context(), key)
		if err != nil || head.Key != key || head.Size != int64(n) || head.ETag != info.ETag {
			t.Errorf("head gives %+v, %v; put gave %+v", head, err, info)
		}
		if off := head.Modified.Sub(begin); off < -2*time.Second || off > time.Minute {
			t.Errorf("modified %v after the put began", off)
		}
		page, err := s.List(t.Context(), key, "", 1)
		if err != nil || len(page) != 1 || page[0].Key != key || page[0].Size != int64(n) || page[0].ETag != info.ETag {
			t.Errorf("list gives %+v, %v; put gave %+v", page, err, info)
		}
		put(t, s, key, b[:n/2], blob.Condition{})
		wantBytes(t, s, key, b[:n/2])
		if err := s.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		_, err = s.Head(t.Context(), key)
		wantErr(t, err, blob.ErrNotFound)
	}
}

// drafts builds objects where they will lie, or wherever the store lets them.
func drafts(t *testing.T, s blob.Store) {
	for i, n := range sizes {
		key := fmt.Sprintf("drafts/%d/object", n)
		b := content(n, uint64(i))
		d, err := blob.NewDraft(s, key, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		for rest := b; len(rest) > 0; {
			part := rest[:min(len(rest), 100_000)]
			if _, err := d.Write(part); err != nil {
				t.Fatal(err)
			}
			rest = rest[len(part):]
		}
		if page, err := s.List(t.Context(), key, "", 1); err != nil || len(page) > 0 {
			t.Errorf("what is not put is listed: %+v, %v", page, err)
		}
		got := make([]byte, n)
		if _, err := d.ReadAt(got, 0); err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(got, b) {
			t.Fatalf("what was written is not there: %v", err)
		}
		put(t, s, key, []byte("in the way"), blob.Condition{})
		_, err = s.Put(t.Context(), key, d, blob.Condition{IfAbsent: true})
		wantErr(t, err, blob.ErrPrecondition)
		// It can be put more than once, and elsewhere.
		for _, key := range []string{key, key, key + "-too", fmt.Sprintf("drafts/other/%d", n)} {
			info, err := s.Put(t.Context(), key, d, blob.Condition{})
			if err != nil || info.Key != key || info.Size != int64(n) {
				t.Fatalf("put gives %+v, %v", info, err)
			}
			wantBytes(t, s, key, b)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		wantBytes(t, s, key, b)
	}
	d, err := blob.NewDraft(s, "drafts/none", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Write([]byte("given up")); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	_, err = s.Head(t.Context(), "drafts/none")
	wantErr(t, err, blob.ErrNotFound)
}

func keys(t *testing.T, s blob.Store) {
	names := []string{
		"plain", "with space/and more", "plus+sign+0000000001.zstd.parquet", "day=2011-10-30/x", "percent%20%2F", "ünï/cödé/日本語", "emoji-🙂", "quote'\"<&>",
		"star*?[x]", "back\\slash", "#hash", "semi;colon:at@", "~tilde/.hidden", "_SUCCESS", "a/b/c/d/e/f/g/h", "dots..in..it", "comma,equals=", "trailing.",
	}
	for i, name := range names {
		put(t, s, name, content(10, uint64(i)), blob.Condition{IfAbsent: true})
	}
	listed := map[string]bool{}
	for info, err := range blob.All(t.Context(), s, "") {
		if err != nil {
			t.Fatal(err)
		}
		listed[info.Key] = true
	}
	for i, name := range names {
		if !listed[name] {
			t.Errorf("%q is not listed", name)
		}
		wantBytes(t, s, name, content(10, uint64(i)))
		info, err := s.Head(t.Context(), name)
		if err != nil || info.Key != name {
			t.Errorf("head of %q gives %+v, %v", name, info, err)
		}
		put(t, s, name, nil, blob.Condition{IfMatch: info.ETag})
		if err := s.Delete(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	if len(listed) != len(names) {
		t.Errorf("%d keys are listed, want %d: %v", len(listed), len(names), listed)
	}
	for info, err := range blob.All(t.Context(), s, "") {
		t.Errorf("after deletion there is %q, %v", info.Key, err)
	}
}

func badKeys(t *testing.T, s blob.Store) {
	put(t, s, "a/b", nil, blob.Condition{})
	for _, key := range []string{"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/./b", "a/../b", "a/b/..", "new\nline", "nul\x00", "\xff", string(make([]byte, 2000))} {
		_, errGet := s.Get(t.Context(), key, blob.GetOptions{})
		_, errHead := s.Head(t.Context(), key)
		_, errPut := blob.PutBytes(t.Context(), s, key, nil, blob.Condition{})
		for op, err := range map[string]error{"get": errGet, "head": errHead, "put": errPut, "delete": s.Delete(t.Context(), key)} {
			if err == nil || errors.Is(err, blob.ErrNotFound) {
				t.Errorf("%s of %q gives %v, want a refusal", op, key, err)
			}
		}
	}
	for _, prefix := range []string{"../", "a/../a/", "/a", "a//", "./"} {
		if page, err := s.List(t.Context(), prefix, "", 10); err != nil || len(page) > 0 {
			t.Errorf("list of %q gives %v, %v", prefix, page, err)
		}
	}
}

func ranges(t *testing.T, s blob.Store) {
	for _, n := range []int{10, 100_000} {
		b := content(n, 1)
		info := put(t, s, "x", b, blob.Condition{})
		for _, r := range [][2]int{{0, 1}, {0, n}, {3, 4}, {n - 1, 1}, {n - 1, 0}, {5, 0}, {n / 2, 2 * n}, {0, 5 * n}} {
			o, err := s.Get(t.Context(), "x", blob.GetOptions{Offset: int64(r[0]), Length: int64(r[1]), IfMatch: info.ETag})
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(o.Body)
			o.Body.Close()
			end := min(r[0]+r[1], n)
			if r[1] == 0 {
				end = n
			}
			if err != nil || !bytes.Equal(got, b[r[0]:end]) {
				t.Errorf("%d bytes from %d of %d: got %d, %v", r[1], r[0], n, len(got), err)
			}
			if o.Key != "x" || o.Size != int64(n) || o.ETag != info.ETag {
				t.Errorf("range of %+v is described as %+v", info, o.Info)
			}
		}
		for _, r := range [][2]int64{{int64(n), 0}, {int64(n), 1}, {int64(n) + 1, 1}, {-1, 0}, {-5, 5}, {0, -1}} {
			o, err := s.Get(t.Context(), "x", blob.GetOptions{Offset: r[0], Length: r[1]})
			if err == nil {
				o.Body.Close()
				t.Errorf("%d bytes from %d of %d: no error", r[1], r[0], n)
			}
			wantErr(t, err, err)
		}
	}
	put(t, s, "empty", nil, blob.Condition{})
	for _, length := range []int64{0, 5} {
		o, err := s.Get(t.Context(), "empty", blob.GetOptions{Length: length})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(o.Body); err != nil || len(got) > 0 || o.Size != 0 {
			t.Errorf("%d bytes of an empty object: got %d, %v, %+v", length, len(got), err, o.Info)
		}
		o.Body.Close()
	}
}

func missing(t *testing.T, s blob.Store) {
	put(t, s, "folder/object", []byte("x"), blob.Condition{})
	for _, key := range []string{"none", "folder", "folder/none", "none/none", "folder/object/below", "folder/objec", "folder/object2"} {
		_, err := s.Get(t.Context(), key, blob.GetOptions{})
		wantErr(t, err, blob.ErrNotFound)
		_, err = s.Head(t.Context(), key)
		wantErr(t, err, blob.ErrNotFound)
		if err := s.Delete(t.Context(), key); err != nil {
			t.Errorf("delete of what is not there: %v", err)
		}
	}
	wantBytes(t, s, "folder/object", []byte("x"))
}

func conditions(t *testing.T, s blob.Store) {
	for _, n := range []int{10, 100_000} {
		key := fmt.Sprintf("x%d", n)
		a, b, c := content(n, 1), content(n, 2), content(n, 3)
		_, err := blob.PutBytes(t.Context(), s, key, a, blob.Condition{IfMatch: `"d41d8cd98f00b204e9800998ecf8427e"`})
		wantErr(t, err, blob.ErrPrecondition) // there is none

		one := put(t, s, key, a, blob.Condition{IfAbsent: true})
		_, err = blob.PutBytes(t.Context(), s, key, b, blob.Condition{IfAbsent: true})
		wantErr(t, err, blob.ErrPrecondition)
		wantBytes(t, s, key, a)

		two := put(t, s, key, b, blob.Condition{IfMatch: one.ETag})
		_, err = blob.PutBytes(t.Context(), s, key, c, blob.Condition{IfMatch: one.ETag})
		wantErr(t, err, blob.ErrPrecondition)
		wantBytes(t, s, key, b)

		if err := s.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		_, err = blob.PutBytes(t.Context(), s, key, c, blob.Condition{IfMatch: two.ETag})
		wantErr(t, err, blob.ErrPrecondition)
		_, err = s.Head(t.Context(), key)
		wantErr(t, err, blob.ErrNotFound)
		put(t, s, key, c, blob.Condition{IfAbsent: true})
		wantBytes(t, s, key, c)
	}
}

func pinnedReads(t *testing.T, s blob.Store) {
	for _, n := range []int{10, 100_000} {
		one := put(t, s, "x", content(n, 1), blob.Condition{})
		two := put(t, s, "x", content(n, 2), blob.Condition{})
		for _, opts := range []blob.GetOptions{{IfMatch: one.ETag}, {IfMatch: one.ETag, Offset: 3, Length: 2}} {
			_, err := s.Get(t.Context(), "x", opts)
			wantErr(t, err, blob.ErrPrecondition)
			opts.IfMatch = two.ETag
			o, err := s.Get(t.Context(), "x", opts)
			if err != nil {
				t.Fatal(err)
			}
			o.Body.Close()
		}
		if err := s.Delete(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		_, err := s.Get(t.Context(), "x", blob.GetOptions{IfMatch: two.ETag})
		wantErr(t, err, blob.ErrNotFound)
	}
}

// etags must differ at equal lengths and however fast the puts follow each other.
func etags(t *testing.T, s blob.Store) {
	for _, n := range []int{10, 100_000} {
		seen := map[blob.ETag]int{}
		for i := range 50 {
			info := put(t, s, "x", content(n, uint64(i)), blob.Condition{})
			if j, ok := seen[info.ETag]; ok {
				t.Fatalf("contents %d and %d of %d bytes have the tag %s", j, i, n, info.ETag)
			}
			seen[info.ETag] = i
			if head, err := s.Head(t.Context(), "x"); err != nil || head.ETag != info.ETag {
				t.Fatalf("put gives the tag %s, head %s, %v", info.ETag, head.ETag, err)
			}
		}
	}
}

func cancelled(t *testing.T, s blob.Store) {
	put(t, s, "x", content(100_000, 1), blob.Condition{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, errGet := s.Get(ctx, "x", blob.GetOptions{})
	_, errHead := s.Head(ctx, "x")
	_, errList := s.List(ctx, "", "", 10)
	_, errPut := blob.PutBytes(ctx, s, "y", []byte("y"), blob.Condition{})
	for _, err := range []error{errGet, errHead, errList, errPut, s.Delete(ctx, "x")} {
		wantErr(t, err, context.Canceled)
	}
	wantBytes(t, s, "x", content(100_000, 1))
	_, err := s.Head(t.Context(), "y")
	wantErr(t, err, blob.ErrNotFound)
}

func readerAt(t *testing.T, s blob.Store) {
	for _, n := range []int{0, 10, 100_000, 700_000} {
		b := content(n, uint64(n))
		info := put(t, s, "x", b, blob.Condition{})
		r := blob.ReaderAt(t.Context(), s, info)
		if n < 500_000 { // the tester reads byte by byte
			if err := iotest.TestReader(io.NewSectionReader(r, 0, info.Size), b); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 100 {
			rnd := rand.New(rand.NewPCG(uint64(n), uint64(i)))
			off, size := rnd.IntN(n+1), rnd.IntN(n/(1+i%7)+2)
			p := make([]byte, size)
			got, err := r.ReadAt(p, int64(off))
			want := b[off:min(off+size, n)]
			if !bytes.Equal(p[:got], want) || (got < size) != (err == io.EOF) && size > 0 {
				t.Fatalf("%d bytes at %d of %d: got %d, %v", size, off, n, got, err)
			}
		}
	}
	info := put(t, s, "x", content(700_000, 1), blob.Condition{})
	r := blob.ReaderAt(t.Context(), s, info)
	if _, err := r.ReadAt(make([]byte, 8), info.Size-8); err != nil {
		t.Fatal(err)
	}
	put(t, s, "x", content(700_000, 2), blob.Condition{})
	_, err := r.ReadAt(make([]byte, 8), 0)
	wantErr(t, err, blob.ErrPrecondition)
}
