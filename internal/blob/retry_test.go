package blob_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/blob/memblob"
)

// flaky fails while broken says so, before the effect.
type flaky struct {
	blob.Store
	broken func(key string) bool
	cut    int64 // bytes after which bodies break off; 0: never
	calls  int
}

func (f *flaky) err(key string) error {
	f.calls++
	if f.broken != nil && f.broken(key) {
		return fmt.Errorf("%s: %w", key, blob.ErrTransient)
	}
	return nil
}

func (f *flaky) Get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	if err := f.err(key); err != nil {
		return nil, err
	}
	o, err := f.Store.Get(ctx, key, opts)
	if err == nil && f.cut > 0 {
		rest := io.MultiReader(io.LimitReader(o.Body, f.cut), iotest.ErrReader(fmt.Errorf("cut: %w", blob.ErrTransient)))
		o.Body = io.NopCloser(rest)
	}
	return o, err
}

func (f *flaky) Head(ctx context.Context, key string) (blob.Info, error) {
	if err := f.err(key); err != nil {
		return blob.Info{}, err
	}
	return f.Store.Head(ctx, key)
}

func (f *flaky) List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	if err := f.err(prefix); err != nil {
		return nil, err
	}
	return f.Store.List(ctx, prefix, after, limit)
}

func (f *flaky) Put(ctx context.Context, key string, body io.ReadSeeker, cond blob.Condition) (blob.Info, error) {
	_, _ = io.CopyN(io.Discard, body, 2)
	if err := f.err(key); err != nil {
		return blob.Info{}, err
	}
	return f.Store.Put(ctx, key, body, cond)
}

func (f *flaky) Delete(ctx context.Context, key string) error {
	if err := f.err(key); err != nil {
		return err
	}
	return f.Store.Delete(ctx, key)
}

// A store that is down for the first half of every minute delays calls, but fails none; a key that never works fails in its time.
func TestRetrySurvivesOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := &flaky{Store: memblob.New(), broken: func(key string) bool { return time.Now().Second() < 30 || key == "never" }}
		s := blob.Retry(down, blob.RetryOptions{})
		for range 20 {
			mustPut(t, s, "x", "body")
			if b, _, err := blob.ReadAll(t.Context(), s, "x"); err != nil || string(b) != "body" {
				t.Fatal(string(b), err)
			}
			if _, err := s.Head(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			if page, err := s.List(t.Context(), "", "", 5); err != nil || len(page) != 1 {
				t.Fatal(page, err)
			}
			if err := s.Delete(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(7 * time.Second)
		}
		began := time.Now()
		_, err := s.Head(t.Context(), "never")
		if d := time.Since(began); !errors.Is(err, blob.ErrTransient) || d > 2*time.Minute || d < time.Minute || !strings.Contains(err.Error(), "never") {
			t.Errorf("after %v: %v", d, err)
		}
	})
}

func TestRetryLeavesConditionalPutsAlone(t *testing.T) {
	lost := true
	s := blob.Retry(blob.Hook(memblob.New(), func(op blob.Op) error {
		if op.Done && lost {
			return blob.ErrTransient
		}
		return nil
	}), blob.RetryOptions{})
	_, err := blob.PutBytes(t.Context(), s, "pointer", []byte("1"), blob.Condition{IfAbsent: true})
	if !errors.Is(err, blob.ErrTransient) {
		t.Fatalf("%v: the caller must learn that the outcome is unknown", err)
	}
	b, info, err := blob.ReadAll(t.Context(), s, "pointer")
	if err != nil || string(b) != "1" {
		t.Fatal(string(b), err)
	}
	_, err = blob.PutBytes(t.Context(), s, "pointer", []byte("2"), blob.Condition{IfMatch: info.ETag})
	if !errors.Is(err, blob.ErrTransient) || errors.Is(err, blob.ErrPrecondition) {
		t.Fatal(err)
	}
}

func TestRetryReadsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{Store: memblob.New(), cut: 1000}
		s := blob.Retry(f, blob.RetryOptions{})
		body := strings.Repeat("0123456789", 777)
		info := mustPut(t, s, "x", body)
		if b, _, err := blob.ReadAll(t.Context(), s, "x"); err != nil || string(b) != body {
			t.Fatal(len(b), err)
		}
		o, err := s.Get(t.Context(), "x", blob.GetOptions{Offset: 5, Length: 3333, IfMatch: info.ETag})
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(o.Body); err != nil || string(b) != body[5:3338] {
			t.Fatal(len(b), err)
		}
		// Another object by now must not be read on.
		if o, err = s.Get(t.Context(), "x", blob.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, o.Body, 500); err != nil {
			t.Fatal(err)
		}
		mustPut(t, s, "x", strings.ToUpper(body)+".")
		if _, err := io.ReadAll(o.Body); !errors.Is(err, blob.ErrPrecondition) {
			t.Fatal(err)
		}
		// A body that never gives a byte ends in its time.
		f.cut = -1
		f.Store = noBody{f.Store}
		if o, err = s.Get(t.Context(), "x", blob.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := io.ReadAll(o.Body); !errors.Is(err, blob.ErrTransient) || time.Since(began) > 2*time.Minute {
			t.Fatalf("after %v: %v", time.Since(began), err)
		}
	})
}

// noBody opens objects of which no byte comes.
type noBody struct{ blob.Store }

func (s noBody) Get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	o, err := s.Store.Get(ctx, key, opts)
	if err == nil {
		o.Body = io.NopCloser(iotest.ErrReader(blob.ErrTransient))
	}
	return o, err
}

func TestRetryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{Store: memblob.New(), broken: func(string) bool { return true }}
		s := blob.Retry(f, blob.RetryOptions{Total: 10})
		for range 5 {
			if _, err := s.Head(t.Context(), "x"); !errors.Is(err, blob.ErrTransient) {
				t.Fatal(err)
			}
		}
		if f.calls != 5+10 {
			t.Errorf("%d calls", f.calls)
		}
		// Errors that stay are not tried again, and a cancelled caller does not wait.
		f.broken, f.calls = nil, 0
		if _, err := s.Head(t.Context(), "x"); !errors.Is(err, blob.ErrNotFound) || f.calls != 1 {
			t.Errorf("%d calls, %v", f.calls, err)
		}
		f.broken = func(string) bool { return true }
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		_, err := blob.Retry(f, blob.RetryOptions{}).Head(ctx, "x")
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, blob.ErrTransient) || time.Since(began) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memblob.New()
		s := blob.Limit(mem, blob.LimitOptions{RequestsPerSecond: 10})
		began := time.Now()
		for range 51 { // the first second's worth goes at once
			if _, err := s.List(t.Context(), "", "", 1); err != nil {
				t.Fatal(err)
			}
		}
		if d := time.Since(began).Round(100 * time.Millisecond); d != 4100*time.Millisecond {
			t.Errorf("51 requests at 10/s took %v", d)
		}
		s = blob.Limit(mem, blob.LimitOptions{BytesPerSecond: 1000})
		began = time.Now()
		mustPut(t, s, "x", strings.Repeat("x", 5000))
		if b, _, err := blob.ReadAll(t.Context(), s, "x"); err != nil || len(b) != 5000 {
			t.Fatal(len(b), err)
		}
		if d := time.Since(began).Round(100 * time.Millisecond); d != 9*time.Second {
			t.Errorf("10,000 bytes at 1,000/s took %v", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := blob.PutBytes(ctx, s, "x", make([]byte, 3000), blob.Condition{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestCheckKey(t *testing.T) {
	for _, key := range []string{"a", "a/b c+d/é", ".hidden", "..a", "a..", strings.Repeat("k", 1024)} {
		if err := blob.CheckKey(key); err != nil {
			t.Error(err)
		}
	}
	for key, why := range map[string]string{
		"": "empty", "/a": "slash", "a/": "slash", "a//b": `element ""`, "a/../b": `element ".."`, ".": `element "."`,
		"a\tb": "control", "a\xffb": "UTF-8", strings.Repeat("k", 1025): "1025 bytes",
	} {
		if err := blob.CheckKey(key); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %s", key, err, why)
		}
	}
}
