package nethernet

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// verifyOwn verifies the identity of a description whose author has signed its own token.
func verifyOwn(t testing.TB, name string, d *Description) {
	t.Helper()
	i, err := ParseIdentity(d.Identity)
	if err != nil {
		t.Fatal(name, err)
	}
	token, err := ParseToken(i.Token)
	if err != nil {
		t.Fatal(name, err)
	}
	if err := errors.Join(token.VerifyOwn(), i.Verify(token.Key, d.Fingerprints)); err != nil {
		t.Error(name, err)
	}
}

// TestRecordedIdentities shows what the recorded identities cover: each character of each fingerprint.
func TestRecordedIdentities(t *testing.T) {
	for _, stack := range stacks {
		r := recording(t, stack)
		for _, text := range []string{r.Offer, r.Answer} {
			d := described(t, text)
			i, err := ParseIdentity(d.Identity)
			if err != nil || i.Domain != "self" && (i.Domain != "" || text == r.Answer) {
				t.Fatal(stack, i.Domain, err)
			}
			token, err := ParseToken(i.Token)
			if err != nil {
				t.Fatal(stack, err)
			}
			if at := token.IssuedAt; token.Algorithm != "ES384" || !token.IsValid(at, 0) || token.IsValid(at.Add(time.Hour), 0) {
				t.Errorf("%s: %+v", stack, token)
			}
			for n := range d.Fingerprints {
				for _, change := range []func(*Fingerprint){
					func(f *Fingerprint) { f.Digest = strings.ToLower(f.Digest) },
					func(f *Fingerprint) { f.Digest = "00" + f.Digest[2:] },
					func(f *Fingerprint) { f.Algorithm = strings.ToUpper(f.Algorithm) },
				} {
					altered := slices.Clone(d.Fingerprints)
					change(&altered[n])
					if err := i.Verify(token.Key, altered); !errors.Is(err, ErrSignature) {
						t.Errorf("%s: altered %q: %v", stack, altered[n], err)
					}
				}
			}
			if err := i.Verify(token.Key, d.Fingerprints[:len(d.Fingerprints)-1]); !errors.Is(err, ErrSignature) {
				t.Errorf("%s: without its last fingerprint: %v", stack, err)
			}
			if i, err = ParseIdentity(i.Text()); err != nil || i.Verify(token.Key, d.Fingerprints) != nil {
				t.Errorf("%s: written and read: %v", stack, err)
			}
			keyText, err := KeyText(token.Key)
			if err != nil {
				t.Fatal(err)
			}
			if k, err := ParseKey(keyText); err != nil || !k.Equal(token.Key) {
				t.Errorf("%s: key: %v", stack, err)
			}
		}
	}
}

// TestSigned writes the signed text as the guide has it.
func TestSigned(t *testing.T) {
	const want = `{"fingerprint":[{"algorithm":"sha-256","digest":"8B:09"},{"algorithm":"sha-512","digest":"AA"}]}`
	if got := Signed([]Fingerprint{{"sha-256", "8B:09"}, {"sha-512", "AA"}}); string(got) != want {
		t.Errorf("%s", got)
	}
}

// TestServerIdentity signs and verifies, and shows that another key does not.
func TestServerIdentity(t *testing.T) {
	key, other := newKey(t, elliptic.P384()), newKey(t, elliptic.P384())
	now := time.Unix(1_795_328_259, 0)
	fingerprints := []Fingerprint{{"sha-256", "8B:09"}}
	i, err := ServerIdentity(key, now, now.Add(time.Minute), fingerprints)
	if err != nil {
		t.Fatal(err)
	}
	token, err := ParseToken(i.Token)
	if err != nil || token.VerifyOwn() != nil || i.Verify(token.Key, fingerprints) != nil {
		t.Fatal(err, token)
	}
	if i.Domain != "self" || token.Issuer != "self" || !token.Key.Equal(&key.PublicKey) || !token.IssuedAt.Equal(now) ||
		!token.Expires.Equal(now.Add(time.Minute)) {
		t.Errorf("%+v, %+v", i, token)
	}
	for at, want := range map[time.Duration]bool{
		-time.Second: false, 0: true, 59 * time.Second: true, time.Minute: false,
	} {
		if token.IsValid(now.Add(at), 0) != want || !token.IsValid(now.Add(at), 2*time.Second) {
			t.Errorf("valid %v after its issue: not %v", at, want)
		}
	}
	if err := i.Verify(&other.PublicKey, fingerprints); !errors.Is(err, ErrSignature) {
		t.Error(err)
	}
	if _, err := ServerIdentity(newKey(t, elliptic.P256()), now, now, fingerprints); !errors.Is(err, ErrIdentity) {
		t.Error("a key of P-256:", err)
	}
}

func newKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestKeysOfOldTokens reads a token whose cpk is DER in base64, and one of Mojang's form.
func TestKeysOfOldTokens(t *testing.T) {
	key := newKey(t, elliptic.P384())
	der, _ := KeyText(&key.PublicKey)
	token, err := ParseToken(tokenOf(t, map[string]any{"alg": "RS256"}, map[string]any{
		"cpk": der, "iss": "https://issuer/", "aud": "api://auth", "xid": "2535", "xname": "Ebb", "exp": 1795328259.5,
	}))
	if err != nil || !token.Key.Equal(&key.PublicKey) || token.XUID != "2535" || token.Name != "Ebb" ||
		!slices.Equal(token.Audience, []string{"api://auth"}) || token.Expires.Unix() != 1795328259 {
		t.Fatalf("%v, %+v", err, token)
	}
	if err := token.VerifyOwn(); !errors.Is(err, ErrIdentity) {
		t.Error("RS256 as the token's own signature:", err)
	}
}

