package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Encode writes the plan as the JSON that its digest is taken of.
func (p *Plan) Encode() ([]byte, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode plan: %w", err)
	}
	return append(b, '\n'), nil
}

// Digest identifies the plan: "sha256:" and hex digits, over what Encode writes. It covers the
// spec with its checks and thresholds, the job's code, the inputs with their ETags and the pinned ends.
func (p *Plan) Digest() string {
	b, err := p.Encode()
	if err != nil {
		panic(err) // plain data: cannot happen
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Decode reads what Encode wrote, strictly.
func Decode(b []byte) (*Plan, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	var p Plan
	if err := dec.Decode(&p); err != nil {
		return nil, fmt.Errorf("decode plan: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode plan: something follows it")
	}
	if p.Format != Format {
		return nil, fmt.Errorf("decode plan: format %d, this program writes and reads %d", p.Format, Format)
	}
	if p.Spec == nil {
		return nil, errors.New("decode plan: it has no spec")
	}
	if d := p.Spec.Digest(); d != p.SpecDigest {
		return nil, fmt.Errorf("decode plan: its spec has the digest %s, not %s", d, p.SpecDigest)
	}
	return &p, nil
}
