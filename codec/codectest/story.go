package codectest

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"
	"time"

	"tidegate/codec"
)

// Subject is one protocol that stories are played with.
type Subject struct {
	Name string
	// New returns the protocols of the two sides of a connection.
	New func() (server, client codec.Protocol)
	// Queue bounds the bytes that may wait for the peer; zero means that the bound is unknown.
	Queue int
}

const (
	storyOps      = 150  // operations of a story
	storySteps    = 1500 // calls of Advance in a story
	storyLine     = 128  // datagrams that wait in one direction
	storyMemory   = 16   // datagrams that can be replayed
	storyExchange = 60   // rounds of an honest exchange
	storyQuiet    = 2 * time.Minute
	storySlack    = 2 * codec.MaxDatagram // a message that is being cut up may count beyond the bound of a queue
)

// errKnown are the errors that Receive may wrap.
var errKnown = []error{
	codec.ErrMalformed, codec.ErrUnexpected, codec.ErrDuplicate, codec.ErrWindow, codec.ErrLimit, codec.ErrRefused,
	codec.ErrFull, codec.ErrClosed, codec.ErrTooLarge, codec.ErrMode,
}

// A story plays one connection by the operations of an input. The target is the fuzzed side, the peer is honest. The
// story checks the contract's laws after each input.
type story struct {
	t        testing.TB
	subject  string
	now      time.Time
	server   codec.Protocol
	client   codec.Protocol
	queue    int
	target   *actor
	peer     *actor
	rest     []byte // operations that are left
	memory   [storyMemory][]byte
	recalled int
	steps    int
	scratch  []byte
	patient  bool // the server waits for an operation before it admits
}

// actor is one side of a story.
type actor struct {
	s                           *story
	name                        string
	conn                        codec.Conn
	dials                       bool
	asked, connected, over      bool
	silent                      bool     // the last Transmit round is over
	owed                        []bool   // by receipt: it has no answer yet
	line                        [][]byte // datagrams to the other side
	spare                       [][]byte
	stats                       codec.Stats
	buffer                      []byte
	received, heardReliable     int
	advancedFrom                time.Time
	granted, admitted, deferred bool
}

// newStory begins a connection. The client has dialed, and nothing has been delivered.
func newStory(t testing.TB, s Subject, dialing bool, flags byte) *story {
	st := &story{t: t, subject: s.Name, now: replayStart, queue: s.Queue, patient: flags&flagPatient != 0}
	st.server, st.client = perLoopOf(s.New())
	client, server := &actor{s: st, name: clientName, dials: true}, &actor{s: st, name: serverName}
	st.target, st.peer = server, client
	if dialing {
		st.target, st.peer = client, server
	}
	hello := codec.Hello{Data: []byte{1, 2, 3, 4}, Identity: 7, Tentative: flags&flagTentative != 0}
	if g, ok := st.client.(codec.Granter); ok && flags&flagAhead != 0 {
		client.conn = g.DialAhead(st.now, serverAddr, codec.Hello{Identity: 7})
	} else {
		client.conn = st.client.Dial(st.now, serverAddr, hello)
	}
	server.deferred = flags&flagAhead != 0
	client.drain()
	client.transmit()
	return st
}

// perLoopOf returns both protocols as one loop has them, since a proxy uses them so.
func perLoopOf(server, client codec.Protocol) (codec.Protocol, codec.Protocol) {
	if p, ok := server.(codec.PerLoop); ok {
		server = p.ForLoop()
	}
	if p, ok := client.(codec.PerLoop); ok {
		client = p.ForLoop()
	}
	return server, client
}

func (s *story) actors() [2]*actor { return [2]*actor{s.target, s.peer} }

func (s *story) other(a *actor) *actor {
	if a == s.target {
		return s.peer
	}
	return s.target
}

// deliver gives an actor a datagram, which is spoiled afterwards. A server without a connection may accept it.
func (s *story) deliver(to *actor, datagram []byte) {
	s.scratch = append(s.scratch[:0], datagram...)
	switch {
	case to.conn != nil:
		to.receive(s.scratch)
	case s.server.Sniff(s.scratch):
		s.accept(to)
	}
	for i := range s.scratch {
		s.scratch[i] = 0xee
	}
}

