package s3blob_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"hindcast/internal/blob"
	"hindcast/internal/blob/s3blob"
)

// setEnv gives the SDK credentials and keeps it from the user's own configuration.
func setEnv(t *testing.T) {
	t.Helper()
	none := filepath.Join(t.TempDir(), "none")
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none,
		"AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_PROFILE": "",
	} {
		t.Setenv(name, value)
	}
}

// serve opens a store on a server that answers by fn.
func serve(t *testing.T, fn http.HandlerFunc) *s3blob.Store {
	t.Helper()
	setEnv(t)
	srv := httptest.NewServer(fn)
	t.Cleanup(srv.Close)
	s, err := s3blob.New(t.Context(), "s3://bucket/pre fix", s3blob.Options{Endpoint: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func refuse(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Amz-Request-Id", "R-1")
		w.WriteHeader(status)
		if r.Method != http.MethodHead {
			_, _ = fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>so it is</Message></Error>`, code)
		}
	}
}

// What S3 and its like answer to a put, and what it means.
func TestPutRefusals(t *testing.T) {
	absent, match := blob.Condition{IfAbsent: true}, blob.Condition{IfMatch: `"x"`}
	for _, c := range []struct {
		status int
		code   string
		cond   blob.Condition
		class  error // nil: none of them
	}{
		{412, "PreconditionFailed", absent, blob.ErrPrecondition},
		{412, "PreconditionFailed", match, blob.ErrPrecondition},
		{404, "NoSuchKey", match, blob.ErrPrecondition},
		{404, "NoSuchBucket", match, nil},
		{404, "NoSuchBucket", blob.Condition{}, nil},
		{409, "ConditionalRequestConflict", absent, blob.ErrPrecondition},
		{409, "ConditionalRequestConflict", match, blob.ErrPrecondition},
		{409, "OperationAborted", match, blob.ErrPrecondition},
		{409, "OperationAborted", blob.Condition{}, blob.ErrTransient},
		{409, "ObjectParentIsFile", match, nil},
		{500, "InternalError", match, blob.ErrTransient},
		{503, "SlowDown", blob.Condition{}, blob.ErrTransient},
		{429, "TooManyRequests", match, blob.ErrTransient},
		{400, "RequestTimeout", match, blob.ErrTransient},
		{403, "AccessDenied", match, nil},
		{400, "EntityTooLarge", blob.Condition{}, nil},
		{501, "NotImplemented", match, nil},
	} {
		t.Run(fmt.Sprintf("%d %s", c.status, c.code), func(t *testing.T) {
			requests := 0
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				requests++
				refuse(c.status, c.code)(w, r)
			})
			_, err := blob.PutBytes(t.Context(), s, "a b", []byte("x"), c.cond)
			if err == nil {
				t.Fatal("no error")
			}
			for _, class := range []error{blob.ErrPrecondition, blob.ErrNotFound, blob.ErrTransient} {
				if errors.Is(err, class) != errors.Is(c.class, class) {
					t.Errorf("%+v: %v", c.cond, err)
				}
			}
			if !strings.HasPrefix(err.Error(), "put s3://bucket/pre fix/a b: ") {
				t.Errorf("message: %v", err)
			}
			if (c.class == nil && c.code != "NoSuchBucket" || errors.Is(c.class, blob.ErrTransient)) &&
				(!strings.Contains(err.Error(), c.code) || !strings.Contains(err.Error(), "R-1")) {
				t.Errorf("neither code nor request in: %v", err)
			}
			if requests != 1 {
				t.Errorf("%d requests: only blob.Retry retries", requests)
			}
		})
	}
}

// A put whose answer is lost may have taken effect.
func TestLostReply(t *testing.T) {
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler) // closes the connection
	})
	if _, err := blob.PutBytes(t.Context(), s, "a", []byte("x"), blob.Condition{IfAbsent: true}); !blob.IsTransient(err) {
		t.Errorf("put: %v", err)
	}
	if _, err := s.Head(t.Context(), "a"); !blob.IsTransient(err) {
		t.Errorf("head: %v", err)
	}
}

func TestBrokenBody(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.Header().Set("ETag", `"1"`)
		_, _ = w.Write([]byte("half"))
	})
	if _, _, err := blob.ReadAll(t.Context(), s, "a"); !blob.IsTransient(err) {
		t.Errorf("body: %v", err)
	}
}

// A store that gives another object than the one asked for is found out.
func TestIgnoredIfMatch(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"2"`)
		_, _ = w.Write([]byte("other"))
	})
	if _, err := s.Get(t.Context(), "a", blob.GetOptions{IfMatch: `"1"`}); !errors.Is(err, blob.ErrPrecondition) {
		t.Error(err)
	}
}

func TestReadRefusals(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		class  error
		says   string
	}{
		{404, "NoSuchKey", blob.ErrNotFound, ""},
		{404, "NoSuchBucket", nil, "bucket does not exist"},
		{403, "AccessDenied", nil, "s3:ListBucket"},
		{301, "PermanentRedirect", nil, "AWS_REGION"},
		{412, "PreconditionFailed", blob.ErrPrecondition, ""},
		{503, "SlowDown", blob.ErrTransient, "SlowDown"},
	} {
		s := serve(t, refuse(c.status, c.code))
		_, err := s.Get(t.Context(), "a", blob.GetOptions{})
		for _, class := range []error{blob.ErrPrecondition, blob.ErrNotFound, blob.ErrTransient} {
			if errors.Is(err, class) != errors.Is(c.class, class) {
				t.Errorf("%d %s: %v", c.status, c.code, err)
			}
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d %s: %v, want %q", c.status, c.code, err, c.says)
		}
	}
}

func TestNew(t *testing.T) {
	setEnv(t)
	for url, says := range map[string]string{
		"s3://bucket/x": "AWS_REGION", "s3://": "no bucket", "s3:///x": "no bucket", "https://bucket/x": "want s3://",
		"s3://b--use1-az4--x-s3/x": "directory buckets", "s3://bucket/a//b": "element",
	} {
		if _, err := s3blob.New(t.Context(), url, s3blob.Options{}); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), url) {
			t.Errorf("%s: %v, want %q", url, err, says)
		}
	}
	if _, err := s3blob.New(t.Context(), "s3://bucket", s3blob.Options{Region: "eu-west-1"}); err != nil {
		t.Error(err)
	}
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	if _, err := s3blob.New(t.Context(), "s3://bucket", s3blob.Options{}); err != nil {
		t.Error(err)
	}
}
