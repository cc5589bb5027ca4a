// Package kafkaenv starts real Apache Kafka for tests: KRaft nodes, each broker and controller, as Java processes on 127.0.0.1.
// Only tests with the build tag servers use it. The jars lie in the folder $HINDCAST_KAFKA; .ci/servers puts them there.
package kafkaenv

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Options are what a test may set. The zero value is one node that speaks in plain text.
type Options struct {
	Nodes int // 0 means 1
	// Properties are added to each node's server.properties, and win over what this package sets.
	Properties map[string]string
	// Secure adds the listeners that [Cluster.Secure] describes.
	Secure bool
	// LogRequests writes each request to the log, where [Cluster.Log] finds it.
	LogRequests bool
}

// patience bounds each wait: a node takes about three seconds to start on an idle machine.
const patience = 90 * time.Second

// Cluster is a running cluster. It lives as long as the test that started it.
type Cluster struct {
	opts  Options
	nodes []*node
	tls   *authority // nil unless Secure
}

type node struct {
	id      int
	dir     string
	ports   map[string]int // by listener
	cmd     *exec.Cmd      // nil while it does not run
	exited  chan struct{}
	logFile string
}

// Start starts a cluster and waits until all nodes are brokers of it.
func Start(t testing.TB, opts Options) *Cluster {
	t.Helper()
	opts.Nodes = max(opts.Nodes, 1)
	c := &Cluster{opts: opts}
	dir := t.TempDir()
	if opts.Secure {
		var err error
		if c.tls, err = newAuthority(dir); err != nil {
			t.Fatal(err)
		}
	}
	listeners := []string{plainText, controller}
	if opts.Secure {
		listeners = append(listeners, TLS, MutualTLS, SASLTLS, SASLPlainText)
	}
	taken := map[int]bool{}
	for id := range opts.Nodes {
		n := &node{id: id + 1, dir: filepath.Join(dir, fmt.Sprint(id+1)), ports: map[string]int{}}
		n.logFile = n.dir + ".log"
		for _, l := range listeners {
			n.ports[l] = port(t, taken)
		}
		c.nodes = append(c.nodes, n)
	}
	clusterID := uuid()
	for _, n := range c.nodes {
		if err := c.format(n, clusterID); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			n.end(os.Kill) // the data is thrown away
		}
		if t.Failed() {
			for _, n := range c.nodes {
				t.Logf("Kafka node %d says:\n%s", n.id, n.tail())
			}
		}
	})
	for _, n := range c.nodes {
		c.launch(t, n)
	}
	c.ready(t, opts.Nodes)
	if opts.Secure {
		c.addScramUsers(t)
	}
	return c
}

// Addrs returns the addresses of all nodes, for clients without encryption or authentication.
func (c *Cluster) Addrs() []string { return c.addrs(plainText) }

func (c *Cluster) addrs(listener string) []string {
	var out []string
	for _, n := range c.nodes {
		out = append(out, n.addr(listener))
	}
	return out
}

func (n *node) addr(listener string) string { return fmt.Sprintf("127.0.0.1:%d", n.ports[listener]) }

