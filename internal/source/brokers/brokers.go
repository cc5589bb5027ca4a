// Package brokers reaches a job's brokers: by which addresses, how encrypted, and as whom, as job.yaml says.
//
// Secrets come from the environment when a client is made, and go nowhere but to the brokers: a spec, and so a run's records, has
// the variables' names alone, and no error has more.
package brokers

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"hindcast/internal/source/brokers/mskiam"
	"hindcast/internal/spec"
)

// Access is how a cluster is reached. Its methods may be called concurrently.
type Access struct {
	Addrs []string
	TLS   *tls.Config    // nil: without encryption
	SASL  sasl.Mechanism // nil: as nobody
	User  string         // of SASL, for errors
}

// At is access to brokers that ask for nothing.
func At(addrs ...string) Access { return Access{Addrs: addrs} }

// Resolve returns access to addrs as the spec says: it reads the files that tls names, from where locate finds them, and the variables
// that sasl names (lookup is as os.LookupEnv). It sends nothing; AWS credentials are looked for when they are needed.
func Resolve(tail *spec.Tail, addrs []string, lookup func(string) (string, bool), locate func(string) string) (Access, error) {
	a := Access{Addrs: addrs}
	if tail.TLS != nil {
		conf, err := tlsConfig(tail.TLS, lookup, locate)
		if err != nil {
			return Access{}, fmt.Errorf("source.tail.tls: %w", err)
		}
		a.TLS = conf
	}
	if tail.SASL != nil {
		if err := a.login(tail.SASL, lookup); err != nil {
			return Access{}, fmt.Errorf("source.tail.sasl: %w", err)
		}
	}
	return a, nil
}

func tlsConfig(t *spec.TLS, lookup func(string) (string, bool), locate func(string) string) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	path := func(name, v string) (string, error) {
		v, err := spec.Expand(v, lookup)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		return locate(v), nil
	}
	if t.CA != "" {
		ca, err := path("ca", t.CA)
		if err != nil {
			return nil, err
		}
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca: %s has no certificate; expected PEM, which begins with -----BEGIN CERTIFICATE-----", ca)
		}
	}
	if t.Cert == "" {
		return conf, nil
	}
	certFile, err := path("cert", t.Cert)
	if err != nil {
		return nil, err
	}
	keyFile, err := path("key", t.Key)
	if err != nil {
		return nil, err
	}
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("cert and key: %s and %s: %w (expected PEM, the key not encrypted)", certFile, keyFile, err)
	}
	if now := time.Now(); now.After(cert.Leaf.NotAfter) {
		return nil, fmt.Errorf("cert: %s has expired, at %s", certFile, cert.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	conf.Certificates = []tls.Certificate{cert}
	return conf, nil
}

func (a *Access) login(s *spec.SASL, lookup func(string) (string, bool)) error {
	if s.Mechanism == spec.MSKIAM {
		a.SASL, a.User = mskiam.Mechanism(), "of the AWS credentials"
		return nil
	}
	user, err := spec.Expand(s.Username, lookup)
	if err != nil {
		return fmt.Errorf("username: %w", err)
	}
	password, err := spec.Expand(s.Password, lookup)
	if err != nil {
		return fmt.Errorf("password: %w", err)
	}
	a.User = user
	switch s.Mechanism {
	case spec.Plain:
		a.SASL = plain.Auth{User: user, Pass: password}.AsMechanism()
	case spec.ScramSHA256:
		a.SASL = scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case spec.ScramSHA512:
		a.SASL = scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	default:
		return fmt.Errorf("the mechanism %q is not built", s.Mechanism)
	}
	return nil
}

// Client returns a client for requests. It dials when the first is made; the caller closes it. What its requests fail with
// says more after [Access.Explain].
func (a Access) Client() (*kgo.Client, error) {
	if len(a.Addrs) == 0 {
		return nil, errors.New("no broker address")
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(a.Addrs...),
		kgo.ClientID("hindcast"),
		kgo.DialTimeout(5 * time.Second),
		kgo.RetryTimeout(10 * time.Second), // of one request; how long to go on altogether is the caller's matter
		kgo.RequestTimeoutOverhead(time.Minute),
		kgo.RetryBackoffFn(Backoff),
		kgo.DisableClientMetrics(), // nothing is sent to the brokers but questions
	}
	if a.TLS != nil {
		opts = append(opts, kgo.DialTLSConfig(a.TLS))
	}
	if a.SASL != nil {
		opts = append(opts, kgo.SASL(a.SASL))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("brokers %s: %w", strings.Join(a.Addrs, ", "), err)
	}
	return cl, nil
}

// Backoff is how long to wait after n failures in a row.
func Backoff(n int) time.Duration {
	const least, most = 50 * time.Millisecond, 2 * time.Second
	return min(most, least<<min(n, 10))
}
