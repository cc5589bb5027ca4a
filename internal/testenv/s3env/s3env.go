// Package s3env starts a real S3 server for tests. Only tests with the build tag servers import it.
package s3env

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const accessKey, secretKey = "hindcast", "hindcast-secret"

// Server is a versitygw process over a folder, with a bucket named "bucket".
type Server struct {
	addr, dir string
	cmd       *exec.Cmd
	log       *bytes.Buffer
}

// Start starts a server, which lives as long as the test, and points the SDK's environment at it.
// The binary is $HINDCAST_VERSITYGW or in the PATH; .ci/servers installs it.
func Start(t *testing.T) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{addr: l.Addr().String(), dir: t.TempDir()}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(s.dir, "bucket"), 0o755); err != nil { // which is how the server knows a bucket
		t.Fatal(err)
	}
	s.Run(t)
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("versitygw says: %s", s.log)
		}
	})
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": "http://" + s.addr, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": accessKey, "AWS_SECRET_ACCESS_KEY": secretKey,
		"AWS_CONFIG_FILE": filepath.Join(s.dir, "none"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(s.dir, "none"),
	} {
		t.Setenv(name, value)
	}
	return s
}

// Run starts the process, at first or after Kill.
func (s *Server) Run(t *testing.T) {
	t.Helper()
	binary := os.Getenv("HINDCAST_VERSITYGW")
	if binary == "" {
		binary = "versitygw"
	}
	s.log = &bytes.Buffer{}
	s.cmd = exec.Command(binary, "--port", s.addr, "--keep-alive", "--quiet", "posix", s.dir) //nolint:noctx // Kill ends it
	s.cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+accessKey, "ROOT_SECRET_KEY="+secretKey)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("%v: run .ci/servers, which installs versitygw", err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", s.addr) //nolint:noctx // it does not wait
		if err == nil {
			_ = conn.Close() // it was only to see that somebody answers
			return
		}
		if time.Now().After(deadline) {
			s.Kill()
			t.Fatalf("versitygw does not listen: %v\n%s", err, s.log)
		}
	}
}

// Kill ends the process as a crash would.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()         // killed
}
