package proxy

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
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

// spendMore reports whether a datagram may go to a client beyond its credit. A client that may never prove its
// address plays within an allowance. Riptide repeats a lost Welcome. This repetition counts as an answer to a
// stranger, like a pong. The client waits for it in silence, and so earns no credit.
func (p *session) spendMore(now time.Time, a *Allowance, bound *Unproved, client netip.AddrPort, size int) bool {
	switch {
	case p.trust.mayBeSilent():
		return a.spend(now, bound, &p.trust, client, size)
	case p.trust.proof == codec.ProvedClientID:
		return p.listener.mayAnswer(now, client)
	}
	return false
}

// sendToClient sends a datagram to a session's client, within the bounds of trust.
func (o *outlet) sendToClient(now time.Time, e *entry, datagram []byte) {
	p, client := &e.Value, e.Key.Client
	size := len(datagram) - p.via.headerLen()
	if !p.trust.spend(client, size) && !p.spendMore(now, o.allowance, o.unproved, client, size) {
		o.drops.add(now, dropped{stats.DropUnproved, p.listener, client, len(datagram), nil})
		return
	}
	o.counters.Clients.Out.Count(datagram)
	o.Send(p.face, p.via.to(client), datagram)
}

// reviewTrust checks whether the client has answered by now. heard says that the client was connected, and its
// connection has just accepted a datagram from it. A protocol without proof has no better sign.
func (t sessionTable) reviewTrust(e *entry, k *known, heard bool) {
	p := &e.Value
	proved := p.proved()
	if proved {
		p.trust.unbound = true
	}
	if p.trust.answered || !proved && !heard && (!p.client.up || p.trust.mayBeSilent()) {
		return
	}
	p.trust.answered = true
	p.trust.unbound = p.trust.unbound || !p.trust.mayBeSilent()
	t.Prove(e)
	k.add(p.listener, e.Key.Client)
	t.settleDown(e)
}

// settleDown marks a session as established in the table once both sides are connected and the client has answered.
// Where the protocol has no proof, a forged client can seem connected.
func (t sessionTable) settleDown(e *entry) {
	p := &e.Value
	if p.trust.answered && p.client.up && p.upstream.up && !p.ending {
		t.Establish(e)
	}
}

// proved reports whether the client has proved its address.
func (p *session) proved() bool {
	switch p.trust.proof {
	case codec.ProvedAccept:
		return true
	case codec.ProvedConnect:
		return p.client.up
	case codec.ProvedClientID:
		return p.client.up && p.ownsID // servers choose their own IDs in order from 1
	case codec.ProvedEcho:
		echoer, ok := p.client.Conn.(codec.Echoer)
		return ok && echoer.Proved()
	}
	return false
}

// proofOf returns how clients of a protocol prove their address. The handshake of a stream is a proof by itself.
func proofOf(p codec.Protocol, stream bool) codec.Proof {
	if stream {
		return codec.ProvedAccept
	}
	return p.Spec().Proof
}
