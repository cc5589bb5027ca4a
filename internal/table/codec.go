package table

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// Format is the number of the on-disk format that this package reads and writes.
const Format = 1

// The most bytes that are read of a manifest or candidate, and of a pointer. A
// manifest of 64 MiB lists some 200,000 files.
const (
	maxManifest = 64 << 20
	maxPointer  = 64 << 10
)

// Digest is the SHA-256 of b, in hex.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func isDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && s == hex.EncodeToString(b)
}

// encode writes v as canonical JSON: fields in the order of the type, map keys sorted, one line.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// decode reads what encode wrote into v, and nothing else: that b encodes back to
// itself rules out unknown, repeated and misspelt fields and trailing bytes.
func decode(b []byte, limit int, v any) error {
	if len(b) > limit {
		return fmt.Errorf("it has %d bytes, more than the %d that are read", len(b), limit)
	}
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return fmt.Errorf("it is not JSON of the expected shape: %w", err)
	}
	if head.Format != Format {
		return fmt.Errorf("it has format %d, and this program knows format %d: use the program that wrote it, or a newer one", head.Format, Format)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("it is not JSON of the expected shape: %w", err)
	}
	again, err := encode(v)
	if err != nil {
		return err
	}
	if !bytes.Equal(again, b) {
		return errors.New("it is not as this program writes it (another layout, or a repeated field)")
	}
	return nil
}