func tokenOf(t testing.TB, header, claims map[string]any) string {
	t.Helper()
	return encode64(mustMarshal(header)) + "." + encode64(mustMarshal(claims)) + "." + encode64(make([]byte, 2*half))
}

// TestUnusableIdentities shows that hostile identities and tokens are refused.
func TestUnusableIdentities(t *testing.T) {
	p256, p384 := newKey(t, elliptic.P256()), newKey(t, elliptic.P384())
	wrongCurve, _ := KeyText(&p256.PublicKey)
	key, _ := KeyText(&p384.PublicKey)
	header := map[string]any{"alg": "ES384"}
	zero, point := encode64(make([]byte, 2*half)), encode64(make([]byte, half))
	keyAt := func(x, y string) map[string]any {
		return map[string]any{"cpk": jwk{Type: "EC", Curve: "P-384", X: x, Y: y}}
	}
	public, _ := p384.PublicKey.Bytes()
	x, y := encode64(public[1:1+half]), encode64(public[1+half:])
	withKey := func(kty, curve string) map[string]any {
		return map[string]any{"cpk": jwk{Type: kty, Curve: curve, X: x, Y: y}, "exp": 1e300, "iat": -1}
	}
	odd, err := ParseToken(tokenOf(t, header, withKey("EC", "P-384")))
	if err != nil || !odd.Expires.IsZero() || !odd.IssuedAt.IsZero() {
		t.Errorf("impossible times: %v, %+v", err, odd)
	}
	for name, token := range map[string]string{
		"another type": tokenOf(t, header, withKey("RSA", "P-384")),
		"curve's name": tokenOf(t, header, withKey("EC", "P-256")),
		"empty":        "", "two parts": "a.b", "no base64": "?.?.?", "padded": "e30=.e30=.", "no JSON": "YQ.YQ.YQ",
		"no key":           tokenOf(t, header, map[string]any{}),
		"null":             tokenOf(t, header, map[string]any{"cpk": nil}),
		"key off curve":    tokenOf(t, header, keyAt(point, point)),
		"another curve":    tokenOf(t, header, map[string]any{"cpk": wrongCurve}),
		"another case":     tokenOf(t, header, map[string]any{"CPK": key}),
		"alg is no text":   tokenOf(t, map[string]any{"alg": 1}, map[string]any{"cpk": key}),
		"aud is no text":   tokenOf(t, header, map[string]any{"cpk": key, "aud": map[string]int{}}),
		"too long":         tokenOf(t, header, map[string]any{"cpk": key, "x": strings.Repeat("x", maxIdentity)}),
		"coordinate short": tokenOf(t, header, keyAt("AA", "AA")),
	} {
		if got, err := ParseToken(token); !errors.Is(err, ErrIdentity) {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
	for name, text := range map[string]string{
		"no base64": "?", "no JSON": "YQ==", "too long": strings.Repeat("A", maxIdentity+4),
		"no assertion": base64.StdEncoding.EncodeToString([]byte(`{"idp":{}}`)),
	} {
		if got, err := ParseIdentity(text); !errors.Is(err, ErrIdentity) {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
	headed := func(header string) string { return encode64([]byte(header)) + ".." }
	want := map[string]error{"zero": ErrSignature, "short": ErrSignature}
	for name, signature := range map[string]string{
		"no parts": "a", "a payload": "a.b.c", "none": headed(`{"alg":"none"}`), "HS384": headed(`{"alg":"HS384"}`) + zero,
		"another case": headed(`{"ALG":"ES384"}`) + zero, "critical": headed(`{"alg":"ES384","crit":["x"]}`) + zero,
		"zero": headed(`{"alg":"ES384"}`) + zero, "short": headed(`{"alg":"ES384"}`) + "AAAA",
	} {
		err := Identity{Signature: signature}.Verify(&p384.PublicKey, []Fingerprint{{"sha-256", "AA"}})
		if !errors.Is(err, cmp.Or(want[name], ErrIdentity)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzIdentity: no identity or token panics. An identity that was read is written and read again.
func FuzzIdentity(f *testing.F) {
	for _, stack := range stacks {
		i, err := ParseIdentity(described(f, recording(f, stack).Offer).Identity)
		if err != nil {
			f.Fatal(err)
		}
		e, _ := base64.StdEncoding.DecodeString(i.Text())
		f.Add(e, i.Token)
	}
	f.Fuzz(func(t *testing.T, envelope []byte, token string) {
		if parsed, err := ParseToken(token); err == nil {
			_ = parsed.IsValid(time.Time{}, 0)
		}
		i, err := ParseIdentity(base64.StdEncoding.EncodeToString(envelope))
		if err != nil {
			return
		}
		if again, err := ParseIdentity(i.Text()); len(i.Text()) < maxIdentity && (err != nil || again != i) {
			t.Fatalf("%v, %+v became %+v", err, i, again)
		}
		if !json.Valid(Signed([]Fingerprint{{i.Domain, i.Token}})) {
			t.Fatal("no JSON is signed")
		}
	})
}
