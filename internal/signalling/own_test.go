package signalling

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"tidegate/codec/nethernet"
	"tidegate/internal/joining"
)

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

var ownPrint = nethernet.Fingerprint{Algorithm: "sha-256", Digest: "EE:FF"}

// serveOwn starts a Server that answers joins itself.
func serveOwn(t *testing.T, key *ecdsa.PrivateKey, check IdentityCheck, issuer nethernet.KeySet) *world {
	t.Helper()
	return serve(t, func(o *Options) {
		o.Own = &Own{
			Key: key, Fingerprint: ownPrint, Identity: check, Issuer: issuer,
			Status: func() []byte { return []byte("MCPE;Arena;2225;1.26.60;3;20;1;World;Creative;") },
		}
	})
}

// signedOffer is the offer of a player with this key and token. An empty token is the key's own.
func signedOffer(t *testing.T, n int, key *ecdsa.PrivateKey, token string) string {
	t.Helper()
	prints := []nethernet.Fingerprint{{Algorithm: "sha-256", Digest: "AA:BB"}}
	identity, err := nethernet.ServerIdentity(key, start, start.Add(time.Minute), prints)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		identity.Token = token
	}
	return strings.Replace(offerOf(n), "a=identity:signed", "a=identity:"+identity.Text(), 1)
}

// TestOwnJoin answers joins. A client reads the answer, and the table has what its datagrams and its stack need.
func TestOwnJoin(t *testing.T) {
	server, player := newKey(t), newKey(t)
	w := serveOwn(t, server, IdentityProof, nil)
	c := w.dial()
	if r := c.send(get("/v1/join?version=1.26.60")); r.status != http.StatusOK ||
		r.header.Get("Content-Type") != "application/json" || !strings.Contains(r.body, `"name":"Arena"`) ||
		!strings.Contains(r.body, `"gameType":1`) {
		t.Fatal(r)
	}
	r := c.send(post("/v1/join/7", signedOffer(t, 1, player, "")))
	d, err := nethernet.ParseDescription([]byte(r.body))
	if r.status != http.StatusOK || r.header.Get("Content-Type") != "application/sdp" || err != nil {
		t.Fatal(r, err)
	}
	identity, err := nethernet.ParseIdentity(d.Identity)
	if err != nil {
		t.Fatal(err)
	}
	token, err := nethernet.ParseToken(identity.Token)
	if err != nil || token.VerifyOwn() != nil || !token.Key.Equal(&server.PublicKey) || !token.IsValid(start, 0) ||
		identity.Verify(token.Key, d.Fingerprints) != nil {
		t.Error(token, err)
	}
	if !d.Lite || d.Setup != "active" || d.Fingerprints[0] != ownPrint || d.Candidates[0].Address != edge {
		t.Errorf("%+v", d)
	}
	ticket := w.tickets.Find(start, []byte(d.Ufrag+":cli1"))
	if ticket == nil || ticket.Told().ServerPassword != d.Password || ticket.Peer == nil ||
		!ticket.Peer.Key.Equal(&player.PublicKey) || ticket.Peer.Fingerprints[0].Digest != "AA:BB" {
		t.Fatalf("%+v", ticket)
	}
	successor := joining.NewTickets(joining.DefaultLimits, nil)
	lost := successor.Restore(start, w.tickets.Save(start))
	again := successor.Find(start, []byte(d.Ufrag+":cli1"))
	if lost != 0 || again == nil || !reflect.DeepEqual(again.Peer, ticket.Peer) ||
		again.Peer.Certificate != ownPrint.Digest {
		t.Fatalf("a successor has %+v, %d lost", again, lost)
	}
	w.tickets.Admit(start, ticket, edge, 0)
	if saved := w.tickets.Save(start); len(saved) != 0 {
		t.Errorf("%v: no other process can be the server of a session", saved)
	}
	w.wantNoServer()
}

// wantNoServer checks that no server has heard of a join.
func (w *world) wantNoServer() {
	w.t.Helper()
	if n := w.bds.joins.Load(); n != 0 {
		w.t.Errorf("the server heard of %d joins", n)
	}
}

// TestOwnIdentity refuses identities as Bedrock's server does, and leaves nothing behind.
func TestOwnIdentity(t *testing.T) {
	player, other := newKey(t), newKey(t)
	issuer, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	issued := func(audience string, expires time.Time) string { return issue(t, issuer, player, audience, expires) }
	keys := nethernet.KeySet{"k": &issuer.PublicKey}
	altered := strings.Replace(signedOffer(t, 1, player, ""), "AA:BB", "AA:BC", 1)
	for name, test := range map[string]struct {
		check IdentityCheck
		offer string
		fits  bool
	}{
		"none":                {IdentityNone, offerOf(1), true},
		"no identity":         {IdentityProof, offerOf(1), false},
		"proof":               {IdentityProof, signedOffer(t, 1, player, ""), true},
		"another fingerprint": {IdentityProof, altered, false},
		"another's token":     {IdentityProof, signedOffer(t, 1, other, issued(tokenAudience, start)), false},
		"not issued":          {IdentityIssued, signedOffer(t, 1, player, ""), false},
		"issued":              {IdentityIssued, signedOffer(t, 1, player, issued(tokenAudience, start)), true},
		"other audience":      {IdentityIssued, signedOffer(t, 1, player, issued("else", start)), false},
		"expired": {
			IdentityIssued, signedOffer(t, 1, player, issued(tokenAudience, start.Add(-time.Hour))), false,
		},
		"setup active": {IdentityNone, strings.Replace(offerOf(1), "actpass", "active", 1), false},
	} {
		w := serveOwn(t, other, test.check, keys)
		r := w.dial().send(post("/v1/join/7", test.offer))
		if fits := r.status == http.StatusOK && strings.HasPrefix(r.body, "v="); fits != test.fits {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
		if test.fits {
			continue
		}
		if r.status == http.StatusOK && r.body != identityRefused {
			t.Errorf("%s: %s", name, r.body)
		}
		if last := w.lastOver(1); last.Stage != joining.Refused && last.Stage != joining.Malformed {
			t.Errorf("%s: %v", name, last)
		}
		w.wantSilentServer()
	}
}

// issue returns a token as Mojang's service signs it.
func issue(t *testing.T, issuer *rsa.PrivateKey, player *ecdsa.PrivateKey, audience string, expires time.Time) string {
	t.Helper()
	key, err := nethernet.KeyText(&player.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	input := encode([]byte(`{"alg":"RS256","kid":"k"}`)) + "." + encode(fmt.Appendf(nil,
		`{"iss":%q,"aud":%q,"cpk":%q,"exp":%d}`, tokenIssuer, audience, key, expires.Unix()))
	hash := sha256.Sum256([]byte(input))
	signature, err := rsa.SignPKCS1v15(rand.Reader, issuer, crypto.SHA256, hash[:])
	if err != nil {
		t.Fatal(err)
	}
	return input + "." + encode(signature)
}
