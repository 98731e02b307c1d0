package nethernet

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
)

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
