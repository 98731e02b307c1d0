package signalling

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tidegate/codec/nethernet"
)

// Caller joins servers in place of clients that cannot join themselves. Its offers have an identity that it signs: a
// player's own is not to be had. It is safe for concurrent use.
type Caller struct {
	key         *ecdsa.PrivateKey
	fingerprint nethernet.Fingerprint
	anyAddress  bool
	backends    backends
	places      chan struct{} // of joins that wait for their servers
}

// MaxCalls bounds the joins of a Caller that wait for their servers, and with them its memory to some 30 MiB.
const MaxCalls = 256

// callTime is how long a server may take to answer. Players have less patience.
const callTime = 30 * time.Second

// ErrCalls reports that MaxCalls is reached.
var ErrCalls = fmt.Errorf("%w: joins wait for their servers", nethernet.ErrBusy)

// NewCaller returns a Caller with a key of P-384. The fingerprint is that of the certificate of its stacks. anyAddress
// is for servers behind NAT or in containers, see Backend.
func NewCaller(key *ecdsa.PrivateKey, fingerprint nethernet.Fingerprint, anyAddress bool) *Caller {
	return &Caller{
		key: key, fingerprint: fingerprint, anyAddress: anyAddress,
		backends: newBackends(Times{Answer: callTime}.withDefaults()), places: make(chan struct{}, MaxCalls),
	}
}

// Join asks a server once, and waits for its answer. A server's refusal is a nethernet.Refusal.
func (c *Caller) Join(ctx context.Context, server netip.AddrPort) (*nethernet.Answer, error) {
	select {
	case c.places <- struct{}{}:
		defer func() { <-c.places }()
	default:
		return nil, ErrCalls
	}
	var chance [16]byte
	_, _ = rand.Read(chance[:]) // never fails
	a := &nethernet.Answer{
		Ufrag: randomText(6), Password: randomText(18), Seed: binary.BigEndian.Uint64(chance[:]),
	}
	session := binary.BigEndian.Uint64(chance[8:])
	offer, err := c.offer(time.Now(), a, session)
	if err != nil {
		return nil, fmt.Errorf("make an offer: %w", err)
	}
	in, err := c.backends.ask(ctx, Backend{Addr: server}, &http.Request{
		Method: http.MethodPost, Host: server.String(),
		URL:    &url.URL{Path: joinPath + "/" + strconv.FormatUint(session, 10)},
		Header: http.Header{"Content-Type": {"application/sdp"}},
	}, offer)
	if err != nil {
		return nil, fmt.Errorf("join the server over HTTP: %w", err)
	}
	if err := c.read(in, server, a); err != nil {
		return nil, err
	}
	return a, nil
}

// offer returns the description of this end. It names no candidates: the server learns the address by a check.
func (c *Caller) offer(now time.Time, a *nethernet.Answer, session uint64) ([]byte, error) {
	prints := []nethernet.Fingerprint{c.fingerprint}
	identity, err := nethernet.ServerIdentity(c.key, now.Add(-time.Minute), now.Add(identityTime), prints)
	if err != nil {
		return nil, err
	}
	d := nethernet.Own{
		Ufrag: a.Ufrag, Password: a.Password, Setup: "actpass", Fingerprints: prints, Identity: identity, Session: session,
	}
	return d.Text(), nil
}

var errPassive = errors.New("use the server's answer: it does not begin with DTLS (a=setup:active)")

// read reads a server's answer. The address in it is always the server's own.
func (c *Caller) read(in *response, server netip.AddrPort, a *nethernet.Answer) error {
	if in.status >= http.StatusMultipleChoices || !bytes.HasPrefix(in.body, []byte("v=")) {
		return &nethernet.Refusal{Status: in.status, Text: string(in.body)}
	}
	d, err := nethernet.ParseDescription(in.body)
	if err != nil {
		return fmt.Errorf("use the server's answer: %w", err)
	}
	if d.Setup != "active" {
		return errPassive
	}
	if a.Target, err = d.Target(server.Addr(), c.anyAddress); err != nil {
		return fmt.Errorf("use the server's answer: %w", err)
	}
	a.PeerUfrag, a.PeerPassword = strings.Clone(d.Ufrag), strings.Clone(d.Password) // parts of the whole text
	a.Peer = &nethernet.Peer{MaxMessageSize: d.MaxMessageSize}
	for _, f := range d.Fingerprints {
		a.Peer.Fingerprints = append(a.Peer.Fingerprints,
			nethernet.Fingerprint{Algorithm: strings.Clone(f.Algorithm), Digest: strings.Clone(f.Digest)})
	}
	return nil
}
