package brokers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrAccess means that the brokers, or we, do not accept how we come. Trying again does not help.
var ErrAccess = errors.New("no access to the brokers")

// Explain says what to do about a failed connection, as an ErrAccess. Other errors are returned as they are.
func (a Access) Explain(err error) error {
	if err == nil || errors.Is(err, ErrAccess) {
		return err
	}
	if what := a.explain(err); what != "" {
		return fmt.Errorf("%w at %s: %s (%w)", ErrAccess, strings.Join(a.Addrs, ", "), what, err)
	}
	return err
}

func (a Access) explain(err error) string {
	var (
		unknownCA x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		alert     *net.OpError
		header    tls.RecordHeaderError
		first     *kgo.ErrFirstReadEOF
		dns       *net.DNSError
	)
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return fmt.Sprintf("they do not accept the user %s by %s: look at the user, the password and the mechanism", a.User, a.SASL.Name())
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		return fmt.Sprintf("they do not offer the mechanism %s: see source.tail.sasl", a.SASL.Name())
	case errors.Is(err, kerr.IllegalSaslState) && a.SASL == nil:
		return "they ask who we are: set source.tail.sasl"
	case errors.Is(err, kerr.IllegalSaslState):
		return "they ask nobody who they are at this port: take source.tail.sasl out, or name another port"
	case errors.As(err, &unknownCA):
		if a.TLS != nil && a.TLS.RootCAs != nil {
			return "their certificate is signed by none of those in the file that source.tail.tls.ca names"
		}
		return "their certificate is signed by nobody that this system trusts: name the file of their authority as source.tail.tls.ca"
	case errors.As(err, &host):
		return "their certificate is for another name: set source.tail.tls.server-name to one that it is for"
	case errors.As(err, &invalid):
		return "their certificate is not valid"
	case errors.As(err, &header):
		return "they answer, but not by TLS: take source.tail.tls out, or name another port"
	case errors.As(err, &alert) && alert.Op == "remote error": // so package tls says what the other side sent
		if a.TLS != nil && len(a.TLS.Certificates) == 0 {
			return "they end the handshake, as those do that ask for a certificate: set source.tail.tls.cert and key"
		}
		return "they end the handshake: look at the certificate, and whether they trust who signed it"
	case a.TLS == nil && strings.Contains(err.Error(), "invalid large response size"): // the library has no type for it
		return "they answer, but not in plain Kafka: if they speak TLS at this port, set source.tail.tls"
	case errors.As(err, &first) && a.TLS != nil:
		return "they hang up during the first request: look whether they speak TLS at this port, and ask for a user (source.tail.tls, sasl)"
	case errors.As(err, &first):
		return "they hang up during the first request: look whether they speak TLS at this port, or ask for a user (source.tail.tls, sasl)"
	case errors.As(err, &dns) && dns.IsNotFound && slices.ContainsFunc(a.Addrs, func(addr string) bool { return strings.HasPrefix(addr, dns.Name+":") }):
		return fmt.Sprintf("there is no host %s", dns.Name)
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Sprintf("there is no host %s, though the brokers give it as the address of one of them (their advertised.listeners)", dns.Name)
	case a.TLS != nil && errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "unable to dial") && !dialling(err):
		return "they do not go on with the TLS handshake: look whether they speak TLS at this port"
	case a.SASL != nil && errors.Is(err, io.EOF):
		return fmt.Sprintf("they hang up, as some do on a user or a password that they do not accept: look at those of %s, and whether they speak TLS at this port", a.User)
	case a.TLS != nil && errors.Is(err, io.EOF):
		return "they hang up: look whether they speak TLS at this port"
	}
	return ""
}

// dialling reports an error from before there was a connection.
func dialling(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
