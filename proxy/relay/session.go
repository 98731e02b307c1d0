package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/filter"
	"tidegate/internal/kernel/flow"
	"tidegate/internal/netio"
	"tidegate/internal/upstream"
	"tidegate/proxy/bridge"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/stats"
	"tidegate/session"
)

// Entry is a session in the table of a Relay.
type Entry = session.Entry[link]

// sessionTable has the sessions of a Relay. Get returns sessions that are whole: an imported one is restored before its
// first use. A session by its socket must be asked for isWhole.
type sessionTable struct {
	*session.Table[link]
	complete func(now time.Time, e *Entry) bool
}

// Get returns a session, or nil.
func (t sessionTable) Get(now time.Time, key session.Key) *Entry {
	if e := t.Table.Get(key); e != nil && t.isWhole(now, e) {
		return e
	}
	return nil
}

// peek returns a session that need not be whole, or nil.
func (t sessionTable) peek(key session.Key) *Entry { return t.Table.Get(key) }

// isWhole reports whether a session is restored, or can be.
func (t sessionTable) isWhole(now time.Time, e *Entry) bool {
	return !e.Value.isPending() || t.complete(now, e)
}

// link is the Relay's state about one session: its connections, or the sockets of a relayed one. Most sessions on a
// busy proxy can be idle relayed ones, so their size decides about the fields here and in relayed.
type link struct {
	listener *listener
	route    *route
	protocol codec.Protocol   // the client's; if relayed, the one whose Sniff accepted the client
	face     netio.Socket     // to the client: the listener's socket, or the client's own
	via      *trustedProxy    // the client's trusted proxy; nil: none
	server   *upstream.Server // nil while none is chosen
	socket   netio.Socket     // to server; nil while there is none
	path     *path            // to server, if sessions share a choice or a bound there
	preamble *preamble        // before datagrams to server; nil: none

	serial session.ID
	tally  *stats.Tally
	meter  admission.Meter

	opened, heard time.Duration // since the Relay's start; heard is when the client last sent an accepted datagram
	spared        time.Duration // Relay.stood when spare was called last
	// Traffic of the client and the server. It counts messages, or datagrams if the session is relayed.
	fromClient, fromServer stats.Traffic

	refusedFrom time.Duration // time since the Relay's start of the first refusal that counts
	tries       uint16        // servers dialled so far
	refused     uint8         // refusals by the server's host since its last datagram, up to the constant refusals
	life        life
	answered    bool       // the server has answered, if relayed. It is here so that relayed needs no padding.
	copied      uint8      // the round of the pre-copy that has written the session as it is; 0: none
	refusedAt   uint16     // refusedBy of the Forwarder's changes when it refused the session; 0: it has not
	gate        codec.Gate // of a relayed client

	*terminated // nil if relayed
	relayed
}

// terminated is the part of a session whose protocols end in the proxy. It has a client-side connection, an
// upstream-side connection, and the bridge between them.
type terminated struct {
	// Each message needs this, down to upstream.
	bridge           *bridge.Bridge
	pending          *pending      // the part of an imported session that is not restored yet; nil: none
	hold             *hold         // while life.isHeld; else nil
	dirty            bool          // is on the list for the next Flush
	touched          sides         // had an input since the last Flush
	choked           bool          // more is queued than a limit allows
	waits            bool          // in path's line
	searches         bool          // routers may not fragment datagrams to server yet
	dialBy           time.Time     // when a silent server is given up; zero once it has answered
	expires          time.Time     // when the session is given up; moves with heard once established
	call             *call         // the connection to a NetherNet server; nil: none
	stack            *clientStack  // of a NetherNet client; nil: none
	sampleDue        time.Duration // time since the Relay's start of the next sample
	trust            admission.Trust
	holding          admission.Holding
	client, upstream side

	earlier      *earlier      // earlier sockets to server; nil: none
	hello        codec.Hello   // the client's, for every server that is dialled
	knownClients knownClients  // clients that the server has announced to the client
	rates        filter.Memory // state of rules about messages
	kept         keptBytes     // by modules
	resent       uint64        // messages sent again, as of the last Flush with a far face
	askedAt      time.Duration // time since the Relay's start when server was asked

	id     uint16 // the client ID that the client has
	origin origin
	why    codec.Reason
	blame  stats.Party // the party that ended it
}

// relayed is the part of a session in ModeRelay. Datagrams of the client and the server pass unchanged. The session
// is established when the server has answered and the client has sent again. That shows at least that the client
// hears answers. The session ends by silence, or when the server's host refuses datagrams.
// Deadlines are lazy. A datagram only notes the time, and the table looks at that time when the last deadline comes.
type relayed struct {
	shortcut *shortcut        // nil: all datagrams reach user space
	edge     *edge            // of a NetherNet client; else nil
	surplus  *admission.Trust // bounds the bytes to a client without proof, beyond its own; nil: not needed
}

// isRelayed reports whether the session's datagrams pass unchanged.
func (s *link) isRelayed() bool { return s.terminated == nil }

// isKnown reports whether the client has answered, so that it is not a stranger.
func (s *link) isKnown() bool {
	if s.isRelayed() {
		return s.life == joined
	}
	return s.trust.Answered
}

// side is one of a terminated session's two connections.
type side struct {
	bridge.Sender
	up       bool           // Connected
	pressure codec.Pressure // on the peer
	due      time.Time      // the connection's next timeout, as of the last Flush
	weight   weight
	sampled  stats.Sampled
}

// over reports whether both sides have ended.
func (p *terminated) over() bool { return !p.client.Live() && !p.upstream.Live() }

// marked has the sessions that the next Flush visits.
type marked []*Entry

// mark puts a session on the list for the next Flush.
func (l *marked) mark(e *Entry) { l.markSides(e, bothSides) }

// markSides is mark for a session of which only some sides had an input.
func (l *marked) markSides(e *Entry, touched sides) {
	e.Value.touched |= touched
	if !e.Value.dirty {
		e.Value.dirty, e.Value.copied = true, 0
		*l = append(*l, e)
	}
}

// earlier are the earlier sockets of a session to its server, the first one first. They stay open until the session
// is connected. So the next socket gets another address, also where sockets are shared.
type earlier struct {
	sockets  []netio.Socket
	preamble *preamble // of the first socket
	back     bool      // the session uses the first socket again
}

// shortcut is a session's flow in a Forwarder.
type shortcut struct {
	flow    flow.Flow
	counted flow.Traffic // forwarded traffic that the session's Traffic includes
	changes uint64       // the Forwarder's changes when the flow was added
}
