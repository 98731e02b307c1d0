package enet

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
)

// TestReplay replays every capture twice. Once our server answers the real client, and once our client answers the
// real server. Our side has the IDs, sessions and clock of the real one, so its handshake must have the same bytes. It
// must receive and acknowledge the same messages as the real side.
func TestReplay(t *testing.T) {
	for _, capture := range loadCaptures(t) {
		name := capture.Name
		for _, side := range []string{"client", "server"} {
			t.Run(name+"/"+side, func(t *testing.T) {
				if name == "07-connect-unanswered" && side == "server" {
					t.Skip("there was no server")
				}
				r := &replay{t: t, side: side, limited: name == "08-bandwidth-limited"}
				for _, l := range capture.Lines {
					r.lines = append(r.lines, captured{l})
				}
				r.run()
				r.check()
			})
		}
	}
}

// replay is our side of a captured session.
type replay struct {
	t      *testing.T
	side   string
	lines  []captured
	summed bool
	packed bool
	// limited says that the real side limits its bandwidth. Ours does not, so its handshake differs in that.
	limited bool
	conn    *Conn
	now     time.Time

	events   []codec.Event
	messages []received
	acked    map[string]bool // acknowledged by our side
	sent     [][]byte
}

// from returns the captured datagrams of a side.
func (r *replay) from(side string) (all []captured) {
	for _, l := range r.lines {
		if l.From == side {
			all = append(all, l)
		}
	}
	return all
}

func (r *replay) run() {
	r.acked = make(map[string]bool)
	first := r.from("client")[0].Datagram
	all := New(Options{})
	request, ok := all.options.parseConnect(first)
	if !ok {
		r.t.Fatalf("not a Connect: %x", first)
	}
	asks := request.connect
	var h header
	_, _ = h.parse(first)
	r.summed, r.packed = request.summed, request.packed
	var protocol *Protocol
	if r.side == "client" {
		protocol = r.dialer(&asks)
		r.now = r.lines[0].at()
		s := secrets{ID: asks.id, Clock: h.time, ConnectID: asks.connectID}
		c := newConn(&protocol.options, r.now, s)
		r.conn = c.dial(codec.Hello{Data: dataBytes(asks.data)})
	}
	for i := range r.lines {
		l := &r.lines[i]
		switch {
		case l.From == r.side && r.side == "client":
			r.until(l.at())
		case l.From == r.side || l.lost():
		case r.conn == nil:
			r.accept(l, &asks)
		default:
			r.until(l.at())
			if err := r.conn.Receive(l.at(), l.Datagram); err != nil && err != codec.ErrDuplicate && r.conn.state != closed {
				r.t.Errorf("%.3f ms: %v of %x", l.Millis, err, l.Datagram)
			}
			r.drain()
		}
	}
	end := r.now.Add(time.Millisecond)
	if !r.conn.farewell.heard.IsZero() {
		end = end.Add(3 * time.Second) // until our side believes the goodbye
	}
	r.until(end)
}

// dialer makes a client like the captured one.
func (r *replay) dialer(asks *connect) *Protocol {
	o := Options{MTU: int(asks.mtu), Channels: int(asks.channels), MaxMessage: 1 << 20}
	if r.summed {
		o.Checksums = ChecksumsOn
	}
	if r.packed {
		o.Compression = CompressionRange
	}
	return New(o)
}

// accept makes our server from the client's first datagram, with the secrets of the captured server.
func (r *replay) accept(l *captured, asks *connect) {
	protocol := New(Options{MTU: int(asks.mtu)})
	if !protocol.Sniff(l.Datagram) {
		r.t.Fatalf("not sniffed: %x", l.Datagram)
	}
	verify := r.from("server")[0]
	h, commands := commandsOf(r.t, verify.Datagram, r.summed)
	var v connect
	v.parse(commands[0].body)
	s := secrets{
		ID: v.id, Session: v.outgoing&3 | v.incoming&3<<2,
		Clock: h.time - uint16(verify.at().Sub(l.at()).Milliseconds()), ConnectID: asks.connectID,
	}
	r.conn = newConn(&protocol.options, l.at(), s).accept(&request{connect: *asks, summed: r.summed, packed: r.packed})
	if int(v.channels) < r.conn.channels {
		r.conn.channels = int(v.channels)
	}
	r.now = verify.at()
	r.conn.Admit(r.now, 1)
	r.drain()
	if !r.limited && !bytes.Equal(r.sent[0], verify.Datagram) {
		r.t.Errorf("VerifyConnect\n%x, want\n%x", r.sent[0], verify.Datagram)
	}
}

// until advances the time.
func (r *replay) until(at time.Time) {
	r.drain()
	for next := r.conn.NextTimeout(); !next.IsZero() && next.Before(at); next = r.conn.NextTimeout() {
		r.now = next
		r.conn.Advance(next)
		r.drain()
	}
	r.now = at
}

