package brokers_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hindcast/internal/source/brokers"
	"hindcast/internal/spec"
)

// issue makes a certificate for 127.0.0.1 that signs itself, and stores it and its key in dir.
func issue(t *testing.T, dir, name string, until time.Time) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-key.pem")
	err = errors.Join(
		os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	return certFile, keyFile
}

// env is what the environment has.
func env(name string) (string, bool) {
	v, ok := map[string]string{"USER": "reader", "PASSWORD": "right-secret", "WRONG": "wrong-secret", "EMPTY": " ", "NAME": "broker"}[name]
	return v, ok
}

// ask makes a request.
func ask(t *testing.T, a brokers.Access) error {
	t.Helper()
	cl, err := a.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl)
	return a.Explain(err)
}

func TestAccessAsTheSpecSays(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := issue(t, dir, "broker", time.Now().Add(time.Hour))
	issue(t, dir, "other", time.Now().Add(time.Hour))
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	cluster := func(opts ...kfake.Opt) []string {
		c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c.ListenAddrs()
	}
	users := []kfake.Opt{
		kfake.EnableSASL(), kfake.Superuser("PLAIN", "reader", "right-secret"), kfake.Superuser("SCRAM-SHA-256", "reader", "right-secret"), kfake.Superuser("SCRAM-SHA-512", "reader", "right-secret"),
	}
	encrypted := kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}})
	plainText, asks, tlsOnly, both := cluster(), cluster(users...), cluster(encrypted), cluster(append(users, encrypted)...)
	trusted := &spec.TLS{CA: "$NAME.pem"}
	login := func(m spec.Mechanism, password string) *spec.SASL {
		return &spec.SASL{Mechanism: m, Username: "$USER", Password: password}
	}
	for _, test := range []struct {
		name    string
		addrs   []string
		tls     *spec.TLS
		sasl    *spec.SASL
		refusal string
	}{
		{"nothing", plainText, nil, nil, ""},
		{"TLS", tlsOnly, trusted, nil, ""},
		{"PLAIN", both, trusted, login(spec.Plain, "$PASSWORD"), ""},
		{"SCRAM-SHA-256", both, trusted, login(spec.ScramSHA256, "${PASSWORD}"), ""},
		{"SCRAM-SHA-512", asks, nil, login(spec.ScramSHA512, "$PASSWORD"), ""},
		{"another authority", tlsOnly, &spec.TLS{CA: "other.pem"}, nil, "signed by none of those"},
		{"another name", tlsOnly, &spec.TLS{CA: "$NAME.pem", ServerName: "elsewhere"}, nil, "is for another name"},
		{"plain text to TLS", tlsOnly, nil, nil, "speak TLS at this port"},
		{"a host that there is not", []string{"nowhere.invalid:9092"}, nil, nil, "there is no host nowhere.invalid"},
	} {
		access, err := brokers.Resolve(&spec.Tail{TLS: test.tls, SASL: test.sasl}, test.addrs, env, func(p string) string { return filepath.Join(dir, p) })
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		began := time.Now()
		err = ask(t, access)
		switch {
		case test.refusal == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.refusal != "" && (!errors.Is(err, brokers.ErrAccess) || !strings.Contains(err.Error(), test.refusal) || strings.Contains(err.Error(), "-secret")):
			t.Errorf("%s: %v, want ErrAccess and %q", test.name, err, test.refusal)
		}
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("%s took %v", test.name, d)
		}
	}
}

