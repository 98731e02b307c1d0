package nethernet

import (
	"crypto"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
)

func keySet(key *rsa.PublicKey, id, more string) string {
	return fmt.Sprintf(`{"keys":[{"kty":"RSA","kid":%q,"n":%q,"e":%q%s}]}`, id, encode64(key.N.Bytes()),
		encode64(big.NewInt(int64(key.E)).Bytes()), more)
}

// TestIssuedTokens verifies a player's token as Mojang's service makes it, and refuses others.
func TestIssuedTokens(t *testing.T) {
	issuer, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	player, _ := KeyText(&newKey(t, elliptic.P384()).PublicKey)
	claims := map[string]any{"cpk": player, "iss": "https://issuer/", "xid": "2535"}
	issue := func(header map[string]any) string {
		text, _, _ := strings.Cut(tokenOf(t, header, claims), "."+encode64(make([]byte, 2*half)))
		hash := sha256.Sum256([]byte(text))
		signature, err := rsa.SignPKCS1v15(rand.Reader, issuer, crypto.SHA256, hash[:])
		if err != nil {
			t.Fatal(err)
		}
		return text + "." + encode64(signature)
	}
	keys, err := ParseKeySet([]byte(keySet(&issuer.PublicKey, "one", `,"use":"sig","alg":"RS256"`)))
	if err != nil {
		t.Fatal(err)
	}
	good := issue(map[string]any{"alg": "RS256", "kid": "one"})
	header, rest, _ := strings.Cut(good, ".")
	_, signature, _ := strings.Cut(rest, ".")
	other := encode64(mustMarshal(map[string]any{"cpk": player, "xid": "1"}))
	for name, test := range map[string]struct {
		token string
		want  error
	}{
		"good":         {good, nil},
		"another key":  {issue(map[string]any{"alg": "RS256", "kid": "two"}), ErrIdentity},
		"no key":       {issue(map[string]any{"alg": "RS256"}), ErrIdentity},
		"none":         {issue(map[string]any{"alg": "none", "kid": "one"}), ErrIdentity},
		"HS256":        {issue(map[string]any{"alg": "HS256", "kid": "one"}), ErrIdentity},
		"critical":     {issue(map[string]any{"alg": "RS256", "kid": "one", "crit": []string{"x"}}), ErrIdentity},
		"other claims": {header + "." + other + "." + signature, ErrSignature},
		"no signature": {strings.TrimSuffix(good, signature), ErrSignature},
		"no base64":    {good + "?", ErrIdentity},
	} {
		token, err := ParseToken(test.token)
		if err != nil {
			t.Fatal(name, err)
		}
		if err := token.VerifyIssued(keys); !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
		if err := token.VerifyOwn(); err == nil {
			t.Errorf("%s: it is its own", name)
		}
	}
}

// TestKeySets shows which keys are left out.
func TestKeySets(t *testing.T) {
	key := &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), leastKey-1), E: 65537}
	short := &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), leastKey-2), E: 65537}
	long := &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), mostKey), E: 65537}
	for name, text := range map[string]string{
		"empty": "", "no keys": `{"keys":[]}`, "short": keySet(short, "a", ""), "long": keySet(long, "a", ""),
		"encryption": keySet(key, "a", `,"use":"enc"`), "RS512": keySet(key, "a", `,"alg":"RS512"`),
		"elliptic":      strings.Replace(keySet(key, "a", ""), "RSA", "EC", 1),
		"no modulus":    `{"keys":[{"kty":"RSA","e":"AQAB"}]}`,
		"huge exponent": strings.Replace(keySet(key, "a", ""), "AQAB", strings.Repeat("A", 8)+"AQAAAAAA", 1),
		"no base64":     strings.Replace(keySet(key, "a", ""), "AQAB", "?", 1),
		"too long":      strings.Repeat(" ", maxKeySet) + "{}",
	} {
		if set, err := ParseKeySet([]byte(text)); !errors.Is(err, ErrIdentity) {
			t.Errorf("%s: %v, %v", name, set, err)
		}
	}
	one := strings.TrimSuffix(strings.TrimPrefix(keySet(key, "%d", ""), `{"keys":[`), `]}`)
	var many []string
	for i := range maxKeys + 10 {
		many = append(many, strings.Replace(one, "%d", fmt.Sprint(i), 1))
	}
	if set, err := ParseKeySet([]byte(`{"keys":[` + strings.Join(many, ",") + `]}`)); err != nil || len(set) != maxKeys {
		t.Errorf("%d keys, %v", len(set), err)
	}
}
