package proxy

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/filter"
	"tidegate/internal/netio"
	"tidegate/internal/upstream"
	"tidegate/proxy/bridge"
	"tidegate/proxy/stats"
	sessions "tidegate/session"
)

// entry is a session in the table of a Relay.
type entry = sessions.Entry[session]

// sessionTable has the sessions of a Relay.
type sessionTable struct{ *sessions.Table[session] }

// session is what a Relay knows of one client. It is terminated or relayed. Idle relayed sessions are the most numerous
// ones, so their size decides about the fields here and in relayed.
type session struct {
	listener *listener
	route    *route
	protocol codec.Protocol   // the client's; if it is relayed, the one whose Sniff let the client in
	face     netio.Socket     // towards the client: the listener's, or the client's own
	via      *trustedProxy    // by which the client comes; nil: by itself
	server   *upstream.Server // nil while none is chosen
	socket   netio.Socket     // towards server; nil while there is none
	path     *path            // to server, if sessions share a choice or a bound there
	preamble *preamble        // of datagrams to server; nil: never any

	serial SessionID
	tally  *stats.Tally
	meter  meter

	opened time.Time
	heard  time.Time // when the client last sent a datagram
	// Messages, or datagrams if it is relayed, that the client and the server have sent.
	fromClient, fromServer stats.Traffic

	tries       uint16 // servers dialled so far
	refused     uint8  // refusals by the server's host since its last datagram
	established bool   // both sides were connected, once; or the client has heard answers
	answered    bool   // by a server; of a relayed session. It is here so that relayed needs no padding.

	*terminated // nil if it is relayed
	relayed
}

// terminated is the part of a session whose protocols end here: a client-side connection and an upstream-side one, and
// how messages cross.
type terminated struct {
	bridge           *bridge.Bridge
	client, upstream side

	earlier      *earlier     // sockets from which server was asked before; nil: none
	dialBy       time.Time    // when server is given up if it has said nothing; zero once it has
	hello        codec.Hello  // the client's, for every server that it is sent to
	hold         *hold        // while another server is sought; else nil
	knownClients knownClients // that the server has told the client of

	rates   filter.Memory // of rules about messages
	trust   trust
	expires time.Time // when the session is given up; moves with heard once established

	sampleDue time.Duration // of the Relay's life: when it is sampled again
	askedAt   time.Duration // of the Relay's life: when server was asked to take the session

	id       uint16 // the client ID that the client was told
	ownsID   bool   // id is the Relay's, not the upstream's
	admitted bool   // the client was told that it may join
	ending   bool   // both sides have been told to close
	dirty    bool   // waits for the next Flush
	// forgotten: it is not in the table any more, and may still be on the list for the next Flush.
	forgotten bool
	choked    bool // more is queued than a limit lets
	ahead     bool // the server is asked before the client has said all of its Hello
	waits     bool // in path's line
	searches  bool // fragments to server are forbidden yet
	why       codec.Reason
	blame     stats.Party // whose end it was
}

// relayed is the part of a session in ModeRelay: the datagrams of a client and a server pass as they are. It is
// established when the server has answered and the client has spoken again, which shows at least that the client hears
// answers. It ends by silence alone, or when the server's host refuses datagrams.
//
// Deadlines are lazy: a datagram only notes the time, and the table looks at it when the last deadline comes.
type relayed struct {
	shortcut  *shortcut // nil: all datagrams come here
	refusedAt uint64    // one more than the Forwarder's changes when it refused the session
}

// isRelayed reports whether the session's datagrams pass as they are.
func (p *session) isRelayed() bool { return p.terminated == nil }

// isEnding reports whether goodbyes are being said.
func (p *session) isEnding() bool { return p.terminated != nil && p.ending }

// isKnown reports whether the client has answered, so that it is no stranger.
func (p *session) isKnown() bool {
	if p.isRelayed() {
		return p.established
	}
	return p.trust.answered
}

// side is one of a terminated session's two connections.
type side struct {
	bridge.Sender
	up       bool           // Connected
	pressure codec.Pressure // on the peer
	sampled  stats.Sampled
}

// over reports whether nothing more will come of either side.
func (p *terminated) over() bool { return !p.client.Live() && !p.upstream.Live() }
