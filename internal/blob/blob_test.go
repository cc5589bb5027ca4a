package blob_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/blob/blobtest"
	"hindcast/internal/blob/memblob"
)

// The wrappers are stores, too.
func TestWrappers(t *testing.T) {
	for name, wrap := range map[string]func(blob.Store) blob.Store{
		"Sub":   func(s blob.Store) blob.Store { return blob.Sub(blob.Sub(s, "outer/with space"), "inner") },
		"Retry": func(s blob.Store) blob.Store { return blob.Retry(s, blob.RetryOptions{}) },
		"Hook":  func(s blob.Store) blob.Store { return blob.Hook(s, func(blob.Op) error { return nil }) },
		"Limit": func(s blob.Store) blob.Store {
			return blob.Limit(s, blob.LimitOptions{RequestsPerSecond: 1e6, BytesPerSecond: 1e10})
		},
	} {
		t.Run(name, func(t *testing.T) {
			blobtest.Run(t, func(*testing.T) blob.Store { return wrap(memblob.New()) })
		})
	}
}

func mustPut(t *testing.T, s blob.Store, key, body string) blob.Info {
	t.Helper()
	info, err := blob.PutBytes(t.Context(), s, key, []byte(body), blob.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestSubIsAPart(t *testing.T) {
	s := memblob.New()
	mustPut(t, s, "a", "outside")
	mustPut(t, s, "part/b", "inside")
	mustPut(t, s, "part-2/c", "outside")
	var keys []string
	for info, err := range blob.All(t.Context(), blob.Sub(s, "/part/"), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	if !slices.Equal(keys, []string{"b"}) {
		t.Errorf("lists %q", keys)
	}
	if _, err := blob.Sub(s, "part").Head(t.Context(), "../a"); err == nil || errors.Is(err, blob.ErrNotFound) {
		t.Errorf("a key that leads out gives %v", err)
	}
	if blob.Sub(s, "") != blob.Store(s) {
		t.Error("an empty prefix is not the store itself")
	}
}

func TestHook(t *testing.T) {
	mem := memblob.New()
	lost, refused := errors.New("lost"), errors.New("refused")
	var ops []blob.Op
	s := blob.Hook(mem, func(op blob.Op) error {
		ops = append(ops, op)
		switch {
		case op.Key == "lost" && op.Done:
			return lost
		case op.Key == "refused" && !op.Done:
			return refused
		}
		return nil
	})
	if _, err := blob.PutBytes(t.Context(), s, "lost", nil, blob.Condition{IfAbsent: true}); !errors.Is(err, lost) {
		t.Error(err)
	}
	if _, err := mem.Head(t.Context(), "lost"); err != nil {
		t.Errorf("the effect of a lost reply: %v", err)
	}
	if _, err := blob.PutBytes(t.Context(), s, "refused", nil, blob.Condition{}); !errors.Is(err, refused) {
		t.Error(err)
	}
	if _, err := mem.Head(t.Context(), "refused"); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("the effect of a refused put: %v", err)
	}
	if _, err := blob.PutBytes(t.Context(), s, "lost", nil, blob.Condition{IfAbsent: true}); !errors.Is(err, blob.ErrPrecondition) {
		t.Error(err)
	}
	if err := s.Delete(t.Context(), "lost"); !errors.Is(err, lost) {
		t.Error(err)
	}
	absent := blob.Condition{IfAbsent: true}
	want := []blob.Op{
		{Verb: blob.VerbPut, Key: "lost", Cond: absent},
		{Verb: blob.VerbPut, Key: "lost", Cond: absent, Done: true},
		{Verb: blob.VerbPut, Key: "refused"},
		{Verb: blob.VerbPut, Key: "lost", Cond: absent},
		{Verb: blob.VerbDelete, Key: "lost"},
		{Verb: blob.VerbDelete, Key: "lost", Done: true},
	}
	if !slices.Equal(ops, want) {
		t.Errorf("ops are %+v", ops)
	}
}

// counted counts the calls of Get.
type counted struct {
	blob.Store
	gets int
}

func (c *counted) Get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	c.gets++
	return c.Store.Get(ctx, key, opts)
}

// What a Parquet reader does first, in small reads, must not take a request each.
func TestReaderAtCoalesces(t *testing.T) {
	s := &counted{Store: memblob.New()}
	info := mustPut(t, s, "x", strings.Repeat("0123456789", 1e6))
	r := blob.ReaderAt(t.Context(), s, info)
	for _, off := range []int64{info.Size - 8, info.Size - 60_000, info.Size - 200_000} {
		if _, err := r.ReadAt(make([]byte, 8), off); err != nil {
			t.Fatal(err)
		}
	}
	if s.gets != 1 {
		t.Errorf("reads at the end took %d requests", s.gets)
	}
	s.gets = 0
	if _, err := io.Copy(io.Discard, io.NewSectionReader(r, 0, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if s.gets > 8 {
		t.Errorf("1 MiB in order took %d requests", s.gets)
	}
	s.gets = 0
	if _, err := r.ReadAt(make([]byte, 5e6), 1); err != nil || s.gets != 1 {
		t.Errorf("5 MB at once took %d requests, %v", s.gets, err)
	}
}

func TestAllEndsAfterAnError(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	n := 0
	for _, err := range blob.All(ctx, memblob.New(), "") {
		n++
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	}
	if n != 1 {
		t.Errorf("%d errors", n)
	}
}

// deaf ignores conditions, as some stores do.
type deaf struct {
	blob.Store
	absent, match, gone bool // which are ignored
}

func (d deaf) Put(ctx context.Context, key string, body io.ReadSeeker, cond blob.Condition) (blob.Info, error) {
	if cond.IfAbsent && d.absent {
		cond.IfAbsent = false
	}
	if cond.IfMatch != "" {
		_, err := d.Head(ctx, key)
		if err == nil && d.match || err != nil && d.gone {
			cond.IfMatch = ""
		}
	}
	return d.Store.Put(ctx, key, body, cond)
}

func TestProbe(t *testing.T) {
	for _, c := range []struct {
		absent, match, gone bool
		want                string
	}{
		{false, false, false, ""},
		{true, false, false, "puts: IfAbsent over an object;"},
		{false, true, false, "puts: IfMatch with an older object's tag;"},
		{false, false, true, "puts: IfMatch without an object;"},
		{true, true, true, "puts: IfAbsent over an object, IfMatch with an older object's tag, IfMatch without an object;"},
	} {
		mem := memblob.New()
		err := blob.Probe(t.Context(), deaf{mem, c.absent, c.match, c.gone}, "probes/x")
		if (c.want == "") != (err == nil) || err != nil && (!errors.Is(err, blob.ErrConditionsIgnored) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
		if page, _ := mem.List(t.Context(), "", "", 10); len(page) > 0 {
			t.Errorf("%+v: the probe left %v", c, page)
		}
	}
}

// lengthTags is a store that makes tags of lengths.
type lengthTags struct{ blob.Store }

func (s lengthTags) Put(ctx context.Context, key string, body io.ReadSeeker, cond blob.Condition) (blob.Info, error) {
	cond.IfMatch = ""
	info, err := s.Store.Put(ctx, key, body, cond)
	info.ETag = "7"
	return info, err
}

func TestProbeFindsWeakTags(t *testing.T) {
	err := blob.Probe(t.Context(), lengthTags{memblob.New()}, "x")
	if !errors.Is(err, blob.ErrConditionsIgnored) || !strings.Contains(err.Error(), "another tag") {
		t.Error(err)
	}
}
