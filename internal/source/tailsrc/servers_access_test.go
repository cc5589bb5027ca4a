//go:build servers

package tailsrc

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"hindcast/internal/source/brokers"
	"hindcast/internal/spec"
	"hindcast/internal/testenv/kafkaenv"
)

// TestServerAccess reads by TLS and SASL as job.yaml says, and is refused quickly, with what to do, where that is wrong.
func TestServerAccess(t *testing.T) {
	k := kafkaenv.Start(t, kafkaenv.Options{Secure: true})
	l := newLive(t, k, 1, nil)
	l.send(t, l.cl, 0, count(0, 20)...)
	files := k.Secure()
	const wrong = "guessed-secret"
	env := func(name string) (string, bool) {
		v, ok := map[string]string{"USER": kafkaenv.User, "PASSWORD": kafkaenv.Password, "WRONG": wrong, "CERTS": files.CA}[name]
		return v, ok
	}
	trusted := &spec.TLS{CA: "$CERTS"}
	login := func(m spec.Mechanism) *spec.SASL {
		return &spec.SASL{Mechanism: m, Username: "$USER", Password: "${PASSWORD}"}
	}
	guess := func(m spec.Mechanism) *spec.SASL {
		return &spec.SASL{Mechanism: m, Username: "$USER", Password: "$WRONG"}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", wrong)
	t.Setenv("AWS_REGION", "eu-west-1")
	for _, test := range []struct {
		name     string
		listener string
		tls      *spec.TLS
		sasl     *spec.SASL
		refusal  string // empty: it is read
	}{
		{"TLS", kafkaenv.TLS, trusted, nil, ""},
		{"TLS by another name", kafkaenv.TLS, &spec.TLS{CA: files.CA, ServerName: "localhost"}, nil, ""},
		{"TLS with a certificate", kafkaenv.MutualTLS, &spec.TLS{CA: files.CA, Cert: files.Cert, Key: files.Key}, nil, ""},
		{"PLAIN by TLS", kafkaenv.SASLTLS, trusted, login(spec.Plain), ""},
		{"SCRAM-SHA-256 by TLS", kafkaenv.SASLTLS, trusted, login(spec.ScramSHA256), ""},
		{"SCRAM-SHA-512 by TLS", kafkaenv.SASLTLS, trusted, login(spec.ScramSHA512), ""},
		{"SCRAM-SHA-512 in plain text", kafkaenv.SASLPlainText, nil, login(spec.ScramSHA512), ""},

		{"a wrong password, PLAIN", kafkaenv.SASLTLS, trusted, guess(spec.Plain), "they do not accept the user reader by PLAIN: look at the user, the password"},
		{"a wrong password, SCRAM-SHA-256", kafkaenv.SASLTLS, trusted, guess(spec.ScramSHA256), "they do not accept the user reader by SCRAM-SHA-256"},
		{"a wrong password, SCRAM-SHA-512", kafkaenv.SASLPlainText, nil, guess(spec.ScramSHA512), "they do not accept the user reader by SCRAM-SHA-512"},
		{"a mechanism that they do not offer", kafkaenv.SASLTLS, trusted, &spec.SASL{Mechanism: spec.MSKIAM}, "they do not offer the mechanism AWS_MSK_IAM"},
		{"nobody, where they ask who it is", kafkaenv.SASLTLS, trusted, nil, "they hang up during the first request"},
		{"nobody, where they ask who it is, in plain text", kafkaenv.SASLPlainText, nil, nil, "they hang up during the first request"},
		{"somebody, where they do not ask", kafkaenv.TLS, trusted, login(spec.Plain), "they ask nobody who they are at this port"},
		{"another authority", kafkaenv.TLS, &spec.TLS{CA: files.OtherCA}, nil, "signed by none of those in the file that source.tail.tls.ca names"},
		{"the system's authorities", kafkaenv.TLS, &spec.TLS{}, nil, "signed by nobody that this system trusts: name the file"},
		{"another server's name", kafkaenv.TLS, &spec.TLS{CA: files.CA, ServerName: "kafka.example.com"}, nil, "their certificate is for another name"},
		{"no certificate, where they ask for one", kafkaenv.MutualTLS, trusted, nil, "set source.tail.tls.cert and key"},
		{"plain text to a TLS port", kafkaenv.TLS, nil, nil, "if they speak TLS at this port, set source.tail.tls"},
		{"plain text and a user to a TLS port", kafkaenv.SASLTLS, nil, login(spec.Plain), "if they speak TLS at this port, set source.tail.tls"},
		{"TLS to a plain text port", "PLAINTEXT", trusted, nil, "look whether they speak TLS at this port"},
		{"TLS and a user to a plain text port", kafkaenv.SASLPlainText, trusted, login(spec.Plain), "look whether they speak TLS at this port"},
	} {
		t.Run(test.name, func(t *testing.T) {
			access, err := brokers.Resolve(&spec.Tail{TLS: test.tls, SASL: test.sasl}, k.SecureAddrs(test.listener), env, func(p string) string { return p })
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			pinned, errPin := Pin(bounded(t), access, l.name, PinOptions{})
			tookPin := time.Since(began)
			if test.refusal == "" {
				if errPin != nil {
					t.Fatal(errPin)
				}
				opts := l.options(pinned)
				opts.Brokers = access
				l.whole(t, opts, rowsOf(0, count(0, 20)...))
				return
			}
			opts := l.options(l.pin(t))
			opts.Brokers, opts.Patience = access, DefaultPatience
			began = time.Now()
			_, errCapture := captureIn(t, opts)
			tookCapture := time.Since(began)
			t.Logf("%v", errPin)
			for _, err := range []error{errPin, errCapture} {
				if !errors.Is(err, brokers.ErrAccess) || !strings.Contains(err.Error(), test.refusal) || strings.Contains(err.Error(), wrong) || strings.Contains(err.Error(), kafkaenv.Password) {
					t.Errorf("%v, want ErrAccess and %q", err, test.refusal)
				}
			}
			if longest := slices.Max([]time.Duration{tookPin, tookCapture}); longest > 15*time.Second {
				t.Errorf("the refusals took %v and %v", tookPin, tookCapture)
			}
		})
	}
}
