package mskiam_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hindcast/internal/source/brokers/mskiam"
)

// TestSignature checks what MSK would be sent: AWS's Signature Version 4 of the action kafka-cluster:Connect, calculated here a second time by
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html, in the form of the payload that
// https://github.com/aws/aws-msk-iam-auth describes.
func TestSignature(t *testing.T) {
	const secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	none := filepath.Join(t.TempDir(), "none")
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": secret, "AWS_SESSION_TOKEN": "token/+=", "AWS_REGION": "eu-central-1",
		"AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none, "AWS_PROFILE": "",
	} {
		t.Setenv(name, value)
	}
	m := mskiam.Mechanism()
	if m.Name() != "AWS_MSK_IAM" {
		t.Errorf("the mechanism is called %s", m.Name())
	}
	for host, region := range map[string]string{
		"b-1.orders.abc123.c2.kafka.us-east-1.amazonaws.com:9098": "us-east-1", // by its name
		"kafka.example.com:9098":                                  "eu-central-1",
	} {
		session, first, err := m.Authenticate(t.Context(), host)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(first), secret) {
			t.Error("the secret key is sent")
		}
		var sent map[string]string
		if err := json.Unmarshal(first, &sent); err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(host, ":")
		date := sent["x-amz-date"]
		if len(date) != len("20260102T150405Z") {
			t.Fatalf("%s: sent %v", host, sent)
		}
		scope := date[:8] + "/" + region + "/kafka-cluster/aws4_request"
		want := map[string]string{
			"version": "2020_10_22", "host": name, "user-agent": "hindcast", "action": "kafka-cluster:Connect", "x-amz-algorithm": "AWS4-HMAC-SHA256",
			"x-amz-credential": "AKIDEXAMPLE/" + scope, "x-amz-date": date, "x-amz-security-token": "token/+=", "x-amz-signedheaders": "host", "x-amz-expires": "900",
		}
		query := url.Values{}
		for k, v := range map[string]string{
			"Action": "action", "X-Amz-Algorithm": "x-amz-algorithm", "X-Amz-Credential": "x-amz-credential", "X-Amz-Date": "x-amz-date",
			"X-Amz-Expires": "x-amz-expires", "X-Amz-Security-Token": "x-amz-security-token", "X-Amz-SignedHeaders": "x-amz-signedheaders",
		} {
			query.Set(k, want[v])
		}
		request := "GET\n/\n" + strings.ReplaceAll(query.Encode(), "+", "%20") + "\nhost:" + name + "\n\nhost\n" + hash("")
		key := []byte("AWS4" + secret)
		for _, part := range []string{date[:8], region, "kafka-cluster", "aws4_request", "AWS4-HMAC-SHA256\n" + date + "\n" + scope + "\n" + hash(request)} {
			h := hmac.New(sha256.New, key)
			h.Write([]byte(part))
			key = h.Sum(nil)
		}
		want["x-amz-signature"] = hex.EncodeToString(key)
		if !maps.Equal(sent, want) {
			for _, k := range slices.Sorted(maps.Keys(sent)) {
				if sent[k] != want[k] {
					t.Errorf("%s: sent %s: %q, want %q", host, k, sent[k], want[k])
				}
			}
			t.Errorf("%s: sent %d fields, want %d", host, len(sent), len(want))
		}
		// The broker answers once, with anything.
		if done, more, err := session.Challenge([]byte(`{"version":"2020_10_22"}`)); !done || more != nil || err != nil {
			t.Errorf("%s: after the answer: done %v, %q, %v", host, done, more, err)
		}
		if _, _, err := session.Challenge(nil); err == nil {
			t.Errorf("%s: no answer is taken for one", host)
		}
	}
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// Without credentials, that is what is said. Nothing outside of this machine is asked: an instance's metadata are off.
func TestNoCredentials(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none, "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_PROFILE": "", "AWS_WEB_IDENTITY_TOKEN_FILE": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "",
	} {
		t.Setenv(name, value)
	}
	_, _, err := mskiam.Mechanism().Authenticate(t.Context(), "b-1.orders.abc123.c2.kafka.us-east-1.amazonaws.com:9098")
	if err == nil || !strings.Contains(err.Error(), "find AWS credentials") {
		t.Errorf("authenticated: %v", err)
	}
}
