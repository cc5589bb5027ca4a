//go:build servers

package s3blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"hindcast/internal/blob"
	"hindcast/internal/blob/blobtest"
	"hindcast/internal/blob/openblob"
	"hindcast/internal/blob/s3blob"
)

const accessKey, secretKey = "hindcast", "hindcast-secret"

// gateway is a versitygw process over a folder.
type gateway struct {
	addr, dir string
	cmd       *exec.Cmd
	log       *bytes.Buffer
}

// startGateway starts a versitygw with an empty bucket named bucket, and points the SDK's
// environment at it. The binary is $HINDCAST_VERSITYGW or in the PATH; .ci/servers installs it.
func startGateway(t *testing.T) *gateway {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{addr: l.Addr().String(), dir: t.TempDir()}
	l.Close()
	g.start(t)
	t.Cleanup(func() {
		g.kill()
		if t.Failed() {
			t.Logf("versitygw says: %s", g.log)
		}
	})
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": "http://" + g.addr, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": accessKey, "AWS_SECRET_ACCESS_KEY": secretKey,
		"AWS_CONFIG_FILE": filepath.Join(g.dir, "none"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(g.dir, "none"),
	} {
		t.Setenv(name, value)
	}
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String("http://" + g.addr), Region: "us-east-1", UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(accessKey, secretKey, ""),
	})
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("bucket")}); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *gateway) start(t *testing.T) {
	t.Helper()
	binary := os.Getenv("HINDCAST_VERSITYGW")
	if binary == "" {
		binary = "versitygw"
	}
	g.log = &bytes.Buffer{}
	g.cmd = exec.Command(binary, "--port", g.addr, "--keep-alive", "--quiet", "posix", g.dir)
	g.cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+accessKey, "ROOT_SECRET_KEY="+secretKey)
	g.cmd.Stdout, g.cmd.Stderr = g.log, g.log
	if err := g.cmd.Start(); err != nil {
		t.Fatalf("%v: run .ci/servers, which installs versitygw", err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", g.addr)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			g.kill()
			t.Fatalf("versitygw does not listen: %v\n%s", err, g.log)
		}
	}
}

func (g *gateway) kill() {
	_ = g.cmd.Process.Kill() // it may have ended
	_ = g.cmd.Wait()         // killed
}

func TestServerConformance(t *testing.T) {
	startGateway(t)
	n := 0
	blobtest.Run(t, func(t *testing.T) blob.Store {
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
	startGateway(t)
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
	startGateway(t)
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
	g := startGateway(t)
	bare, err := s3blob.New(t.Context(), "s3://bucket/x", s3blob.Options{})
	if err != nil {
		t.Fatal(err)
	}
	info, err := blob.PutBytes(t.Context(), bare, "pointer", []byte("1"), blob.Condition{IfAbsent: true})
	if err != nil {
		t.Fatal(err)
	}
	g.kill()
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
	g.start(t)
	if err := <-result; err != nil {
		t.Error(err)
	}
}