// What kfake does unlike Kafka: it hangs up on a wrong password, and waits where it is spoken to by TLS.
func TestExplain(t *testing.T) {
	tail := &spec.Tail{SASL: &spec.SASL{Mechanism: spec.ScramSHA512, Username: "$USER", Password: "$WRONG"}}
	access, err := brokers.Resolve(tail, []string{"b:9092"}, env, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		err  error
		want string // empty: nothing is known
	}{
		{fmt.Errorf("ask: %w", kerr.SaslAuthenticationFailed), "no access to the brokers at b:9092: they do not accept the user reader by SCRAM-SHA-512"},
		{kerr.UnsupportedSaslMechanism, "they do not offer the mechanism SCRAM-SHA-512"},
		{kerr.IllegalSaslState, "they ask nobody who they are"},
		{fmt.Errorf("read: %w", io.EOF), "they hang up, as some do on a user or a password that they do not accept"},
		{&net.OpError{Op: "dial", Err: &net.DNSError{Name: "b", IsNotFound: true}}, "there is no host b ("},
		{&net.OpError{Op: "dial", Err: &net.DNSError{Name: "kafka-1.internal", IsNotFound: true}}, "give it as the address of one of them (their advertised.listeners)"},
		{&net.OpError{Op: "dial", Err: &net.DNSError{Name: "b", IsTimeout: true}}, ""},
		{kerr.NotLeaderForPartition, ""},
		{context.DeadlineExceeded, ""},
		{nil, ""},
	} {
		err := access.Explain(test.err)
		if test.want == "" {
			if !errors.Is(err, test.err) || errors.Is(err, brokers.ErrAccess) {
				t.Errorf("%v is explained as %v", test.err, err)
			}
			continue
		}
		if !errors.Is(err, brokers.ErrAccess) || !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "-secret") {
			t.Errorf("%v is explained as %v, want %q", test.err, err, test.want)
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%v takes several lines", err)
		}
		if again := access.Explain(err); again != err { //nolint:errorlint // the very same
			t.Errorf("explained twice: %v", again)
		}
	}
}

// Some servers wait for more where they are spoken to by TLS, as kfake does.
func TestTLSToWhoeverWaits(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // nobody needs it any more
	access := brokers.At(l.Addr().String())
	access.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	cl, err := access.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl)
	if errors.Is(access.Explain(err), brokers.ErrAccess) {
		t.Errorf("our own deadline is explained as %v", access.Explain(err))
	}
	err = fmt.Errorf("ask: unable to dial: %w", context.DeadlineExceeded) // as after the five seconds that a connection may take
	if err := access.Explain(err); !errors.Is(err, brokers.ErrAccess) || !strings.Contains(err.Error(), "TLS handshake") {
		t.Errorf("a handshake that does not end is explained as %v", err)
	}
}

// What is wrong with files and variables is said before anything is sent.
func TestFilesAndVariablesThatAreWrong(t *testing.T) {
	dir := t.TempDir()
	issue(t, dir, "good", time.Now().Add(time.Hour))
	issue(t, dir, "other", time.Now().Add(time.Hour))
	issue(t, dir, "old", time.Now().Add(-time.Hour))
	if err := os.WriteFile(filepath.Join(dir, "text"), []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		tail spec.Tail
		want string
	}{
		{spec.Tail{TLS: &spec.TLS{CA: "none.pem"}}, "source.tail.tls: ca: open "},
		{spec.Tail{TLS: &spec.TLS{CA: "$CERTS"}}, "source.tail.tls: ca: the environment has no CERTS: set it"},
		{spec.Tail{TLS: &spec.TLS{CA: "text"}}, "has no certificate; expected PEM"},
		{spec.Tail{TLS: &spec.TLS{Cert: "good.pem", Key: "other-key.pem"}}, "private key does not match public key"},
		{spec.Tail{TLS: &spec.TLS{Cert: "good.pem", Key: "text"}}, "expected PEM, the key not encrypted"},
		{spec.Tail{TLS: &spec.TLS{Cert: "old.pem", Key: "old-key.pem"}}, "old.pem has expired, at "},
		{spec.Tail{SASL: &spec.SASL{Mechanism: spec.Plain, Username: "u", Password: "$KAFKA_PASSWORD"}}, "source.tail.sasl: password: the environment has no KAFKA_PASSWORD: set it"},
		{spec.Tail{SASL: &spec.SASL{Mechanism: spec.Plain, Username: "$EMPTY", Password: "$PASSWORD"}}, "source.tail.sasl: username: the environment has no EMPTY"},
	} {
		_, err := brokers.Resolve(&test.tail, []string{"b:9092"}, env, func(p string) string { return filepath.Join(dir, p) })
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "-secret") {
			t.Errorf("%+v %+v: %v, want %q", test.tail.TLS, test.tail.SASL, err, test.want)
		}
	}
	if _, err := (brokers.Access{}).Client(); err == nil {
		t.Error("no address: a client")
	}
}
