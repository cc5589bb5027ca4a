//go:build servers

package serve

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"hindcast/internal/blob/s3blob"
)

// TestRacesOnS3 is TestRaces against a real S3 server, versitygw, which .ci/servers installs.
func TestRacesOnS3(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr, dir := l.Addr().String(), t.TempDir()
	l.Close()
	if err := os.Mkdir(filepath.Join(dir, "bucket"), 0o755); err != nil { // which is how the server knows a bucket
		t.Fatal(err)
	}
	binary := os.Getenv("HINDCAST_VERSITYGW")
	if binary == "" {
		binary = "versitygw"
	}
	const key = "hindcast-secret"
	cmd := exec.Command(binary, "--port", addr, "--keep-alive", "--quiet", "posix", dir)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+key, "ROOT_SECRET_KEY="+key)
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: run .ci/servers, which installs versitygw", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("versitygw does not listen: %v", err)
		}
	}
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": "http://" + addr, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": key,
		"AWS_CONFIG_FILE": filepath.Join(dir, "none"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(dir, "none"),
	} {
		t.Setenv(name, value)
	}
	store, err := s3blob.New(t.Context(), "s3://bucket/lake", s3blob.Options{})
	if err != nil {
		t.Fatal(err)
	}
	race(t, store, 5, 20)
}
