package nethernet

import (
	"crypto/ecdsa"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// Errors of identities and tokens.
var (
	ErrIdentity  = errors.New("unusable identity")
	ErrSignature = errors.New("wrong signature")
)

// maxIdentity is the size in bytes of the largest identity that is read, in base64. Real ones have about 3,000.
const maxIdentity = 32 << 10

// Identity is the content of a description's a=identity. It ties a player's or a server's token to the fingerprints of
// the description. It signs no other line.
type Identity struct {
	Domain    string // "self" for servers, nothing or a host for players
	Token     string // see ParseToken
	Signature string // over the fingerprints, by the token's key: a JWS without its payload
}

// envelope and assertion are JSON within base64, and JSON within a string of that.
type envelope struct {
	Provider  provider `json:"idp"`
	Assertion string   `json:"assertion"`
}

type provider struct {
	Domain   string `json:"domain"`
	Protocol string `json:"protocol"`
}

type assertion struct {
	Token        string `json:"token"`
	Fingerprints string `json:"fingerprints"`
}

// ParseIdentity reads a Description's Identity. It verifies nothing. Errors wrap ErrIdentity.
func ParseIdentity(text string) (Identity, error) {
	if len(text) > maxIdentity {
		return Identity{}, fmt.Errorf("%w: too long", ErrIdentity)
	}
	outer, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrIdentity, err)
	}
	var e envelope
	var a assertion
	if err := json.Unmarshal(outer, &e); err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrIdentity, err)
	}
	if err := json.Unmarshal([]byte(e.Assertion), &a); err != nil {
		return Identity{}, fmt.Errorf("%w: assertion: %w", ErrIdentity, err)
	}
	return Identity{Domain: e.Provider.Domain, Token: a.Token, Signature: a.Fingerprints}, nil
}

// Text returns the identity as a description has it after "a=identity:".
func (i Identity) Text() string {
	inner := mustMarshal(assertion{i.Token, i.Signature})
	return base64.StdEncoding.EncodeToString(mustMarshal(envelope{provider{i.Domain, "default"}, string(inner)}))
}

// mustMarshal marshals structs of texts and numbers, which cannot fail.
func mustMarshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// Signed returns the text that an identity's signature covers: the fingerprints in the order of the description, each
// exactly as it stands there.
func Signed(fingerprints []Fingerprint) []byte {
	return mustMarshal(struct {
		Fingerprints []Fingerprint `json:"fingerprint"`
	}{fingerprints})
}

// Verify reports whether the key of the identity's token has signed these fingerprints. It says nothing about the
// token: verify that first. Errors wrap ErrIdentity or ErrSignature.
func (i Identity) Verify(key *ecdsa.PublicKey, fingerprints []Fingerprint) error {
	header, signature, ok := strings.Cut(i.Signature, "..")
	if !ok {
		return fmt.Errorf("%w: the signature has a payload", ErrIdentity)
	}
	if err := wantES384(header); err != nil {
		return err
	}
	return verifyES384(key, header+"."+encode64(Signed(fingerprints)), signature)
}

// SignFingerprints returns the Signature of an Identity. The key is of P-384.
func SignFingerprints(key *ecdsa.PrivateKey, fingerprints []Fingerprint) (string, error) {
	header := encode64([]byte(`{"alg":"ES384"}`))
	signature, err := signES384(key, header+"."+encode64(Signed(fingerprints)))
	return header + ".." + signature, err
}

func encode64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// decode64 is strict: each text has one form.
func decode64(text string) ([]byte, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIdentity, err)
	}
	return b, nil
}

// wantES384 checks the header of a JWS.
func wantES384(header string) error {
	text, err := decode64(header)
	if err != nil {
		return err
	}
	var h map[string]json.RawMessage // json.Unmarshal to a struct would take "ALG", too
	if err := json.Unmarshal(text, &h); err != nil {
		return fmt.Errorf("%w: header: %w", ErrIdentity, err)
	}
	if string(h["alg"]) != `"ES384"` || h["crit"] != nil {
		return fmt.Errorf("%w: want ES384, not %.20q", ErrIdentity, h["alg"])
	}
	return nil
}

// half is the size in bytes of each number of an ES384 signature, and of each coordinate of a P-384 key.
const half = 48

func verifyES384(key *ecdsa.PublicKey, input, signature string) error {
	raw, err := decode64(signature)
	if err != nil {
		return err
	}
	hash := sha512.Sum384([]byte(input))
	if len(raw) != 2*half {
		return ErrSignature
	}
	r, s := new(big.Int).SetBytes(raw[:half]), new(big.Int).SetBytes(raw[half:])
	if !ecdsa.Verify(key, hash[:], r, s) {
		return ErrSignature
	}
	return nil
}

func signES384(key *ecdsa.PrivateKey, input string) (string, error) {
	hash := sha512.Sum384([]byte(input))
	r, s, err := signP384(key, hash[:])
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	raw := make([]byte, 2*half)
	r.FillBytes(raw[:half])
	s.FillBytes(raw[half:])
	return encode64(raw), nil
}