// accept gives the server's protocol a stranger's datagram.
func (s *story) accept(server *actor) {
	conn, reply, err := s.server.Accept(s.now, clientAddr, s.scratch, nil)
	switch {
	case err != nil && conn != nil:
		server.failf("Accept gives a Conn and the error %v", err)
	case err == nil && conn == nil && len(reply) == 0:
		server.failf("Accept gives neither Conn nor reply nor error")
	case err != nil && !errors.Is(err, codec.ErrMalformed) && !errors.Is(err, codec.ErrRefused):
		server.failf("Accept's error %v wraps neither ErrMalformed nor ErrRefused", err)
	}
	if len(reply) > 0 {
		server.send(reply)
	}
	if conn == nil {
		return
	}
	server.conn = conn
	if d, ok := conn.(codec.Deferrer); ok && server.deferred {
		d.Defer()
	}
	server.drain()
	server.transmit()
}

// pass lets time pass. Both sides do what becomes due.
func (s *story) pass(d time.Duration) {
	for end := s.now.Add(d); ; {
		next := codec.Earliest(s.target.timeout(), s.peer.timeout())
		if next.IsZero() || next.After(end) || s.steps >= storySteps {
			s.now = end
			return
		}
		if next.After(s.now) {
			s.now = next
		}
		for _, a := range s.actors() {
			if at := a.timeout(); !at.IsZero() && !at.After(s.now) {
				s.steps++
				a.advance(at)
			}
		}
	}
}

// exchange delivers everything in both directions, in order, for some rounds. It stops when both sides are silent.
func (s *story) exchange(rounds int) {
	for range rounds {
		idle := true
		for _, a := range s.actors() {
			to := s.other(a)
			for n := len(a.line); n > 0; n-- {
				idle = false
				d := a.line[0]
				a.line = a.line[1:]
				if a == s.peer {
					s.remember(d)
				}
				s.deliver(to, d)
				a.spare = append(a.spare, d[:0])
			}
		}
		if idle {
			return
		}
		s.now = s.now.Add(time.Millisecond)
	}
}

// open plays an honest handshake. The server speaks first if the client waits for that.
func (s *story) open() {
	for i := range storyExchange {
		s.exchange(storyExchange)
		client, server := s.target, s.peer
		if !client.dials {
			client, server = server, client
		}
		if client.connected && server.connected || client.over || server.over || s.steps > storySteps/2 {
			return
		}
		if i > 4 && server.conn != nil && server.admitted {
			server.say(codec.Message{Mode: lowestMode(s.server), Payload: []byte{0, 0, 0, 0, 1}})
		}
		next := codec.Earliest(client.timeout(), server.timeout())
		if next.IsZero() {
			return
		}
		s.pass(max(next.Sub(s.now), 0))
	}
}

func lowestMode(p codec.Protocol) codec.Mode {
	for m := range codec.Mode(codec.ModeCount) {
		if p.Spec().Modes.Has(m) {
			return m
		}
	}
	return 0
}

// remember keeps a genuine datagram of the peer.
func (s *story) remember(d []byte) {
	at := &s.memory[s.recalled%storyMemory]
	*at = append((*at)[:0], d...)
	s.recalled++
}

// reseal repairs the checksum of a changed datagram, if the genuine one ends with a checksum of the rest.
func reseal(genuine, changed []byte) {
	const size = 4
	if len(genuine) <= size || len(changed) <= size || !sealed(genuine) {
		return
	}
	body := changed[:len(changed)-size]
	binary.BigEndian.PutUint32(changed[len(body):], crc32.ChecksumIEEE(body))
}

func sealed(d []byte) bool {
	body := d[:len(d)-4]
	return binary.BigEndian.Uint32(d[len(body):]) == crc32.ChecksumIEEE(body)
}

// end closes the target. It must disconnect within a bounded time, answer every receipt and fall silent.
func (s *story) end() {
	a := s.target
	if a.conn == nil {
		return
	}
	s.steps = 0
	if !a.over {
		a.conn.Close(s.now, codec.Goodbye{Reason: codec.Closed, Data: []byte{9}})
		a.settle()
	}
	s.exchange(4)
	limit := s.now.Add(storyQuiet)
	for !a.over && s.steps < storySteps {
		at := a.timeout()
		if at.IsZero() || at.After(limit) {
			a.failf("after Close the next timeout is %v, and it is not over", at)
		}
		s.now = maxTime(s.now, at)
		s.steps++
		a.advance(at)
	}
	if !a.over {
		a.failf("not over after %d calls of Advance", s.steps)
	}
	for receipt, owed := range a.owed {
		if owed {
			a.failf("receipt %d has no answer", receipt)
		}
	}
	if at := a.conn.NextTimeout(); !at.IsZero() {
		a.failf("over, but wants to be called at %v", at)
	}
	if err := a.conn.Send(s.now, codec.Message{Payload: []byte{0, 0, 0, 0, 1}}); err == nil {
		a.failf("takes a message after its end")
	}
}

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
