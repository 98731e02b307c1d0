package nethernet

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// Token is a JWT that names the owner of a key. A server signs its own. A player's is signed by Mojang's service, and
// only the service's keys can verify it.
type Token struct {
	Algorithm string // "ES384" of a server, "RS256" of Mojang's service
	Issuer    string
	Audience  []string
	XUID      string // of a player
	Name      string // of a player
	Key       *ecdsa.PublicKey
	IssuedAt  time.Time // zero: not stated
	Expires   time.Time // zero: not stated

	text     string
	keyID    string // of the issuer's key
	critical bool   // the header has extensions that must be understood
}

// ParseToken reads a token. It verifies no signature and no time. Errors wrap ErrIdentity.
func ParseToken(text string) (*Token, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 || len(text) > maxIdentity {
		return nil, fmt.Errorf("%w: not a token", ErrIdentity)
	}
	header, err := object(parts[0])
	if err != nil {
		return nil, err
	}
	claims, err := object(parts[1])
	if err != nil {
		return nil, err
	}
	t := &Token{text: text, critical: header["crit"] != nil}
	var issued, expires float64
	for _, claim := range []struct {
		from map[string]json.RawMessage
		name string
		to   any
	}{
		{header, "alg", &t.Algorithm}, {header, "kid", &t.keyID}, {claims, "iss", &t.Issuer},
		{claims, "xid", &t.XUID}, {claims, "xname", &t.Name},
		{claims, "iat", &issued}, {claims, "exp", &expires},
	} {
		if raw := claim.from[claim.name]; raw != nil {
			if err := json.Unmarshal(raw, claim.to); err != nil {
				return nil, fmt.Errorf("%w: %s: %w", ErrIdentity, claim.name, err)
			}
		}
	}
	if t.Audience, err = audience(claims["aud"]); err != nil {
		return nil, err
	}
	t.IssuedAt, t.Expires = unixTime(issued), unixTime(expires)
	t.Key, err = parseKey(claims["cpk"])
	return t, err
}

// object reads one part of a token. Unlike a struct, a map tells "cpk" from "CPK".
func object(part string) (o map[string]json.RawMessage, err error) {
	text, err := decode64(part)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIdentity, err)
	}
	return o, nil
}

// audience reads a text, or a list of them.
func audience(raw json.RawMessage) (list []string, err error) {
	if raw == nil {
		return nil, nil
	}
	if raw[0] != '[' {
		raw = bytes.Join([][]byte{{'['}, raw, {']'}}, nil)
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("%w: aud: %w", ErrIdentity, err)
	}
	return list, nil
}

func unixTime(seconds float64) time.Time {
	const last = 1 << 40
	if seconds <= 0 || seconds > last {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

// VerifyOwn checks that the token's own key has signed it, as a server's token and those of tests are. Errors wrap
// ErrIdentity or ErrSignature.
func (t *Token) VerifyOwn() error {
	at := strings.LastIndexByte(t.text, '.')
	header, _, _ := strings.Cut(t.text, ".")
	if err := wantES384(header); err != nil {
		return err
	}
	return verifyES384(t.Key, t.text[:at], t.text[at+1:])
}

// IsValid reports whether a token has begun and has not expired, as far as it states times. Clocks of players may be
// wrong by skew.
func (t *Token) IsValid(now time.Time, skew time.Duration) bool {
	return !now.Add(skew).Before(t.IssuedAt) && (t.Expires.IsZero() || now.Add(-skew).Before(t.Expires))
}

// jwk is a key as tokens have it since 26.40.
type jwk struct {
	Type  string `json:"kty"`
	Curve string `json:"crv"`
	X     string `json:"x"`
	Y     string `json:"y"`
}

// parseKey reads a token's cpk: a JWK, or base64 of DER in tokens before 26.40.
func parseKey(raw json.RawMessage) (*ecdsa.PublicKey, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return ParseKey(text)
	}
	var k jwk
	if err := json.Unmarshal(raw, &k); err != nil || k.Type != "EC" || k.Curve != "P-384" {
		return nil, fmt.Errorf("%w: cpk is no key of P-384", ErrIdentity)
	}
	x, err := decode64(k.X)
	if err != nil {
		return nil, err
	}
	y, err := decode64(k.Y)
	if err != nil {
		return nil, err
	}
	if len(x) != half || len(y) != half {
		return nil, fmt.Errorf("%w: cpk", ErrIdentity)
	}
	const uncompressed = 4
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P384(), bytes.Join([][]byte{{uncompressed}, x, y}, nil))
	if err != nil {
		return nil, fmt.Errorf("%w: cpk: %w", ErrIdentity, err)
	}
	return key, nil
}

// ParseKey reads a public key of P-384 as Bedrock's logins have it: base64 of a DER SubjectPublicKeyInfo. Errors wrap
// ErrIdentity.
func ParseKey(text string) (*ecdsa.PublicKey, error) {
	der, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%w: key: %w", ErrIdentity, err)
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, fmt.Errorf("%w: key: %w", ErrIdentity, err)
	}
	key, ok := parsed.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P384() {
		return nil, fmt.Errorf("%w: no key of P-384", ErrIdentity)
	}
	return key, nil
}