// Client returns a client of the cluster, closed when the test ends.
func (c *Cluster) Client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(c.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RetryTimeout(patience),
		kgo.MetadataMinAge(100 * time.Millisecond), kgo.DisableClientMetrics(),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// Kill ends a node (they count from 1) as a crash would: SIGKILL.
func (c *Cluster) Kill(id int) { c.nodes[id-1].end(os.Kill) }

// Stop ends a node in good order, and fails the test if it does not end.
func (c *Cluster) Stop(t testing.TB, id int) {
	t.Helper()
	if n := c.nodes[id-1]; !n.end(syscall.SIGTERM) {
		t.Fatalf("Kafka node %d had to be killed", id)
	}
}

// Restart starts a node that was ended, and waits until it is a broker of the cluster again.
func (c *Cluster) Restart(t testing.TB, id int) {
	t.Helper()
	c.launch(t, c.nodes[id-1])
	running := 0
	for _, n := range c.nodes {
		if n.cmd != nil {
			running++
		}
	}
	c.ready(t, running)
}

// Log returns what a node has written to its log so far.
func (c *Cluster) Log(t testing.TB, id int) string {
	t.Helper()
	b, err := os.ReadFile(c.nodes[id-1].logFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Dir is a node's data folder, which has a folder for each topic partition.
func (c *Cluster) Dir(id int) string { return filepath.Join(c.nodes[id-1].dir, "data") }

// Wait polls until done says so, and fails the test if that takes too long.
func Wait(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain for %s", patience, what)
		}
	}
}

// The listeners of every node.
const (
	plainText  = "PLAINTEXT"
	controller = "CONTROLLER"
)

// properties writes a node's server.properties.
func (c *Cluster) properties(n *node) (string, error) {
	var voters, listeners []string
	for _, other := range c.nodes {
		voters = append(voters, fmt.Sprintf("%d@%s", other.id, other.addr(controller)))
	}
	protocols := []string{plainText + ":PLAINTEXT", controller + ":PLAINTEXT"}
	for _, l := range slices.Sorted(maps.Keys(n.ports)) {
		listeners = append(listeners, l+"://"+n.addr(l))
	}
	advertised := slices.DeleteFunc(slices.Clone(listeners), func(l string) bool { return strings.HasPrefix(l, controller) })
	copies := fmt.Sprint(len(c.nodes))
	p := map[string]string{
		"process.roles": "broker,controller", "node.id": fmt.Sprint(n.id), "controller.quorum.voters": strings.Join(voters, ","),
		"listeners": strings.Join(listeners, ","), "advertised.listeners": strings.Join(advertised, ","),
		"controller.listener.names": controller, "inter.broker.listener.name": plainText,
		"log.dirs": filepath.Join(n.dir, "data"),
		// Small and quick: one partition of each inner topic, and no waiting for others.
		"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1",
		"offsets.topic.replication.factor": copies, "transaction.state.log.replication.factor": copies,
		"transaction.state.log.min.isr": "1", "group.initial.rebalance.delay.ms": "0",
		"broker.heartbeat.interval.ms": "500", "broker.session.timeout.ms": "5000", // a busy machine stops for seconds
		"log.retention.ms":    "-1", // records of tests are from 1970
		"num.network.threads": "1", "num.io.threads": "2", "background.threads": "1", "log.cleaner.dedupe.buffer.size": "4194304",
		"auto.create.topics.enable": "false", "log.segment.delete.delay.ms": "1000",
	}
	if c.tls != nil {
		secure := c.tls.properties(n)
		protocols = append(protocols, secure.protocols...)
		maps.Copy(p, secure.set)
	}
	p["listener.security.protocol.map"] = strings.Join(protocols, ",")
	maps.Copy(p, c.opts.Properties)
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "%s=%s\n", k, p[k])
	}
	path := filepath.Join(n.dir, "server.properties")
	return path, os.WriteFile(path, []byte(b.String()), 0o600)
}

// format makes a node's data folder, which is what Kafka's StorageTool does. The tool itself runs once a process: a
// node's own part of what it writes is four lines (KIP-631, KIP-858), and starting Java takes a second.
func (c *Cluster) format(n *node, clusterID string) error {
	bootstrap, err := bootstrapCheckpoint()
	if err != nil {
		return err
	}
	data := filepath.Join(n.dir, "data")
	if err := os.MkdirAll(data, 0o750); err != nil {
		return err
	}
	meta := fmt.Sprintf("version=1\ncluster.id=%s\nnode.id=%d\ndirectory.id=%s\n", clusterID, n.id, uuid())
	return errors.Join(
		os.WriteFile(filepath.Join(data, "meta.properties"), []byte(meta), 0o600),
		os.WriteFile(filepath.Join(data, "bootstrap.checkpoint"), bootstrap, 0o600),
	)
}

