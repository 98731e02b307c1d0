package admission

import (
	"net/netip"

	"tidegate/codec"
	"tidegate/ratelimit"
)

// Amplification bounds the bytes to an unproved address, as a multiple of the bytes from it. So an attacker that
// forges the address cannot use the proxy to flood it (RFC 9000, section 8.1).
const Amplification = 3

// headersV4 and headersV6 are the sizes of IP and UDP headers, in bytes. A game's datagram can have a payload of one
// byte. Then the headers are most of the traffic, for a victim and for an attacker.
const (
	headersV4 = 20 + 8
	headersV6 = 40 + 8
)

// Trust is the client's proof of its address, and the bound on the bytes to it until then.
type Trust struct {
	Proof    codec.Proof
	Answered bool             // the client has answered, as far as its protocol can show it
	Guessed  bool             // a forger can guess the answer, so it lifts no bound
	Unbound  bool             // no bound: the client has given proof, or is in a trusted network
	Credit   int              // bytes on the wire that may still be sent without a bucket
	Bucket   ratelimit.Bucket // bytes beyond credit, for protocols without a proof by all clients
}

// MayBeSilent reports whether honest clients may play without ever proving their address.
func (t *Trust) MayBeSilent() bool { return t.Proof == codec.NoProof || t.Proof == codec.ProvedEcho }

// Review takes in what a client's datagram has shown, and reports whether it is the client's first answer. proved says
// that the client has proved its address, up that it is connected, and heard that it was connected before the datagram
// and its connection has accepted the datagram. A protocol without proof has no better sign.
func (t *Trust) Review(proved, up, heard bool) bool {
	if proved {
		t.Unbound = true
	}
	if t.Answered || !proved && !heard && (!up || t.MayBeSilent()) {
		return false
	}
	t.Answered = true
	t.Unbound = t.Unbound || !t.MayBeSilent() && !t.Guessed
	return true
}

// WireSize returns the size of a peer's datagram on the wire in bytes, with IP and UDP headers.
func WireSize(peer netip.AddrPort, payload int) int {
	if a := peer.Addr(); a.Is4() || a.Is4In6() {
		return payload + headersV4
	}
	return payload + headersV6
}

// Owe adds credit for a datagram from the client.
func (t *Trust) Owe(client netip.AddrPort, size int) {
	if !t.Unbound {
		t.Credit += Amplification * WireSize(client, size)
	}
}

// Spend reports whether a datagram may go to the client, and takes its bytes from the credit.
func (t *Trust) Spend(client netip.AddrPort, size int) bool {
	if t.Unbound {
		return true
	}
	weight := WireSize(client, size)
	if weight > t.Credit {
		return false
	}
	t.Credit -= weight
	return true
}

// ProofOf returns how clients of a protocol prove their address. The handshake of a stream is a proof by itself.
func ProofOf(p codec.Protocol, stream bool) codec.Proof {
	if stream {
		return codec.ProvedAccept
	}
	return p.Spec().Proof
}
