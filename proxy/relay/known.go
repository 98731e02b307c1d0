package relay

import (
	"net/netip"

	"tidegate/codec"
	"tidegate/internal/kernel/shield"
)

// known tells the kernel's gate and the fleet which clients are not strangers.
type known struct {
	gate    *shield.Gate // before the listeners' sockets; nil: none
	players *Players     // shared with its siblings
	loop    int          // of the Relay
	changes uint64       // number of changes of the known clients
	count   int          // of known clients
}

// seesClients reports whether the listener's datagrams come from the clients' own addresses: by UDP, and by no proxy.
func (l *listener) seesClients() bool { return !l.stream && l.proxies == nil }

// add notes that a client of a listener is no longer a stranger. Where no filter sees the client's own address, it
// does nothing.
func (k *known) add(l *listener, client netip.AddrPort) {
	if l.seesClients() {
		k.count++
		k.meet(l, client)
	}
}

// meet is add for another address of a known client.
func (k *known) meet(l *listener, at netip.AddrPort) {
	if l.seesClients() {
		k.changes++
		k.gate.Know(at, l.port)
		k.players.opened(l.id, at, k.loop)
	}
}

// remove notes that a known client has left.
func (k *known) remove(l *listener, client netip.AddrPort) {
	if l.seesClients() {
		k.count--
		k.leave(l, client)
	}
}

// leave is remove for another address of a known client.
func (k *known) leave(l *listener, at netip.AddrPort) {
	if l.seesClients() {
		k.changes++
		k.gate.Forget(at, l.port)
		k.players.closed(l.id, at, k.loop)
	}
}

// proved reports whether the client has proved its address.
func (s *link) proved() bool {
	switch s.trust.Proof {
	case codec.ProvedAccept:
		return true
	case codec.ProvedConnect:
		return s.client.up
	case codec.ProvedClientID:
		return s.client.up && s.origin == ownID // servers choose their own IDs in order from 1
	case codec.ProvedEcho:
		echoer, ok := s.client.Conn.(codec.Echoer)
		return ok && echoer.Proved()
	}
	return false
}

// reviewTrust checks whether the client has answered by now. heard says that the client was connected, and its
// connection has just accepted a datagram from it. The result is true if the client has answered just now.
func (t sessionTable) reviewTrust(e *Entry, k *known, heard bool) bool {
	s := &e.Value
	if !s.trust.Review(s.proved(), s.client.up, heard) {
		return false
	}
	t.Prove(e)
	k.add(s.listener, e.Key.Client)
	t.settleDown(e)
	return true
}

// settleDown marks a session as established in the table once both sides are connected and the client has answered.
// Where the protocol has no proof, a forged client can seem connected.
func (t sessionTable) settleDown(e *Entry) {
	s := &e.Value
	if s.trust.Answered && s.client.up && s.upstream.up && !s.life.isEnding() {
		t.Establish(e)
	}
}
