package kafkaenv

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The listeners of a cluster that is Secure.
const (
	TLS           = "TLS"           // encrypted
	MutualTLS     = "MUTUALTLS"     // encrypted, for clients with a certificate
	SASLTLS       = "SASLTLS"       // encrypted, for users with a password
	SASLPlainText = "SASLPLAINTEXT" // for users with a password
)

// User and Password are known to the SASL listeners, by PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512.
const (
	User     = "reader"
	Password = "correct horse battery staple"
)

// Secure is what a client needs for the other listeners.
type Secure struct {
	// CA, Cert and Key are the paths of PEM files: the authority that signed the brokers' certificates (for 127.0.0.1 and
	// localhost), and a client's certificate.
	CA, Cert, Key string
	// OtherCA signed nothing.
	OtherCA string
}

// Secure returns the files of a cluster that was started with the option.
func (c *Cluster) Secure() Secure { return c.tls.Secure }

// SecureAddrs returns the addresses of a listener.
func (c *Cluster) SecureAddrs(listener string) []string { return c.addrs(listener) }

// authority signs the cluster's certificates.
type authority struct {
	Secure
	brokerStore string // PEM: key and certificate
}

func newAuthority(dir string) (*authority, error) {
	a := &authority{Secure: Secure{
		CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "client.pem"), Key: filepath.Join(dir, "client-key.pem"), OtherCA: filepath.Join(dir, "other-ca.pem"),
	}, brokerStore: filepath.Join(dir, "broker.pem")}
	root := &x509.Certificate{Subject: pkix.Name{CommonName: "Hindcast's tests"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	ca, caKey, caPEM, _, err := sign(root, root, nil)
	if err != nil {
		return nil, err
	}
	_, _, otherPEM, _, err := sign(root, root, nil)
	if err != nil {
		return nil, err
	}
	_, _, brokerPEM, brokerKeyPEM, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "broker"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}, ca, caKey)
	if err != nil {
		return nil, err
	}
	_, _, clientPEM, clientKeyPEM, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "client"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}, ca, caKey)
	if err != nil {
		return nil, err
	}
	for path, data := range map[string][]byte{
		a.CA: caPEM, a.OtherCA: otherPEM, a.Cert: clientPEM, a.Key: clientKeyPEM, a.brokerStore: append(brokerKeyPEM, brokerPEM...),
	} {
		err = errors.Join(err, os.WriteFile(path, data, 0o600))
	}
	return a, err
}

// sign makes a key and a certificate for it, which signs itself if there is no key to do it.
func sign(template, parent *x509.Certificate, by *ecdsa.PrivateKey) (_ *x509.Certificate, _ *ecdsa.PrivateKey, certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	if by == nil {
		by = key
	}
	t := *template
	if t.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return nil, nil, nil, nil, err
	}
	t.NotBefore, t.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, &t, parent, &key.PublicKey, by)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), nil
}

type secureProperties struct {
	protocols []string
	set       map[string]string
}

func (a *authority) properties(*node) secureProperties {
	s := secureProperties{
		protocols: []string{TLS + ":SSL", MutualTLS + ":SSL", SASLTLS + ":SASL_SSL", SASLPlainText + ":SASL_PLAINTEXT"},
		set: map[string]string{
			"ssl.keystore.type": "PEM", "ssl.keystore.location": a.brokerStore, "ssl.truststore.type": "PEM", "ssl.truststore.location": a.CA,
			"listener.name.mutualtls.ssl.client.auth": "required",
			"sasl.enabled.mechanisms":                 "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		},
	}
	for _, l := range []string{SASLTLS, SASLPlainText} {
		l = "listener.name." + strings.ToLower(l)
		s.set[l+".plain.sasl.jaas.config"] = fmt.Sprintf(`org.apache.kafka.common.security.plain.PlainLoginModule required user_%s="%s";`, User, Password)
		for _, m := range []string{"scram-sha-256", "scram-sha-512"} {
			s.set[l+"."+m+".sasl.jaas.config"] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
		}
	}
	return s
}

// addScramUsers makes User known by SCRAM.
func (c *Cluster) addScramUsers(t testing.TB) {
	t.Helper()
	cl := c.Client(t)
	for mechanism, h := range map[int8]func() hash.Hash{1: sha256.New, 2: sha512.New} {
		const iterations = 4096
		salt := []byte("salt for tests")
		salted, err := pbkdf2.Key(h, Password, salt, iterations, h().Size())
		if err != nil {
			t.Fatal(err)
		}
		up := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
		up.Name, up.Mechanism, up.Iterations, up.Salt, up.SaltedPassword = User, mechanism, iterations, salt, salted
		req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		req.Upsertions = append(req.Upsertions, up) // a request may have a user only once
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		resp, err := req.RequestWith(ctx, cl)
		cancel()
		if err == nil {
			err = kerr.ErrorForCode(resp.Results[0].ErrorCode)
		}
		if err != nil {
			t.Fatalf("add user %s: %v", User, err)
		}
	}
}
