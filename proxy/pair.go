package proxy

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/filter"
	"tidegate/internal/netio"
	"tidegate/internal/upstream"
	"tidegate/proxy/bridge"
	"tidegate/proxy/stats"
	"tidegate/session"
)

// entry is a session in the table of a Relay.
type entry = session.Entry[pair]

// pair is what a session is: a client-side connection and an upstream-side one, and how messages cross.
type pair struct {
	door   *door
	route  *route
	bridge *bridge.Bridge
	face   netio.Socket // towards the client: the listener's, or the client's own stream

	via *front // by which the client comes; nil: by itself

	client, upstream side
	protocol         codec.Protocol // the client's

	server   *upstream.Server // nil while none is chosen
	socket   netio.Socket     // towards server; nil while there is none
	path     *path            // to server, if sessions share a choice or a bound there
	preamble preamble         // of datagrams to server
	earlier  *earlier         // sockets from which server was asked before; nil: none
	refused  int32            // refusals by the server's host since its last datagram
	tries    int32            // servers dialled so far
	dialBy   time.Time        // when server is given up if it has said nothing; zero once it has
	hello    codec.Hello      // the client's, for every server that it is sent to
	gap      *gap             // while another server is sought; else nil

	company company // that the server has told the client of

	admitted bool   // the client was told that it may join
	id       uint16 // the client ID it was told
	ownsID   bool   // id is the Relay's, not the upstream's

	rates filter.Memory // of rules about messages
	trust trust
	meter meter

	opened  time.Time
	heard   time.Time // when the client last sent a datagram
	expires time.Time // when the session is given up; moves with heard once established
	ending  bool      // both sides have been told to close
	dirty   bool      // waits for the next Flush
	// forgotten: it is not in the table any more, and may still be on the list for the next Flush.
	forgotten bool
	why       codec.Reason
	blame     stats.Party // whose end it was

	// Beside the others of a byte, so that a session takes no more memory than it must.
	established bool // both sides were connected, once
	ahead       bool // the server is asked before the client has said all of its Hello
	waits       bool // in path's line
	searches    bool // fragments to server are forbidden yet

	serial    SessionID
	tally     *stats.Tally
	sampleDue time.Duration // of the Relay's life: when it is sampled again
	askedAt   time.Duration // of the Relay's life: when server was asked to take the session
}

// side is one of a pair's two connections.
type side struct {
	bridge.Sender
	up       bool           // Connected
	pressure codec.Pressure // on the peer
	sampled  stats.Sampled
	in       stats.Traffic // received from the peer and sent on
}

// over reports whether nothing more will come of either side.
func (p *pair) over() bool { return !p.client.Live() && !p.upstream.Live() }
