package admission

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"tidegate/codec"
	"tidegate/internal/source"
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
	Proof    codec.Proof      `cbor:"1,keyasint,omitempty"`
	Answered bool             `cbor:"2,keyasint,omitempty"` // the client has answered, as far as its protocol can show it
	Guessed  bool             `cbor:"3,keyasint,omitempty"` // a forger can guess the answer, so it lifts no bound
	Unbound  bool             `cbor:"4,keyasint,omitempty"` // the client has given proof, or is in a trusted network
	Credit   int              `cbor:"5,keyasint,omitempty"` // bytes on the wire that may still be sent without a bucket
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

// Unproved bounds the bytes to clients that cannot prove their address, or have not yet. Three times the bytes that a
// client sent are free. Beyond that the bounds are bytes per second on the wire, headers included, of all Relays
// together. If Overall is 0, nothing is bounded.
type Unproved struct {
	Session int // to one client
	Network int // to the clients of one network: IPv4 /24, IPv6 /48
	Overall int
	// Trusted are networks whose addresses cannot be forged. Their clients have no bound.
	Trusted []netip.Prefix
}

// Trusts reports whether an address is in a trusted network.
func (u *Unproved) Trusts(a netip.Addr) bool {
	return slices.ContainsFunc(u.Trusted, func(p netip.Prefix) bool { return p.Contains(a.Unmap()) })
}

// grant is the number of bytes that a session takes from the Allowance at once. So few datagrams wait for its lock.
// The part that a session leaves unused is lost.
const grant = 4 << 10

// Allowance is the number of bytes that may go to clients without proof of their address. All Relays share it, since
// the clients of one network can be at several Relays. Its memory is fixed. Networks can share a bucket by chance:
// that makes the Allowance stricter, never laxer.
type Allowance struct {
	born     time.Time
	mu       sync.Mutex
	networks *ratelimit.HashedBuckets
	overall  ratelimit.Bucket
}

// NewAllowance returns a full Allowance. The seed decides which networks share a bucket. Strangers should not know
// it.
func NewAllowance(now time.Time, seed uint64) *Allowance {
	return &Allowance{born: now, networks: ratelimit.NewHashedBuckets(seed)}
}

// Born returns the time from which on the buckets of Trusts count.
func (a *Allowance) Born() time.Time { return a.born }

// Spend reports whether a datagram may go to a client that has no credit left. size is in bytes, without headers.
func (a *Allowance) Spend(now time.Time, u *Unproved, t *Trust, client netip.AddrPort, size int) bool {
	if u.Overall == 0 {
		return true
	}
	weight := WireSize(client, size)
	amount := max(weight, min(grant, u.Session))
	at := now.Sub(a.born)
	if !t.Bucket.Take(at, rateOf(u.Session), amount) || !a.take(at, u, client.Addr(), amount) {
		return false
	}
	t.Credit += amount - weight
	return true
}

// take takes bytes from the buckets of an address.
func (a *Allowance) take(now time.Duration, u *Unproved, from netip.Addr, n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	network := a.networks.Of(source.Of(from).Network())
	return network.Take(now, rateOf(u.Network), n) && a.overall.Take(now, rateOf(u.Overall), n)
}

// rateOf returns a rate that lets the bytes of one second pass at once.
func rateOf(perSecond int) ratelimit.Rate {
	return ratelimit.Rate{PerSecond: perSecond, Burst: perSecond}
}

// Clients and strangers wait in one receive buffer of the kernel. It holds about 2,700 small datagrams, or 960 with a
// network card that uses a page for each. A full buffer drops both alike. So the loop must empty it faster than it
// fills. When the loop has read more than mostBacklog datagrams without finding the buffer empty, it reads strangers
// and drops them. It still handles one in heardOf, which may be honest. Such a drop costs a fifth of an answer. Where
// the kernel has a gate for strangers, their datagrams never reach the loop.
const (
	someBacklog = 256 // a loop with more datagrams to read at once is behind
	mostBacklog = 512
	heardOf     = 8 // beyond mostBacklog, one stranger's datagram in so many is handled
)

// Backlog measures how far a loop is behind with reading. A backend that never reports an empty buffer gives no
// measure.
type Backlog struct {
	// Lossy is the time until which a full buffer may have lost clients' datagrams.
	Lossy time.Time

	tells bool
	told  bool // the drops of this flood were reported
	read  int  // clients' datagrams since the buffer was empty
}

// LossyFor is how long clients may suffer from a buffer that was full: until the lost datagrams have been sent again.
const LossyFor = 5 * time.Second

// Drained notes that nothing is left to read.
func (b *Backlog) Drained() { *b = Backlog{tells: true, Lossy: b.Lossy} }

// Count counts a client's datagram. With so many to read, the buffer may have been full.
func (b *Backlog) Count(now time.Time) {
	if b.read++; b.Overrun() {
		b.Lossy = now.Add(LossyFor)
	}
}

// Excuse tells a client's connection to ignore losses that our own full receive buffer may have caused.
func (b *Backlog) Excuse(now time.Time, client codec.Conn) {
	if now.Before(b.Lossy) {
		if e, ok := client.(codec.LossTolerant); ok {
			e.TolerateLoss(b.Lossy)
		}
	}
}

// Behind reports whether more datagrams waited than a loop that keeps up ever has.
func (b *Backlog) Behind() bool { return b.tells && b.read > someBacklog }

// Overrun reports whether more datagrams waited than the kernel's gate would ever let strangers send.
func (b *Backlog) Overrun() bool { return b.tells && b.read > mostBacklog }

// Sheds reports whether a stranger's datagram, if it was the last one read, is dropped.
func (b *Backlog) Sheds() bool { return b.Overrun() && b.read%heardOf != 0 }

// Tell reports whether the next drop of a stranger's datagram is the first one of this flood. Only the first one is
// logged as any drop is.
func (b *Backlog) Tell() bool {
	first := !b.told
	b.told = true
	return first
}
