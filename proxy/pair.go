package proxy

import (
	"errors"
	"time"

	"tidegate/codec"
	"tidegate/internal/filter"
	"tidegate/internal/netio"
	"tidegate/internal/upstream"
	"tidegate/session"
)

// entry is a session in the table of a Relay.
type entry = session.Entry[pair]

// pair is what a session is: a client-side connection and an upstream-side one, and how messages cross.
type pair struct {
	door   *door
	route  *route
	bridge *bridge
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
	blame     Party // whose end it was

	// Beside the others of a byte, so that a session takes no more memory than it must.
	established bool // both sides were connected, once
	ahead       bool // the server is asked before the client has said all of its Hello
	waits       bool // in path's line
	searches    bool // fragments to server are forbidden yet

	serial    SessionID
	tally     *Tally
	sampleDue time.Duration // of the Relay's life: when it is sampled again
	askedAt   time.Duration // of the Relay's life: when server was asked to take the session
}

// side is one of a pair's two connections.
type side struct {
	conn  codec.Conn // nil while there is none
	up    bool       // Connected
	down  bool       // Disconnected
	keeps bool       // what is sent to the peer reliably is kept until it was delivered
	away  bool       // there is no peer for a while: what is to be sent to it is kept

	pressure codec.Pressure // on the peer

	sampled sampled

	in    Traffic    // received from the peer and sent on
	order order      // of what is sent to the peer
	kept  resends    // of what is sent to the peer
	joint *aggregate // of what is sent to the peer; nil until there is one
}

// live reports whether the side has a connection that has not ended.
func (s *side) live() bool { return s.conn != nil && !s.down }

// takes reports whether messages may be sent to the side.
func (s *side) takes() bool { return s.live() || s.away }

// careFor is what is done for a message to the side that a bridge would give the care c.
func (s *side) careFor(c care, want codec.Mode) care {
	if s.away && c != careResend && want.IsReliable() || s.keeps && c == careNone && want.IsReliable() {
		return careHold
	}
	return c
}

// errAway: the message is not one that waits for a server.
var errAway = errors.New("no server at the moment")

// send gives a message to the side's connection. One that is kept waits where there is none.
func (s *side) send(now time.Time, m *codec.Message) error {
	switch {
	case !s.away:
		return s.conn.Send(now, *m)
	case m.Receipt&resendBit != 0:
		return nil
	}
	return errAway
}

// over reports whether nothing more will come of either side.
func (p *pair) over() bool { return !p.client.live() && !p.upstream.live() }