// KeyText is the reverse of ParseKey.
func KeyText(key *ecdsa.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	return base64.StdEncoding.EncodeToString(der), err
}

// ServerIdentity returns the identity of a server with this key of P-384 for a description with these fingerprints.
// Players come to trust the key, so it must stay the same, and all servers of a fleet share it. Clients refuse the
// identity after its expiry.
func ServerIdentity(key *ecdsa.PrivateKey, issued, expires time.Time, fingerprints []Fingerprint) (Identity, error) {
	point, err := key.PublicKey.Bytes()
	if err != nil || len(point) != 1+2*half {
		return Identity{}, fmt.Errorf("%w: want a key of P-384", ErrIdentity)
	}
	inHeader, err := KeyText(&key.PublicKey)
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrIdentity, err)
	}
	header := mustMarshal(struct {
		Algorithm string `json:"alg"`
		Type      string `json:"typ"`
		Key       string `json:"x5u"`
	}{"ES384", "JWT", inHeader})
	claims := mustMarshal(struct {
		Key      jwk    `json:"cpk"`
		Expires  int64  `json:"exp"`
		IssuedAt int64  `json:"iat"`
		Issuer   string `json:"iss"`
	}{jwk{"EC", "P-384", encode64(point[1 : 1+half]), encode64(point[1+half:])}, expires.Unix(), issued.Unix(), "self"})
	input := encode64(header) + "." + encode64(claims)
	signature, err := signES384(key, input)
	if err != nil {
		return Identity{}, err
	}
	signed, err := SignFingerprints(key, fingerprints)
	return Identity{Domain: "self", Token: input + "." + signature, Signature: signed}, err
}

// signP384 signs a hash. The signature is deterministic (RFC 6979), so that it needs no source of chance.
func signP384(key *ecdsa.PrivateKey, hash []byte) (r, s *big.Int, err error) {
	der, err := key.Sign(nil, hash, crypto.SHA384)
	if err != nil {
		return nil, nil, err
	}
	var signature struct{ R, S *big.Int }
	_, err = asn1.Unmarshal(der, &signature)
	return signature.R, signature.S, err
}

// Bounds of a KeySet.
const (
	maxKeySet   = 256 << 10
	maxKeys     = 64
	leastKey    = 2048 // bits
	mostKey     = 8192
	maxExponent = 1<<31 - 1
)

// KeySet has the keys of a service that issues tokens, by their IDs.
type KeySet map[string]*rsa.PublicKey

// ParseKeySet reads a JSON Web Key Set (RFC 7517). Keys that are not for RS256 are left out. Errors wrap ErrIdentity:
// there is no key for it.
func ParseKeySet(text []byte) (KeySet, error) {
	var list struct {
		Keys []struct {
			ID        string `json:"kid"`
			Type      string `json:"kty"`
			Use       string `json:"use"`
			Algorithm string `json:"alg"`
			Modulus   string `json:"n"`
			Exponent  string `json:"e"`
		} `json:"keys"`
	}
	if len(text) > maxKeySet {
		return nil, fmt.Errorf("%w: %d bytes of keys", ErrIdentity, len(text))
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIdentity, err)
	}
	set := make(KeySet)
	for _, k := range list.Keys {
		fits := k.Type == "RSA" && (k.Use == "" || k.Use == "sig") && (k.Algorithm == "" || k.Algorithm == "RS256")
		if key := rsaKey(k.Modulus, k.Exponent); fits && key != nil && len(set) < maxKeys {
			set[k.ID] = key
		}
	}
	if len(set) == 0 {
		return nil, fmt.Errorf("%w: no key for RS256", ErrIdentity)
	}
	return set, nil
}

// rsaKey returns a key, or nil if its numbers cannot be those of one.
func rsaKey(modulus, exponent string) *rsa.PublicKey {
	n, err := decode64(modulus)
	if err != nil {
		return nil
	}
	e, err := decode64(exponent)
	if err != nil {
		return nil
	}
	key := &rsa.PublicKey{N: new(big.Int).SetBytes(n)}
	power := new(big.Int).SetBytes(e)
	if bits := key.N.BitLen(); bits < leastKey || bits > mostKey || !power.IsInt64() || power.Int64() > maxExponent {
		return nil
	}
	key.E = int(power.Int64())
	return key
}

// VerifyIssued checks that one of a service's keys has signed the token with RS256. Check Issuer, Audience and IsValid,
// too. Errors wrap ErrIdentity or ErrSignature.
func (t *Token) VerifyIssued(keys KeySet) error {
	at := strings.LastIndexByte(t.text, '.')
	if t.Algorithm != "RS256" || t.critical {
		return fmt.Errorf("%w: want RS256, not %.20q", ErrIdentity, t.Algorithm)
	}
	key := keys[t.keyID]
	if key == nil {
		return fmt.Errorf("%w: the service has no key %.40q", ErrIdentity, t.keyID)
	}
	signature, err := decode64(t.text[at+1:])
	if err != nil {
		return err
	}
	hash := sha256.Sum256([]byte(t.text[:at]))
	if rsa.VerifyPKCS1v15(key, crypto.SHA256, hash[:], signature) != nil {
		return ErrSignature
	}
	return nil
}
