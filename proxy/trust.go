package proxy

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// amplification is how many times the bytes that an unproved address sent it may be sent: whoever forges it must not
// have us flood it (RFC 9000, section 8.1).
const amplification = 3

// What a datagram weighs on the wire beside its payload, in bytes: IP and UDP headers. Where games' datagrams are of
// one byte, these are the most of it, for a victim as for an attacker.
const (
	headersV4 = 20 + 8
	headersV6 = 40 + 8
)

// trust is what a session's client has shown of its address being its own, and what it may be sent until it has.
type trust struct {
	proof    codec.Proof
	answered bool             // it has answered us, as far as its protocol can show it
	unbound  bool             // it may be sent whatever there is: it has answered with a proof, or is of a trusted network
	credit   int              // bytes on the wire that it may be sent until then
	bucket   ratelimit.Bucket // of what it may be sent beyond, where its protocol has no proof that all clients give
}

// mayBeSilent reports whether players may never say what would prove their address. They play all the same.
func (t *trust) mayBeSilent() bool { return t.proof == codec.NoProof || t.proof == codec.ProvedEcho }

// wireSize is what a datagram of a peer weighs on the wire.
func wireSize(peer netip.AddrPort, payload int) int {
	if a := peer.Addr(); a.Is4() || a.Is4In6() {
		return payload + headersV4
	}
	return payload + headersV6
}

// owe notes a datagram from the client.
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

// spendMore reports whether a datagram may go to a client beyond its credit. One that may never prove its address plays
// within an allowance. A Welcome that Riptide repeats because it was lost is an answer to a stranger like a pong: the
// client, once it knows that it is heard, waits for it without a word that would earn credit.
func (p *session) spendMore(now time.Time, a *Allowance, bound *Unproved, client netip.AddrPort, size int) bool {
	switch {
	case p.trust.mayBeSilent():
		return a.spend(now, bound, &p.trust, client, size)
	case p.trust.proof == codec.ProvedClientID:
		return p.listener.mayAnswer(now, client)
	}
	return false
}

// sendToClient writes a datagram to a session's client, unless that has not proved its address and was sent enough.
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

// reviewTrust looks whether the client has answered by now. heard is whether it has just sent something that its
// connection, once connected, accepted: the most that a protocol without proof has.
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

// settleDown takes an established session out of the half-open ones, once its client has answered: one of a forged
// address may seem established where the protocol has no proof.
func (t sessionTable) settleDown(e *entry) {
	p := &e.Value
	if p.trust.answered && p.client.up && p.upstream.up && !p.ending {
		t.Establish(e)
	}
}

// proved reports whether the client has shown beyond doubt that its address is its own.
func (p *session) proved() bool {
	switch p.trust.proof {
	case codec.ProvedAccept:
		return true
	case codec.ProvedConnect:
		return p.client.up
	case codec.ProvedClientID:
		return p.client.up && p.ownsID // servers count theirs up from 1
	case codec.ProvedEcho:
		echoer, ok := p.client.Conn.(codec.Echoer)
		return ok && echoer.Proved()
	}
	return false
}

// proofOf is how a protocol's clients prove their address. One who has a stream has done so by the stream's handshake.
func proofOf(p codec.Protocol, stream bool) codec.Proof {
	if stream {
		return codec.ProvedAccept
	}
	return p.Spec().Proof
}
