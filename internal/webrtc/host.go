// Package webrtc runs the stacks of terminated NetherNet connections: DTLS, SCTP and two data channels, on pion. Its
// owner, a loop, gives it datagrams and takes datagrams and messages from it. It has no socket and no ICE.
//
// Host makes the stacks (host.go). A stack (stack.go) has some goroutines for as long as its connection lives. wire.go
// has DTLS and the datagrams below, channels.go the channels and the peer's messages, outgoing.go those to the peer.
package webrtc

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	_ "crypto/sha512" // for hashes
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"time"

	"tidegate/codec/nethernet"
)

// ErrFull reports that a bound of Limits is reached.
var ErrFull = fmt.Errorf("%w: WebRTC", nethernet.ErrBusy)

// Limits bound the stacks of a Host.
type Limits struct {
	Stacks    int // at a time
	Unopened  int // of them, whose channels are not open yet: only these cost much processor time
	Queue     int // bytes that wait for one peer
	MaxUnread int // bytes of one peer's messages that the loop has not taken; one message may exceed it
	Message   int // bytes of the largest message of a peer
}

// DefaultLimits are for real games. A login with a large skin has some 100 KB, and a chunk less.
var DefaultLimits = Limits{
	Stacks: 10_000, Unopened: 256, Queue: nethernet.MaxQueue, MaxUnread: 256 << 10, Message: 4 << 20,
}

// ErrCertificate reports that another process has the certificate that the peer was told of.
var ErrCertificate = errors.New("the client was told of a certificate that this process does not have: use the same " +
	"identity_key everywhere")

// Host makes stacks, which share its certificates. It is safe for concurrent use.
type Host struct {
	limits      Limits
	fingerprint nethernet.Fingerprint // of the first certificate

	mu           sync.Mutex
	certificates map[string]*tls.Certificate // by digest
	stacks       int
	unopened     int
}

// NewHost returns a Host with a certificate that follows from a secret: a successor has the same one.
func NewHost(l Limits, secret [32]byte) (*Host, error) {
	h := &Host{limits: l, certificates: make(map[string]*tls.Certificate)}
	var err error
	if h.fingerprint, err = h.Certify(secret); err != nil {
		return nil, err
	}
	return h, nil
}

// Certify gives the Host one more certificate, and returns its digest for a description.
func (h *Host) Certify(secret [32]byte) (f nethernet.Fingerprint, err error) {
	sum := sha256.Sum256(append([]byte("tidegate webrtc\x00"), secret[:]...))
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), sum[:]) // one sum of four milliards is no key
	if err != nil {
		return f, fmt.Errorf("make a certificate: %w", err)
	}
	template := &x509.Certificate{ // peers look at its fingerprint alone
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0),
		SignatureAlgorithm: x509.ECDSAWithSHA256,
	}
	der, err := x509.CreateCertificate(nil, template, template, &key.PublicKey, key) // without chance (RFC 6979)
	if err != nil {
		return f, fmt.Errorf("make a certificate: %w", err)
	}
	sum = sha256.Sum256(der)
	f = nethernet.Fingerprint{Algorithm: "sha-256", Digest: digestText(sum[:])}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.certificates[f.Digest] = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return f, nil
}

// Fingerprint returns the digest of the Host's first certificate, for a description.
func (h *Host) Fingerprint() nethernet.Fingerprint { return h.fingerprint }

// Has reports whether the Host has the certificate with a digest.
func (h *Host) Has(digest string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.certificates[digest] != nil
}

// Sizes returns the numbers of stacks, and of those whose channels are not open.
func (h *Host) Sizes() (stacks, unopened int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stacks, h.unopened
}

// Accept begins the stack of a server towards a client that has made the offer: DTLS's client. wake is called from any
// goroutine when Take has something. Errors are ErrFull and ErrCertificate.
func (h *Host) Accept(p *nethernet.Peer, wake func()) (nethernet.Stack, error) {
	return h.begin(p, false, wake)
}

// Dial begins the stack of a client towards a server that has answered: DTLS's server, which opens the channels.
func (h *Host) Dial(p *nethernet.Peer, wake func()) (nethernet.Stack, error) {
	return h.begin(p, true, wake)
}

func (h *Host) begin(p *nethernet.Peer, dials bool, wake func()) (nethernet.Stack, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	certificate := h.certificates[cmp.Or(p.Certificate, h.fingerprint.Digest)]
	if certificate == nil {
		return nil, ErrCertificate
	}
	if h.stacks >= h.limits.Stacks || h.unopened >= h.limits.Unopened {
		return nil, ErrFull
	}
	h.stacks++
	h.unopened++
	return newStack(h, p, certificate, dials, wake), nil
}

// opened notes that a stack's channels are open, or will never be.
func (h *Host) opened() {
	h.mu.Lock()
	h.unopened--
	h.mu.Unlock()
}

func (h *Host) ended() {
	h.mu.Lock()
	h.stacks--
	h.mu.Unlock()
}

// hashes are those of a fingerprint that is safe.
var hashes = map[string]crypto.Hash{"sha-256": crypto.SHA256, "sha-384": crypto.SHA384, "sha-512": crypto.SHA512}

var errFingerprint = errors.New("the certificate is not that of the description")

// verify checks a certificate against the fingerprints of its owner's description. Each names one certificate that the
// owner may use.
func verify(der [][]byte, fingerprints []nethernet.Fingerprint) error {
	if len(der) == 0 {
		return errFingerprint
	}
	for _, f := range fingerprints {
		if hash, ok := hashes[strings.ToLower(f.Algorithm)]; ok {
			sum := hash.New()
			_, _ = sum.Write(der[0]) // never fails
			if strings.EqualFold(digestText(sum.Sum(nil)), f.Digest) {
				return nil
			}
		}
	}
	return errFingerprint
}

func digestText(sum []byte) string {
	return strings.ReplaceAll(fmt.Sprintf("% X", sum), " ", ":")
}
