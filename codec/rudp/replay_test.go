package rudp

import (
	"bytes"
	"maps"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// TestReplay replays every capture twice for each of its clients. Once our server answers the real client, and once
// our client answers the real server. The application of our side sends the real messages, and our side ticks at the
// same times. Our side must receive the same messages and send the same datagrams, byte for byte.
// docs/protocols/rudp.md#replay lists the exceptions.
func TestReplay(t *testing.T) {
	captures := loadCaptures(t)
	for _, name := range slices.Sorted(maps.Keys(captures)) {
		for _, side := range []string{"client", "server"} {
			t.Run(name+"/"+side, func(t *testing.T) {
				r := newReplay(t, name, side, captures[name])
				r.run(captures[name])
				r.check()
			})
		}
	}
}

// endings are the reasons why sessions end for our side. In all other captures a server times out at the end, and a
// client closes.
var endings = map[string]codec.Reason{
	"accept-delayed-800/0/client":               codec.NoConnection,
	"accept-lost/0/client":                      codec.NoConnection,
	"blackhole-both/0/client":                   codec.TimedOut,
	"blackhole-server-to-client/0/client":       codec.TimedOut,
	"blackhole-server-to-client/0/server":       codec.Closed,
	"never-accepted/0/client":                   codec.NoConnection,
	"request-duplicated-before-accept/0/client": codec.Rejected,
	"server-stop/0/server":                      codec.Closed,
	"wrong-app-id/0/client":                     codec.Incompatible,
	"wrong-app-id/0/server":                     codec.ReasonNone, // no session
}

// replay is our side of a captured session.
type replay struct {
	t        *testing.T
	side     string
	ending   codec.Reason
	p        *Protocol
	conn     *Conn
	coming   []arrival // datagrams of the real peer that have not reached our side yet
	received [][]byte
	ended    []codec.Reason

	wantReceived  [][]byte
	newest        int          // number of the peer's newest packet in the session
	acknowledged  map[seq]bool // packets that the peer has acknowledged
	carriedIn     map[codec.Receipt]seq
	answers       map[codec.Receipt]codec.EventKind
	nextReceipt   codec.Receipt
	sessionIsOpen bool
}

func newReplay(t *testing.T, name, side string, lines []line) *replay {
	r := &replay{
		t: t, side: side, ending: codec.TimedOut, newest: -1,
		acknowledged: map[seq]bool{}, carriedIn: map[codec.Receipt]seq{}, answers: map[codec.Receipt]codec.EventKind{},
	}
	peer := "client"
	if side == "client" {
		peer, r.ending = "server", codec.Closed
	}
	if reason, ok := endings[name+"/"+side]; ok {
		r.ending = reason
	}
	r.coming = arrivals(t, lines, peer)
	options := Options{AppID: parse(t, lines[0].Datagram).app, Rate: 20, DialTimeout: clientTimeout}
	for _, l := range lines {
		if l.From == side && len(l.Datagram) <= codec.MaxDatagram {
			p := parse(t, l.Datagram)
			options.AppID = p.app
			var accept terms
			if p.kind == kindAccept && accept.parse(p.data) == nil {
				options.Rate = accept.rate
			}
		}
	}
	r.p = New(options)
	return r
}

// run plays the session, and then runs our side until it ends. A real client closes without a goodbye.
func (r *replay) run(lines []line) {
	last := start
	for _, l := range lines {
		if l.From == r.side {
			last = start.Add(l.At())
			r.act(last, l.Datagram)
		}
	}
	for len(r.coming) > 0 {
		if r.side == "client" && r.conn.state == connected && r.coming[0].at.After(last.Add(r.conn.period)) {
			r.conn.Close(last, codec.Goodbye{Reason: codec.Closed})
		}
		r.feed(r.coming[0].at)
	}
	for r.conn != nil && r.conn.state != closed {
		next := r.conn.NextTimeout()
		r.conn.Advance(next)
		codectest.Transmit(r.conn, next)
		r.collect()
	}
}

// act makes our side repeat the real side's action behind datagram d, and compares the result.
func (r *replay) act(now time.Time, d []byte) {
	if len(d) > codec.MaxDatagram {
		r.actTooLarge(now, d)
		return
	}
	want := parse(r.t, d)
	for len(r.coming) > 0 && !r.coming[0].at.After(now) && (r.conn == nil || r.isBehind(&want)) {
		r.feed(now)
	}
	switch {
	case want.kind == kindRequest:
		r.conn = r.p.Dial(now, address, codec.Hello{}).(*Conn)
	case want.kind == kindRefuse || r.conn.state == closed || !r.conn.goodbye.at.IsZero():
		return // we do not refuse repeated or malformed requests, and send nothing after the peer's notify
	case want.kind == kindAccept:
		r.conn.Admit(now, 1)
	case want.kind == kindNotify && !r.conn.flight.isFull() && r.conn.state == connected:
		r.conn.Close(now, codec.Goodbye{Reason: codec.Closed})
	default:
		r.send(want.data, want.seq)
		r.conn.tickAt = now
		r.conn.Advance(now)
	}
	r.compare(&want, d, codectest.Transmit(r.conn, now))
	r.collect()
}

// isBehind reports whether the real side had received more than ours when it sent p.
func (r *replay) isBehind(p *packet) bool {
	switch r.conn.state {
	case closed, asked:
		return false
	case dialing:
		return true
	}
	return p.acks.last.minus(r.conn.received.last) > 0
}

// actTooLarge handles a message that the real library sends but cannot receive, and that we refuse.
func (r *replay) actTooLarge(now time.Time, d []byte) {
	for r.conn.state == dialing || seq(be.Uint16(d[4:])).minus(r.conn.received.last) > 0 {
		r.feed(now)
	}
	m := codec.Message{Payload: d[headerLen : len(d)-checksumLen], Mode: codec.Notify}
	if err := r.conn.Send(now, m); err != codec.ErrTooLarge {
		r.t.Errorf("Send of %d bytes: %v", len(m.Payload), err)
	}
	r.conn.tickAt = now
	r.conn.Advance(now)
	if got := one(r.t, r.conn, now); !bytes.Equal(got[:10], d[:10]) {
		r.t.Errorf("sent %x, the real one %.12x", got, d)
	}
}

// send sends data. It splits short data into pieces that our side joins.
func (r *replay) send(data []byte, in seq) {
	size := 8
	if len(data) > 100 {
		size = len(data)
	}
	for piece := range slices.Chunk(data, size) {
		r.nextReceipt++
		m := codec.Message{Payload: piece, Mode: codec.Notify, Receipt: r.nextReceipt}
		if err := r.conn.Send(start, m); err != nil {
			r.t.Fatalf("Send: %v", err)
		}
		r.carriedIn[m.Receipt] = in
	}
}

// feed gives our side the next datagram.
func (r *replay) feed(now time.Time) {
	d := bytes.Clone(r.coming[0].datagram)
	r.coming = r.coming[1:]
	if r.conn != nil && r.conn.state == dialing && !now.Before(r.conn.deadline) {
		r.conn.Advance(now)
	}
	r.note(d)
	if r.conn == nil {
		conn, _, err := r.p.Accept(now, address, d, nil)
		if err != nil {
			return
		}
		r.conn = conn.(*Conn)
	} else {
		_ = r.conn.Receive(now, d) // late datagrams are errors
	}
	r.collect()
	clear(d)
}