// drain collects our side's datagrams and events.
func (r *replay) drain() {
	for e, ok := r.conn.Poll(); ok; e, ok = r.conn.Poll() {
		if e.Kind == codec.Received {
			r.messages = append(r.messages, received{e.Mode, e.Channel, string(e.Payload)})
			continue
		}
		e.Payload = bytes.Clone(e.Payload)
		r.events = append(r.events, e)
	}
	for b, ok := r.conn.Transmit(r.now, nil); ok; b, ok = r.conn.Transmit(r.now, nil) {
		r.sent = append(r.sent, b)
		_, commands := commandsOf(r.t, b, r.summed)
		for _, c := range commands {
			if c.kind == kindAck {
				r.acked[fmt.Sprint(c.channel, c.seq)] = true
			}
		}
	}
}

// check compares our side with the real one.
func (r *replay) check() {
	if r.side == "client" && !r.limited && !bytes.Equal(r.sent[0], r.lines[0].Datagram) {
		r.t.Errorf("Connect\n%x, want\n%x", r.sent[0], r.lines[0].Datagram)
	}
	for _, l := range r.from(r.side) {
		_, commands := commandsOf(r.t, l.Datagram, r.summed)
		for _, c := range commands {
			if c.kind == kindAck && !r.acked[fmt.Sprint(c.channel, c.seq)] {
				r.t.Errorf("%.3f ms: the real side acknowledged %d on channel %d, ours did not", l.Millis, c.seq, c.channel)
			}
		}
	}
	want := r.wanted()
	slices.SortStableFunc(r.messages, byChannel)
	slices.SortStableFunc(want, byChannel)
	if !slices.Equal(r.messages, want) {
		r.t.Errorf("received %d messages, want %d", len(r.messages), len(want))
	}
	if end := r.wantedEnd(); end != nil {
		last := r.events[len(r.events)-1]
		if last.Kind != codec.Disconnected || !bytes.Equal(last.Payload, end) {
			r.t.Errorf("ended by %v with %x, want %x", last.Kind, last.Payload, end)
		}
	}
}

func byChannel(a, b received) int {
	return int(a.mode)<<8 + int(a.channel) - int(b.mode)<<8 - int(b.channel)
}

// wanted returns the messages that reached our side, each kind of a channel in its order.
func (r *replay) wanted() (all []received) {
	seen := make(map[string]bool)
	parts := make(map[string][]byte)
	missing := make(map[string]int)
	var reliable []numbered
	for _, l := range r.lines {
		if l.From == r.side || l.lost() {
			continue
		}
		_, commands := commandsOf(r.t, l.Datagram, r.summed)
		for _, c := range commands {
			key := fmt.Sprint(c.kind, c.channel, c.seq)
			switch c.kind {
			case kindUnreliable, kindUnsequenced:
				key += fmt.Sprint("/", be.Uint16(c.body))
			case kindFragment, kindUnreliableFragment:
				var f fragment
				if err := f.parse(c.body, len(c.payload)); err != nil {
					r.t.Fatal(err)
				}
				key += fmt.Sprint("/", f.start, f.index)
				whole := fmt.Sprint(c.kind, c.channel, f.start)
				if parts[whole] == nil {
					parts[whole], missing[whole] = make([]byte, f.total), int(f.count)
				}
				if !seen[key] {
					copy(parts[whole][f.offset:], c.payload)
					if missing[whole]--; missing[whole] > 0 {
						break
					}
					if c.kind == kindFragment {
						reliable = append(reliable, numbered{c.channel, f.start, string(parts[whole])})
					} else {
						all = append(all, received{codec.UnreliableSequenced, c.channel, string(parts[whole])})
					}
				}
			}
			if seen[key] {
				continue
			}
			seen[key] = true
			switch c.kind {
			case kindReliable:
				reliable = append(reliable, numbered{c.channel, c.seq, string(c.payload)})
			case kindUnreliable:
				all = append(all, received{codec.UnreliableSequenced, c.channel, string(c.payload)})
			case kindUnsequenced:
				all = append(all, received{codec.Unreliable, c.channel, string(c.payload)})
			}
		}
	}
	slices.SortFunc(reliable, func(a, b numbered) int { return int(a.seq) - int(b.seq) })
	for _, m := range reliable {
		all = append(all, received{codec.ReliableOrdered, m.channel, m.payload})
	}
	return all
}

type numbered struct {
	channel uint8
	seq     uint16
	payload string
}

// wantedEnd returns the data of the other side's goodbye: empty if it is 0, nil if there was none.
func (r *replay) wantedEnd() []byte {
	for _, l := range r.lines {
		if l.From == r.side || l.lost() {
			continue
		}
		_, commands := commandsOf(r.t, l.Datagram, r.summed)
		for _, c := range commands {
			if c.kind == kindDisconnect {
				return append([]byte{}, dataBytes(be.Uint32(c.body))...)
			}
		}
	}
	return nil
}
