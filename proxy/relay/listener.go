package relay

import (
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/kernel/shield"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/upstream"
	"tidegate/proxy/bridge"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// listener is the Relay's state about one Listener.
type listener struct {
	index     int       // in the keys of its sessions; never used again for another listener
	born      time.Time // the Relay's
	name      string
	id        uint64         // for the fleet
	arriving  string         // the node at which the last client's datagram has arrived; empty: here
	movedAt   time.Time      // when the first client's datagram arrived there, and none elsewhere since
	addr      netip.AddrPort // as in the settings
	transport Transport
	stream    bool // each client has a socket of its own
	entries   []protocolEntry
	route     *route

	drops   *stats.DropTally
	answers *ratelimit.Budget // nil: not bounded
	pong    *Pong             // nil: none
	queries *Queries          // nil: none
	port    uint16            // the port of clients' datagrams

	proxies *trustedProxies // nil: no trusted proxies
	joins   *joinTable      // of NetherNet clients; nil: none come here
	stacks  Stacks          // of NetherNet clients on a route in ModeTerminate; else nil
	first   shield.FirstBytes

	idle        time.Duration // how long its clients may be silent; 0: as long as the settings say
	forwardable bool          // a Forwarder may forward its sessions

	socket   netio.Socket
	sessions int
	retired  bool // removed from the settings: it takes no new clients
}

// protocolEntry is one protocol of a listener.
type protocolEntry struct {
	protocol  codec.Protocol
	bridge    *bridge.Bridge
	tally     *stats.Tally
	proof     codec.Proof // of its clients' addresses
	guessed   bool        // a forger can guess their answer
	asksFirst bool        // the server is asked before a client is granted its connection
}

// listenerKey identifies a listener over reloads.
type listenerKey struct {
	addr      netip.AddrPort // as in the settings
	transport Transport
}

func (l *Listener) key() listenerKey { return listenerKey{l.Addr, l.Transport} }

// listenersByKey finds the listeners of a Relay. Of two with the same key, it has the first.
func listenersByKey(all ...[]*listener) map[listenerKey]*listener {
	found := make(map[listenerKey]*listener, len(all[0]))
	for _, l := range slices.Concat(all...) {
		if key := (listenerKey{l.addr, l.transport}); found[key] == nil {
			found[key] = l
		}
	}
	return found
}

// entryOf returns the listener's entry of a protocol, or nil.
func (l *listener) entryOf(p codec.Protocol) *protocolEntry {
	for i := range l.entries {
		if l.entries[i].protocol == p {
			return &l.entries[i]
		}
	}
	return nil
}

// protocolNamed returns the listener's protocol with a name, or nil.
func (l *listener) protocolNamed(name string) codec.Protocol {
	for i := range l.entries {
		if l.entries[i].protocol.Spec().Name == name {
			return l.entries[i].protocol
		}
	}
	return nil
}

// pinger returns the listener's first protocol with server lists, or nil.
func (l *listener) pinger() codec.Pinger {
	for i := range l.entries {
		if p, ok := l.entries[i].protocol.(codec.Pinger); ok {
			return p
		}
	}
	return nil
}

// retiredListeners are removed UDP listeners that still have sessions.
type retiredListeners struct {
	list     []*listener
	deserted func() // called when a retired listener has lost its last session
}

// retire takes removed listeners out of service. A UDP socket still serves its sessions, and a reload can put the
// listener back. Streams that a listener has accepted live on without its socket.
func (l *retiredListeners) retire(gone []*listener) {
	l.list = gone
	for _, one := range gone {
		one.retired = true
	}
	l.list = slices.DeleteFunc(l.list, func(one *listener) bool {
		if one.stream {
			one.socket.Close()
		}
		return one.stream
	})
	if slices.ContainsFunc(l.list, func(one *listener) bool { return one.sessions == 0 }) {
		l.deserted()
	}
}

// left notes that a session of a listener has ended.
func (l *retiredListeners) left(listener *listener) {
	listener.sessions--
	if listener.retired && !listener.stream && listener.sessions == 0 {
		l.deserted()
	}
}

// empty returns the indexes of the retired listeners without sessions.
func (l *retiredListeners) empty() map[int]bool {
	indexes := make(map[int]bool)
	for _, listener := range l.list {
		if listener.sessions == 0 {
			indexes[listener.index] = true
		}
	}
	return indexes
}

// close closes the sockets of retired listeners, at most most of them. It reports whether others are left.
func (l *retiredListeners) close(indexes map[int]bool, most int) (more bool) {
	l.list = slices.DeleteFunc(l.list, func(one *listener) bool {
		if !indexes[one.index] {
			return false
		}
		if most--; most < 0 {
			more = true
			return false
		}
		one.socket.Close()
		return true
	})
	return more
}

// route is a Route with the state that a Relay needs for it.
type route struct {
	*Route
	speaks codec.Protocol // the upstream's protocol, as this Relay's instance
	pool   *upstream.Pool
	ids    *clientIDs
	// modules are nil at a route that the settings no longer have.
	modules *modules
}

// mostTries is how many servers a client may be sent to before it is refused. More servers would have no time to
// answer.
func (r *route) mostTries() int { return min(len(r.pool.Servers()), 4) }

// mayTry reports whether a client that was sent to so many servers has time for another one.
func (r *route) mayTry(tries uint16) bool { return int(tries) < r.mostTries() }

// sniff finds the protocol of a first datagram, or returns nil.
func (l *listener) sniff(datagram []byte) *protocolEntry {
	for i := range l.entries {
		if l.entries[i].protocol.Sniff(datagram) {
			return &l.entries[i]
		}
	}
	if l.route.Mode == policy.ModeRelay {
		return l.opaque(datagram)
	}
	return nil
}

// opaque finds the protocol of a first datagram whose client compresses, or returns nil.
func (l *listener) opaque(datagram []byte) *protocolEntry {
	for i := range l.entries {
		if p, ok := l.entries[i].protocol.(codec.Opaque); ok && p.SniffOpaque(datagram) {
			return &l.entries[i]
		}
	}
	return nil
}

// mayAnswer takes an answer from the budget for answers that can amplify an attack.
func (l *listener) mayAnswer(now time.Time, from netip.AddrPort) bool {
	return l.answers == nil || l.answers.Allow(now, from.Addr())
}

// via returns the trusted proxy that a session uses from now on. so is the one until now. Nil means none.
func (l *listener) via(so *trustedProxy) *trustedProxy {
	if l.proxies == nil || !l.proxies.at.addr.IsValid() {
		return so
	}
	if so != nil && *so == l.proxies.at {
		return so
	}
	at := l.proxies.at
	return &at
}

// locals are one Relay's instances of the settings' protocols. The connections of an instance share memory with each
// other only.
type locals map[codec.PerLoop]codec.Protocol

// of returns the Relay's own instance of a protocol.
func (l locals) of(p codec.Protocol) codec.Protocol {
	shared, ok := p.(codec.PerLoop)
	if !ok {
		return p
	}
	if l[shared] == nil {
		l[shared] = shared.ForLoop()
	}
	return l[shared]
}

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
