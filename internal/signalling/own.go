package signalling

import (
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"tidegate/codec/nethernet"
	"tidegate/internal/joining"
)

// Own lets a Server answer joins itself, in place of a server of the game's.
type Own struct {
	Key         *ecdsa.PrivateKey // of the identity that players come to trust, P-384
	Fingerprint nethernet.Fingerprint
	Identity    IdentityCheck
	Issuer      nethernet.KeySet // for IdentityIssued
	// Status returns what RakNet's server list says of the servers; empty: nothing yet.
	Status func() []byte
}

// IdentityCheck says how the identities of players are checked.
type IdentityCheck uint8

// Kinds of checks.
const (
	// IdentityProof wants a signature over the fingerprints. The game's server verifies whose key made it: the login
	// must have the same key.
	IdentityProof IdentityCheck = iota
	// IdentityIssued wants a token of Mojang's service, too.
	IdentityIssued
	// IdentityNone wants nothing: for tests.
	IdentityNone
)

// Facts of Mojang's tokens, and of clocks.
const (
	tokenIssuer   = "https://authorization.franchise.minecraft-services.net/"
	tokenAudience = "api://auth-minecraft-services/multiplayer"
	clockSkew     = 10 * time.Minute
	identityTime  = 10 * time.Minute
)

// identityRefused is the number with which Bedrock's server refuses an identity.
const identityRefused = "37"

// ownList answers a question for the server's state.
func (s *Server) ownList(w http.ResponseWriter) {
	status, err := nethernet.ParsePong(s.own.Load().Status())
	if err != nil { // the servers have not answered yet
		status = nethernet.Status{Name: "Minecraft"}
	}
	w.Header().Set("Content-Type", "application/json")
	s.pass(w, &response{status: http.StatusOK}, status.JSON())
}

// ownJoin answers an offer.
func (s *Server) ownJoin(w http.ResponseWriter, r *http.Request, client netip.Addr, id string) {
	own, now, place := s.own.Load(), s.o.Now(), connOf(r.Context())
	t, err := s.o.Tickets.Ask(now, id, s.o.Route, client, place.local)
	if err != nil {
		s.refuseTicket(w, err)
		return
	}
	_, offer, status := s.offer(w, r, t)
	if status == 0 && offer.Setup != "actpass" && offer.Setup != "passive" {
		status = http.StatusBadRequest // the server begins with DTLS
	}
	if status != 0 {
		s.o.Tickets.End(now, t, joining.Malformed, "")
		s.reply(w, status, http.StatusText(status))
		return
	}
	s.o.Tickets.Count(joining.Asked)
	if t.Peer, err = own.peer(now, offer); err != nil {
		s.o.Tickets.End(now, t, joining.Refused, err.Error())
		s.pass(w, &response{status: http.StatusOK}, []byte(identityRefused))
		return
	}
	t.Target, t.ServerUfrag, t.ServerPassword = place.local, randomText(6), randomText(18)
	t.Peer.Certificate = own.Fingerprint.Digest
	var session [8]byte
	_, _ = rand.Read(session[:]) // never fails
	answer, err := describe(now, own.Key, nethernet.Own{
		Ufrag: t.ServerUfrag, Password: t.ServerPassword, Lite: true, Setup: "active",
		Fingerprints: []nethernet.Fingerprint{own.Fingerprint}, Candidates: s.o.Candidates(place.local.Addr()),
		Session: binary.BigEndian.Uint64(session[:]),
	})
	if s.keep(w, now, t, err, http.StatusInternalServerError, "no answer could be made") {
		w.Header().Set("Content-Type", "application/sdp")
		s.pass(w, &response{status: http.StatusOK}, answer)
	}
}

// peer checks a client's identity, and returns what its stack must know.
func (o *Own) peer(now time.Time, d *nethernet.Description) (*nethernet.Peer, error) {
	p := &nethernet.Peer{Fingerprints: d.Fingerprints, MaxMessageSize: d.MaxMessageSize}
	if o.Identity == IdentityNone {
		return p, nil
	}
	identity, err := nethernet.ParseIdentity(d.Identity)
	if err != nil {
		return nil, err
	}
	token, err := nethernet.ParseToken(identity.Token)
	if err != nil {
		return nil, err
	}
	if err := identity.Verify(token.Key, d.Fingerprints); err != nil {
		return nil, err
	}
	if o.Identity == IdentityIssued {
		if err := o.issued(now, token); err != nil {
			return nil, err
		}
	}
	p.Key = token.Key
	return p, nil
}

func (o *Own) issued(now time.Time, t *nethernet.Token) error {
	if err := t.VerifyIssued(o.Issuer); err != nil {
		return err
	}
	switch {
	case t.Issuer != tokenIssuer || !slices.Contains(t.Audience, tokenAudience):
		return fmt.Errorf("%w: it is for another service", nethernet.ErrIdentity)
	case !t.IsValid(now, clockSkew):
		return fmt.Errorf("%w: expired, or from the future", nethernet.ErrIdentity)
	}
	return nil
}

// describe returns the description of this end, with an identity that it signs.
func describe(now time.Time, key *ecdsa.PrivateKey, d nethernet.Own) (text []byte, err error) {
	d.Identity, err = nethernet.ServerIdentity(key, now.Add(-time.Minute), now.Add(identityTime), d.Fingerprints)
	if err != nil {
		return nil, err
	}
	return d.Text(), nil
}

// randomText returns a text of n random bytes in ICE's letters.
func randomText(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return base64.RawStdEncoding.EncodeToString(b)
}
