package spec

import (
	"fmt"
	"regexp"
	"strings"
)

// TLS says how connections to brokers are encrypted. The paths are of PEM files, relative to the project or absolute; $NAMES of the environment
// in them are expanded, by [Expand].
type TLS struct {
	// CA has the certificates that brokers' certificates must be signed by; empty: those that the system trusts.
	CA string `json:"ca,omitempty"`
	// Cert and Key say who we are, where brokers ask for that; both or none.
	Cert string `json:"cert,omitempty"`
	Key  string `json:"key,omitempty"`
	// ServerName is what brokers' certificates are for, where it is not the name they are reached by.
	ServerName string `json:"server_name,omitempty"`
}

// Mechanism is a way to say to brokers who we are.
type Mechanism string

// The mechanisms.
const (
	Plain       Mechanism = "plain"
	ScramSHA256 Mechanism = "scram-sha-256"
	ScramSHA512 Mechanism = "scram-sha-512"
	MSKIAM      Mechanism = "aws-msk-iam" // by the AWS SDK's own credentials
)

func mechanisms() []string {
	return []string{string(Plain), string(ScramSHA256), string(ScramSHA512), string(MSKIAM)}
}

// SASL says who we are. The password is never here, but the name of the variable that has it.
type SASL struct {
	Mechanism Mechanism `json:"mechanism"`
	Username  string    `json:"username,omitempty"` // $NAMES of the environment are expanded, by [Expand]
	Password  string    `json:"password,omitempty"` // $NAME or ${NAME}
}

// variable is the only form that a secret has in job.yaml.
var variable = regexp.MustCompile(`^\$([A-Za-z_]\w*|\{[A-Za-z_]\w*\})$`)

func accessKeys() []key {
	return []key{
		{name: "tls", kind: mapping, doc: "Encrypts connections to brokers; tls: {} where the system trusts who signed their certificates.", keys: []key{
			{name: "ca", kind: text, doc: "A PEM file of the authorities that brokers' certificates must be signed by. Default: those that the system trusts."},
			{name: "cert", kind: text, doc: "A PEM file of our certificate, where brokers ask for one."},
			{name: "key", kind: text, doc: "A PEM file of its key, which is not encrypted."},
			{name: "server-name", kind: text, doc: "What brokers' certificates are for, where it is not the name that they are reached by."},
		}},
		{name: "sasl", kind: mapping, doc: "Says to brokers who we are.", keys: []key{
			{name: "mechanism", kind: text, required: true, enum: mechanisms(), doc: "How. aws-msk-iam takes the AWS SDK's credentials, as S3 does; it was not run against Amazon MSK."},
			{name: "username", kind: text, doc: "The user; $NAMES of the environment are expanded."},
			{name: "password", kind: secret, doc: "The variable of the environment that has the password, as $KAFKA_PASSWORD: secrets never stand in a job.yaml."},
		}},
	}
}

// access reads how brokers are reached.
func (d *decoder) access(o *object, t *Tail) {
	if tls := o.child("tls"); tls != nil {
		t.TLS = &TLS{CA: tls.str("ca", ""), Cert: tls.str("cert", ""), Key: tls.str("key", ""), ServerName: tls.str("server-name", "")}
		if tls.has("cert") != tls.has("key") {
			d.fail(tls.line, tls.path, "cert and key belong together: name both files, or none")
		}
	}
	sasl := o.child("sasl")
	if len(t.Brokers) == 1 && strings.HasPrefix(t.Brokers[0], Embedded) && (o.has("tls") || sasl != nil) {
		d.fail(o.line, o.path, "an embedded broker asks for neither tls nor sasl: take them out")
	}
	if sasl == nil {
		return
	}
	s := SASL{Mechanism: Mechanism(sasl.str("mechanism", "")), Username: sasl.str("username", ""), Password: sasl.str("password", "")}
	t.SASL = &s
	switch {
	case s.Mechanism == "": // its mistake is noted
	case s.Mechanism == MSKIAM && (sasl.has("username") || sasl.has("password")):
		d.fail(sasl.line, sasl.path, "%s takes the AWS credentials of the environment: take username and password out", MSKIAM)
	case s.Mechanism == MSKIAM && !o.has("tls"):
		d.fail(sasl.line, sasl.path, "%s needs encryption: add tls: {}", MSKIAM)
	case s.Mechanism != MSKIAM && (!sasl.has("username") || !sasl.has("password")):
		d.fail(sasl.line, sasl.path, "%s needs username and password, as username: $KAFKA_USER, password: $KAFKA_PASSWORD", s.Mechanism)
	}
}

// Expand returns s with $NAME and ${NAME} replaced by what lookup (as os.LookupEnv) has for them. One that it has not, or that is empty, is an error.
func Expand(s string, lookup func(string) (string, bool)) (string, error) {
	var missing error
	out := envForm.ReplaceAllStringFunc(s, func(ref string) string {
		name := strings.Trim(ref, "${}")
		v, ok := lookup(name)
		if !ok || strings.TrimSpace(v) == "" {
			missing = fmt.Errorf("the environment has no %s: set it", name)
		}
		return v
	})
	if missing != nil {
		return "", missing
	}
	return out, nil
}
