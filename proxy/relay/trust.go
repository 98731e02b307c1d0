package relay

import (
	"net/netip"

	"tidegate/codec"
	"tidegate/ratelimit"
)

// amplification bounds the bytes to an unproved address, as a multiple of the bytes from it. So an attacker that
// forges the address cannot use the proxy to flood it (RFC 9000, section 8.1).
const amplification = 3

// headersV4 and headersV6 are the sizes of IP and UDP headers, in bytes. A game's datagram can have a payload of one
// byte. Then the headers are most of the traffic, for a victim and for an attacker.
const (
	headersV4 = 20 + 8
	headersV6 = 40 + 8
)

// trust is the client's proof of its address, and the bound on the bytes to it until then.
type trust struct {
	proof    codec.Proof
	answered bool             // the client has answered, as far as its protocol can show it
	guessed  bool             // a forger can guess the answer, so it lifts no bound
	unbound  bool             // no bound: the client has given proof, or is in a trusted network
	credit   int              // bytes on the wire that may still be sent without a bucket
	bucket   ratelimit.Bucket // bytes beyond credit, for protocols without a proof by all clients
}

// mayBeSilent reports whether honest clients may play without ever proving their address.
func (t *trust) mayBeSilent() bool { return t.proof == codec.NoProof || t.proof == codec.ProvedEcho }

// wireSize returns the size of a peer's datagram on the wire.
func wireSize(peer netip.AddrPort, payload int) int {
	if a := peer.Addr(); a.Is4() || a.Is4In6() {
		return payload + headersV4
	}
	return payload + headersV6
}

// owe adds credit for a datagram from the client.
func (t *trust) owe(client netip.AddrPort, size int) {
	if !t.unbound {
		t.credit += amplification * wireSize(client, size)
	}
}

// spend reports whether a datagram may go to the client, and takes its bytes from the credit.
func (t *trust) spend(client netip.AddrPort, size int) bool {
	if t.unbound {
		return true
	}
	weight := wireSize(client, size)
	if weight > t.credit {
		return false
	}
	t.credit -= weight
	return true
}

// proofOf returns how clients of a protocol prove their address. The handshake of a stream is a proof by itself.
func proofOf(p codec.Protocol, stream bool) codec.Proof {
	if stream {
		return codec.ProvedAccept
	}
	return p.Spec().Proof
}

// guessable reports whether a forger can guess what a client of a protocol answers on a route: the client ID of a
// Riptide server, since servers count their IDs up from 1.
func (r *Route) guessable(p codec.Protocol, stream bool) bool {
	return proofOf(p, stream) == codec.ProvedClientID && r.keepsClientIDs(p)
}
