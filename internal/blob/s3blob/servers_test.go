//go:build servers

package s3blob_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/blob/blobtest"
	"hindcast/internal/blob/openblob"
	"hindcast/internal/blob/s3blob"
	"hindcast/internal/testenv/s3env"
)

func TestServerConformance(t *testing.T) {
	s3env.Start(t)
	n := 0
	blobtest.RunWith(t, blobtest.Options{LoosePins: true}, func(t *testing.T) blob.Store {
		n++
		s, err := s3blob.New(t.Context(), fmt.Sprintf("s3://bucket/part %d/%s", n, "é+"), s3blob.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// At the bucket's root, without a prefix, and through openblob's retrier.
func TestServerRootAndProbe(t *testing.T) {
	s3env.Start(t)
	s, err := openblob.Open(t.Context(), "s3://bucket")
	if err != nil {
		t.Fatal(err)
	}
	if err := blob.Probe(t.Context(), s, "probe"); err != nil {
		t.Error(err)
	}
	if _, err := blob.PutBytes(t.Context(), s, "a/b", []byte("x"), blob.Condition{}); err != nil {
		t.Fatal(err)
	}
	page, err := s.List(t.Context(), "", "", 10)
	if err != nil || len(page) != 1 || page[0].Key != "a/b" {
		t.Errorf("lists %+v, %v", page, err)
	}
}

func TestServerRefusals(t *testing.T) {
	s3env.Start(t)
	open := func(url string) blob.Store {
		s, err := s3blob.New(t.Context(), url, s3blob.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	// A bucket that does not exist is not an object that does not exist.
	none := open("s3://nowhere/x")
	_, err := none.Get(t.Context(), "a", blob.GetOptions{})
	_, errList := none.List(t.Context(), "", "", 1)
	_, errPut := blob.PutBytes(t.Context(), none, "a", nil, blob.Condition{IfMatch: `"x"`})
	for _, err := range []error{err, errList, errPut, none.Delete(t.Context(), "a")} {
		if err == nil || errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrPrecondition) || blob.IsTransient(err) {
			t.Errorf("no bucket: %v", err)
		}
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	_, err = open("s3://bucket").Get(t.Context(), "a", blob.GetOptions{})
	if err == nil || errors.Is(err, blob.ErrNotFound) || blob.IsTransient(err) {
		t.Errorf("wrong secret: %v", err)
	}
}

// A server that is killed and comes back is an outage, which the retrier survives; objects that were acknowledged are there.
func TestServerRestart(t *testing.T) {
	g := s3env.Start(t)
	bare, err := s3blob.New(t.Context(), "s3://bucket/x", s3blob.Options{})
	if err != nil {
		t.Fatal(err)
	}
	info, err := blob.PutBytes(t.Context(), bare, "pointer", []byte("1"), blob.Condition{IfAbsent: true})
	if err != nil {
		t.Fatal(err)
	}
	g.Kill()
	if _, err := bare.Head(t.Context(), "pointer"); !blob.IsTransient(err) {
		t.Errorf("head without a server: %v", err)
	}
	if _, err := blob.PutBytes(t.Context(), bare, "pointer", []byte("2"), blob.Condition{IfMatch: info.ETag}); !blob.IsTransient(err) {
		t.Errorf("put without a server: %v", err)
	}
	result := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		b, got, err := blob.ReadAll(ctx, blob.Retry(bare, blob.RetryOptions{}), "pointer")
		if err == nil && (string(b) != "1" || got.ETag != info.ETag) {
			err = fmt.Errorf("reads %q, %+v; put %+v", b, got, info)
		}
		result <- err
	}()
	time.Sleep(300 * time.Millisecond)
	g.Run(t)
	if err := <-result; err != nil {
		t.Error(err)
	}
}