// bootstrapCheckpoint is what the tool writes that is the same for all nodes: the features that a new cluster has.
var bootstrapCheckpoint = sync.OnceValues(func() (checkpoint []byte, err error) {
	dir, err := os.MkdirTemp("", "hindcast-kafka-format-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	properties := filepath.Join(dir, "server.properties")
	text := "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:1\nlisteners=CONTROLLER://127.0.0.1:1,PLAINTEXT://127.0.0.1:2\n" +
		"controller.listener.names=CONTROLLER\nlog.dirs=" + filepath.Join(dir, "data") + "\n"
	if err := os.WriteFile(properties, []byte(text), 0o600); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd, err := java(ctx, nil, "kafka.tools.StorageTool", "format", "-c", properties, "-t", uuid())
	if err != nil {
		return nil, err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("format storage: %w\n%s", err, lastLines(out, 20))
	}
	return os.ReadFile(filepath.Join(dir, "data", "bootstrap.checkpoint"))
})

// java returns a command that runs a class of Kafka's.
func java(ctx context.Context, flags []string, class string, args ...string) (*exec.Cmd, error) {
	jars := os.Getenv("HINDCAST_KAFKA")
	if jars == "" {
		return nil, errors.New("HINDCAST_KAFKA names no folder with Kafka's jars: run the test by .ci/servers, which gets them")
	}
	program := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		program = filepath.Join(home, "bin", "java")
	}
	// Starting quickly matters, running fast does not.
	all := append([]string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn"}, flags...)
	all = append(all, "-cp", filepath.Join(jars, "*"), class)
	return exec.CommandContext(ctx, program, append(all, args...)...), nil
}

// launch starts a node's process.
func (c *Cluster) launch(t testing.TB, n *node) {
	t.Helper()
	if n.cmd != nil {
		t.Fatalf("Kafka node %d runs already", n.id)
	}
	properties, err := c.properties(n)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(n.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	flags := []string{"-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS"}
	if c.opts.LogRequests {
		flags = append(flags, "-Dorg.slf4j.simpleLogger.log.kafka.request.logger=debug")
	}
	cmd, err := java(context.Background(), flags, "kafka.Kafka", properties)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	dieWithUs(cmd)
	if err := errors.Join(cmd.Start(), out.Close()); err != nil {
		t.Fatalf("%v: run the test by .ci/servers, which installs Java", err)
	}
	n.cmd, n.exited = cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait() // that it ended is what ready wants to know; its log says why
		close(n.exited)
	}()
}

// ready waits until the nodes that run agree that so many brokers are alive.
func (c *Cluster) ready(t testing.TB, brokers int) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for _, n := range c.nodes {
		for n.cmd != nil && n.sees() != brokers {
			select {
			case <-n.exited:
				t.Fatalf("Kafka node %d ended while it was started", n.id)
			case <-time.After(50 * time.Millisecond):
			}
			if time.Now().After(deadline) {
				t.Fatalf("after %v Kafka node %d knows of %d brokers, not %d", patience, n.id, n.sees(), brokers)
			}
		}
	}
}

// sees returns how many brokers a node says there are; 0 if it does not answer.
func (n *node) sees() int {
	conn, err := net.DialTimeout("tcp", n.addr(plainText), time.Second) //nolint:noctx // it is bounded; so that the client is not asked in vain, which takes it longer
	if err != nil {
		return 0
	}
	_ = conn.Close() // it was only to see that somebody answers
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.addr(plainText)), kgo.RetryTimeout(time.Second), kgo.DisableClientMetrics())
	if err != nil {
		return 0
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl)
	if err != nil {
		return 0
	}
	return len(resp.Brokers)
}

// end ends the process and reports whether the signal did it.
func (n *node) end(sig os.Signal) bool {
	if n.cmd == nil {
		return true
	}
	_ = n.cmd.Process.Signal(sig) // it may have ended
	heeded := true
	select {
	case <-n.exited:
	case <-time.After(patience / 3):
		heeded = false
		_ = n.cmd.Process.Kill() // it may have ended just now
		<-n.exited
	}
	n.cmd = nil
	return heeded
}

// tail returns what matters of a node's log: warnings, errors with their traces, and the end.
func (n *node) tail() string {
	b, err := os.ReadFile(n.logFile)
	if err != nil {
		return err.Error()
	}
	var bad [][]byte
	for line := range bytes.Lines(b) {
		if bytes.Contains(line, []byte(" WARN ")) || bytes.Contains(line, []byte(" ERROR ")) || bytes.HasPrefix(line, []byte("\tat ")) {
			bad = append(bad, line)
		}
	}
	return string(lastLines(bytes.Join(bad, nil), 40)) + "… and last:\n" + string(lastLines(b, 15))
}

func lastLines(b []byte, n int) []byte {
	lines := slices.Collect(bytes.Lines(b))
	return bytes.Join(lines[max(0, len(lines)-n):], nil)
}

// port finds a port that nobody listens on, below those that the system gives to connections: the node
// binds it only seconds from now.
func port(t testing.TB, taken map[int]bool) int {
	t.Helper()
	for range 1000 {
		p := 15000 + mathrand.IntN(17000)
		if taken[p] {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p)) //nolint:noctx // it does not wait
		if err != nil {
			continue
		}
		taken[p] = true
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return p
	}
	t.Fatal("no port is free")
	return 0
}

// uuid returns a random id as Kafka writes them. None may begin with a hyphen.
func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[0] &= 0x7f
	return base64.RawURLEncoding.EncodeToString(b[:])
}
