package tieredsrc

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rsa"
	"crypto/sha3"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ParseKey reads the private key that opens the data keys of encrypted segments: a PEM file with PKCS#8 ("PRIVATE KEY"), as the
// plugin's encryption.key.pairs names it.
func ParseKey(text []byte) (*rsa.PrivateKey, error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, errors.New("there is no PEM block PRIVATE KEY (PKCS#8)")
		}
		if block.Type != "PRIVATE KEY" {
			continue
		}
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("the private key cannot be read: %w", err)
		}
		rsaKey, ok := key.(*rsa.PrivateKey)
		if !ok {
			return nil, fmt.Errorf("the private key is a %T: the plugin's are RSA", key)
		}
		return rsaKey, nil
	}
}

// dataKey opens what one segment's objects hold. The zero dataKey opens nothing.
type dataKey struct {
	gcm cipher.AEAD
	aad []byte
}

// unwrap opens a segment's data key: RSA-OAEP with SHA3-512, for MGF1 as well.
func unwrap(e encryption, keys map[string]*rsa.PrivateKey) (dataKey, error) {
	id, text, ok := strings.Cut(e.DataKey, ":")
	if !ok {
		return dataKey{}, errors.New("the manifest's data key does not say which key it is wrapped with")
	}
	wrapped, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return dataKey{}, fmt.Errorf("the manifest's data key: %w", err)
	}
	aad, err := base64.StdEncoding.DecodeString(e.AAD)
	if err != nil {
		return dataKey{}, fmt.Errorf("the manifest's aad: %w", err)
	}
	key := keys[id]
	if key == nil {
		return dataKey{}, fmt.Errorf("the segment is encrypted with the key %q, and given are %q: give its private key as well",
			id, slices.Sorted(maps.Keys(keys)))
	}
	raw, err := rsa.DecryptOAEP(sha3.New512(), nil, key, wrapped, nil)
	if err != nil {
		return dataKey{}, fmt.Errorf("the private key given for %q does not open the segment's data key: is it that of another cluster? %w",
			id, err)
	}
	if len(raw) != 32 {
		return dataKey{}, fmt.Errorf("the segment's data key has %d bytes, want 32 (AES-256)", len(raw))
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return dataKey{}, err
	}
	gcm, err := cipher.NewGCM(block)
	return dataKey{gcm: gcm, aad: aad}, err
}

// open decrypts a chunk: 12 bytes of nonce, the contents, 16 bytes of tag.
func (k dataKey) open(chunk []byte) ([]byte, error) {
	if len(chunk) < k.gcm.NonceSize()+k.gcm.Overhead() {
		return nil, fmt.Errorf("an encrypted chunk has %d bytes: it is cut off", len(chunk))
	}
	n := k.gcm.NonceSize()
	out, err := k.gcm.Open(nil, chunk[:n], chunk[n:], k.aad)
	if err != nil {
		return nil, errors.New("an encrypted chunk is damaged, or was written with another key")
	}
	return out, nil
}
