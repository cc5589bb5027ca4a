package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"hindcast/internal/blob"
	"hindcast/internal/blob/openblob"
	"hindcast/internal/unit"
)

// server is an S3 server behind a proxy that answers late, and counts.
type server struct {
	endpoint string // of the proxy
	dir      string // the bucket's
	delay    time.Duration
	cmd      *exec.Cmd
	front    *http.Server

	mu       sync.Mutex
	requests map[string]int64 // by method
	bytes    unit.Bytes       // of bodies, either way
}

const bucket = "s3://bucket"

// serve starts versitygw over a folder. Objects lie in it under their keys, which is how results are compared.
func (b *bench) serve(ctx context.Context, dir string) (_ *server, err error) {
	binary := b.versitygw
	if binary == "" {
		binary = os.Getenv("HINDCAST_VERSITYGW")
	}
	if binary == "" {
		found, err := filepath.Glob("../../.cache/bin/versitygw-*")
		if err != nil || len(found) == 0 {
			return nil, errors.New("--latency needs versitygw, an S3 server: .ci/servers builds it; or name it by --versitygw")
		}
		binary = found[len(found)-1]
	}
	s := &server{dir: filepath.Join(dir, "bucket"), requests: map[string]int64{}}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, err
	}
	backend, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := backend.Addr().String()
	if err := backend.Close(); err != nil { // it was to find a port that is free
		return nil, err
	}
	s.cmd = exec.CommandContext(ctx, binary, "--port", addr, "--keep-alive", "--quiet", "posix", dir)
	s.cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY=bench", "ROOT_SECRET_KEY=bench-secret")
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			_ = conn.Close() // it was only to see that somebody answers
			break
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s does not listen: %w", binary, err)
		}
	}
	proxy := &httputil.ReverseProxy{
		// Requests are signed for the proxy's own address, which the server must see.
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: addr})
			r.Out.Host = r.In.Host
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
		ModifyResponse: func(r *http.Response) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.requests[r.Request.Method]++
			if r.Request.Method != http.MethodHead {
				s.bytes += unit.Bytes(max(r.ContentLength, 0) + max(r.Request.ContentLength, 0))
			}
			return nil
		},
	}
	front, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.endpoint = "http://" + front.Addr().String()
	s.front = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(s.delay)
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = s.front.Serve(front) }() // until it is closed
	return s, nil
}

func (s *server) close() {
	if s.front != nil {
		_ = s.front.Close()
	}
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()         // killed
}

// env is how the product, and this process, find the server.
func (s *server) env() []string {
	return []string{
		"AWS_ENDPOINT_URL=" + s.endpoint, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=bench", "AWS_SECRET_ACCESS_KEY=bench-secret",
		"AWS_CONFIG_FILE=" + os.DevNull, "AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull,
	}
}

// reset begins to count anew, and returns what was counted.
func (s *server) reset() (requests map[string]int64, bytes unit.Bytes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests, bytes = s.requests, s.bytes
	s.requests, s.bytes = map[string]int64{}, 0
	return requests, bytes
}

// upload puts a log's segments into the bucket.
func (s *server) upload(ctx context.Context, log string) error {
	for _, e := range s.env() {
		name, value, _ := strings.Cut(e, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	store, err := openblob.Open(ctx, bucket)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2)
	files := os.DirFS(log)
	err = fs.WalkDir(files, segments, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		g.Go(func() error {
			f, err := os.Open(filepath.Join(log, name))
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = store.Put(ctx, name, f, blob.Condition{})
			return err
		})
		return nil
	})
	return errors.Join(err, g.Wait())
}

// far is a run over the server beside a local one.
type far struct {
	Local    usage            `json:"local"`
	Remote   usage            `json:"remote"`
	Requests map[string]int64 `json:"requests"`
	Bytes    unit.Bytes       `json:"bytes"`
	Load     string           `json:"load"`
}

func (f far) ratio() float64 { return f.Remote.Wall.Seconds() / f.Local.Wall.Seconds() }

func (f far) count() (n int64) {
	for _, v := range f.Requests {
		n += v
	}
	return n
}

func (f far) perGB() float64 { return float64(f.count()) / (float64(f.Bytes) / 1e9) }

func (f far) String() string {
	return fmt.Sprintf("%s here, %s there, %.2fx; %d requests %v, %s, %.0f a GB", f.Local, f.Remote, f.ratio(), f.count(), f.Requests, f.Bytes, f.perGB())
}

// remote is what came out of a case.
type remote struct {
	Case  string        `json:"case"`
	Delay time.Duration `json:"delay"` // of each request
	Runs  []far         `json:"runs"`
}

// late measures a case with segments and dataset on an S3 server, first as it is, then with every request late.
func (b *bench) late(ctx context.Context, c measured, written string, report *report) error {
	log, err := b.folder(ctx, written)
	if err != nil {
		return err
	}
	s, err := b.serve(ctx, filepath.Join(b.scratch, "s3"))
	if err != nil {
		return err
	}
	defer s.close()
	b.say("putting the segments on %s", s.endpoint)
	if err := s.upload(ctx, log); err != nil {
		return fmt.Errorf("put the segments on the server: %w", err)
	}
	here := b.product(b.hindcast)
	for _, delay := range []time.Duration{0, b.latency} {
		s.delay = delay
		of := remote{Case: c.Name, Delay: delay}
		for i := range b.options.pairs + 1 {
			f := far{Load: load()}
			local, err := here(ctx, c, log, filepath.Join(b.scratch, "local"))
			if err != nil {
				return err
			}
			datasets := "runs/" + delay.String() + "-" + strconv.Itoa(i)
			s.reset()
			there := b.productAt(b.hindcast, append(s.env(), "HINDCAST_BENCH_SEGMENTS="+bucket+"/"+segments, "HINDCAST_BENCH_DATASETS="+bucket+"/"+datasets))
			far, err := there(ctx, c, log, filepath.Join(b.scratch, "remote"))
			if err != nil {
				return err
			}
			f.Local, f.Remote = local.usage, far.usage
			f.Requests, f.Bytes = s.reset()
			want, err := b.digest(ctx, c, local.rows)
			if err != nil {
				return err
			}
			got, err := b.digest(ctx, c, strings.ReplaceAll(far.rows, bucket+"/", s.dir+"/"))
			if err != nil {
				return err
			}
			if got != want {
				return fmt.Errorf("the results differ, so there is no ratio: %+v here, %+v there", want, got)
			}
			if i > 0 { // the first is not counted
				b.say("  %s, %s late: %s", c.Name, delay, f)
				of.Runs = append(of.Runs, f)
			}
			for _, dir := range []string{local.dir, far.dir, filepath.Join(s.dir, datasets)} {
				if err := os.RemoveAll(dir); err != nil {
					return err
				}
			}
		}
		report.Remote = append(report.Remote, of)
	}
	return nil
}

func (r *report) printRemote(w io.Writer) {
	if len(r.Remote) > 0 {
		fmt.Fprintln(w, "CASE\tREQUESTS LATE BY\tTIME TO LOCAL TIME\tLOCAL\tREQUESTS\tREQUESTS A GB")
	}
	for _, c := range r.Remote {
		last := c.Runs[len(c.Runs)-1]
		fmt.Fprintf(w, "%s\t%s\t%.2fx\t%.2f s\t%d\t%.0f\n", c.Case, c.Delay, median(c.Runs, far.ratio),
			median(c.Runs, func(f far) float64 { return f.Local.Wall.Seconds() }), last.count(), last.perGB())
	}
}
