package riptide

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// TestReplay replays every capture twice for each of its clients. Once our server answers the real client, and once
// our client answers the real server. The application of our side does the same as the real one. Our side must receive
// the same messages and send the same datagrams. If the number or time of a datagram depends on pace, only distinct
// ones are compared. Captures of TCP are no exception.
func TestReplay(t *testing.T) {
	for _, c := range loadCaptures(t) {
		if c.scenario == "reliable-sequence-wrap" {
			continue // the capture lacks the middle; TestReplayWrap replays the rest
		}
		for client := range 2 {
			lines := c.Of(client)
			if len(lines) == 0 {
				continue
			}
			for _, side := range []string{"client", "server"} {
				t.Run(fmt.Sprintf("%s/%s/%s%d", c.version, c.scenario, side, client), func(t *testing.T) {
					name := fmt.Sprintf("%s/%s/%s", c.version, c.scenario, side)
					r := newReplay(t, Options{Version: c.dialect(), Stream: strings.HasPrefix(c.scenario, "tcp/")}, side, lines)
					r.inexact = slices.Contains(inexact, name)
					r.run(lines)
					r.check(endings[name])
				})
			}
		}
	}
}

// TestReplayWrap replays the end of the capture of 65,600 messages. The capture has only its beginning and the part
// around the wrap of sequence numbers. The replay starts from a session that has come so far.
func TestReplayWrap(t *testing.T) {
	const before = 65528 // the number before the first after the cut
	for _, c := range loadCaptures(t) {
		if c.scenario != "reliable-sequence-wrap" {
			continue
		}
		millis := []float64{V22: 7000, V20: 6100}[c.dialect()] // of the cut
		lines := slices.DeleteFunc(c.Of(0), func(l line) bool { return l.Millis < millis })
		for i := range lines {
			lines[i].Millis -= millis
		}
		for _, side := range []string{"client", "server"} {
			t.Run(c.version+"/"+side, func(t *testing.T) {
				p := newPair(t, Options{Version: c.dialect(), first: before})
				conn := map[string]*Conn{"client": p.client, "server": p.server}[side]
				conn.window.first = 16
				r := newReplay(t, Options{Version: c.dialect()}, side, lines)
				r.conn = conn
				r.run(lines)
				r.check(codec.ReasonNone)
			})
		}
	}
}

// endings are the reasons why sessions end in scenarios without a goodbye. In the others a side that hears nothing
// times out.
var endings = map[string]codec.Reason{
	"riptide-2.0.0/no-server/client":              codec.NoConnection,
	"riptide-2.2.1/no-server/client":              codec.NoConnection,
	"riptide-2.2.1/blackhole-one-reliable/client": codec.PoorConnection,
}

// inexact lists the scenarios in which the real receiver loses count, unlike ours. Only the message that caused each
// acknowledgement is compared there.
var inexact = []string{"riptide-2.0.0/reliable-burst-30-first-20-lost/server"}

// replay is our side of a captured session.
type replay struct {
	t       *testing.T
	side    string
	v       Version
	w       *dialect
	p       *Protocol
	conn    codec.Conn
	coming  []arrival // datagrams of the real peer that have not reached our side yet
	said    map[seq]bool
	left    bool // our side has closed
	inexact bool // acknowledgements are inexact
	wantEnd codec.Reason

	wantSent, sent         map[string]int // distinct datagrams, with paced fields blanked
	wantMessages, messages map[message]int
	newestNotify           seq
	reliable               map[seq]bool
	ended                  []codec.Event
	acks                   []ack // sent after the latest input
}

type arrival struct {
	at       time.Time
	datagram []byte
}

func newReplay(t *testing.T, o Options, side string, lines []line) *replay {
	r := &replay{
		t: t, side: side, v: o.Version, w: &dialects[o.Version], p: New(o), wantEnd: codec.TimedOut,
		said: map[seq]bool{}, reliable: map[seq]bool{},
		wantSent: map[string]int{}, sent: map[string]int{},
		wantMessages: map[message]int{}, messages: map[message]int{},
	}
	for _, l := range lines {
		if l.From == side {
			r.expect(l.Datagram)
			continue
		}
		for _, at := range arrivals(t, &l) {
			r.coming = append(r.coming, arrival{at, l.Datagram})
		}
	}
	slices.SortStableFunc(r.coming, func(a, b arrival) int { return a.at.Compare(b.at) })
	return r
}

// run plays the session, and then runs our side until it ends.
func (r *replay) run(lines []line) {
	for _, l := range lines {
		r.advance(start.Add(l.At()))
		if l.From == r.side {
			r.act(start.Add(l.At()), l.Datagram)
		}
	}
	end := start.Add(lines[len(lines)-1].At())
	for len(r.coming) > 0 {
		r.feed(end, 0)
	}
	for next := r.conn.NextTimeout(); !next.IsZero(); next = r.conn.NextTimeout() {
		r.conn.Advance(next)
		r.collect(next, next.Before(end))
	}
}

// advance runs our side's timers until now, and gives it the arrived datagrams, except for numbered messages. It gets
// a numbered message when the capture shows that the real side handled it.
func (r *replay) advance(now time.Time) {
	for r.conn != nil {
		next := r.conn.NextTimeout()
		if next.IsZero() || next.After(now) {
			break
		}
		r.conn.Advance(next)
		r.collect(next, true)
	}
	for i := 0; i < len(r.coming) && !r.coming[i].at.After(now); {
		d := r.coming[i].datagram
		isUser := r.w.kindOf(d) == kindUnreliable || r.w.kindOf(d) == kindNotify
		if r.w.kindOf(d) >= kindReliable || isUser && r.conn.(*Conn).state != connected {
			i++
			continue
		}
		r.feed(now, i)
	}
}

// feed gives our side one of the coming datagrams.
func (r *replay) feed(now time.Time, i int) {
	d := bytes.Clone(r.coming[i].datagram)
	r.coming = slices.Delete(r.coming, i, i+1)
	r.note(d)
	r.acks = nil
	if r.conn == nil {
		conn, _, err := r.p.Accept(now, address, d, nil)
		if err != nil {
			r.t.Fatalf("Accept of %x: %v", d, err)
		}
		r.conn = conn
	} else {
		_ = r.conn.Receive(now, d) // duplicates are errors
	}
	r.collect(now, true)
}

// note records the message that a datagram must bring.
func (r *replay) note(d []byte) {
	in := read(r.v, d)
	switch {
	case r.left:
		return
	case in.kind == kindReliable:
		if !r.reliable[in.seq] {
			r.wantMessages[in.message]++
		}
		r.reliable[in.seq] = true
	case in.kind == kindUnreliable:
		r.wantMessages[in.message]++
	case in.kind == kindNotify:
		if r.newestNotify.before(in.seq) {
			r.wantMessages[in.message]++
			r.newestNotify = in.seq
		}
	case in.kind == kindReject || in.kind == kindDisconnect:
		r.wantEnd = r.reason(in)
		if r.side == "server" {
			r.wantEnd = codec.Closed
		}
	}
}

// act repeats the action of the real side's application behind datagram d.
func (r *replay) act(now time.Time, d []byte) {
	out := read(r.v, d)
	first := !r.said[out.seq]
	switch out.kind {
	case kindAck:
		r.handle(now, readAck(r.t, r.v, d))
		return
	case kindConnect:
		if r.conn == nil {
			r.conn = r.p.Dial(now, address, codec.Hello{Data: []byte(out.payload), Pad: out.pad})
		}
	case kindUnreliable, kindNotify:
		r.send(now, out)
	case kindReject, kindDisconnect:
		r.goodbye(now, out)
	case kindReliable:
		if first {
			r.send(now, out)
		}
	case kindWelcome:
		r.conn.Admit(now, out.id)
	case kindClientConnected, kindClientDisconnected:
		news := codec.Joined
		if out.kind == kindClientDisconnected {
			news = codec.Left
		}
		if err := r.conn.Announce(now, news, out.id); first && err != nil {
			r.t.Errorf("announce %v: %v", news, err)
		}
	}
	if out.kind >= kindReliable {
		r.said[out.seq] = true
	}
	r.collect(now, true)
}

// handle gives our side the numbered message that the real side acknowledged with want, and compares.
func (r *replay) handle(now time.Time, want ack) {
	i := slices.IndexFunc(r.coming, func(a arrival) bool {
		return r.w.kindOf(a.datagram) >= kindReliable && read(r.v, a.datagram).seq == want.forSeq
	})
	if i < 0 {
		r.t.Errorf("nothing has come that the real %s acknowledged by %+v", r.side, want)
		return
	}
	r.feed(now, i)
	if r.inexact && len(r.acks) == 1 {
		r.acks[0].last, r.acks[0].bits = want.last, want.bits
	}
	if !slices.Equal(r.acks, []ack{want}) {
		r.t.Errorf("acknowledged by %+v, the real %s by %+v", r.acks, r.side, want)
	}
}

func (r *replay) send(now time.Time, out reading) {
	m := codec.Message{
		Payload: []byte(out.payload), Pad: out.pad, Mode: out.mode, ID: out.id, HasID: out.kind != kindNotify,
	}
	if err := r.conn.Send(now, m); err != nil {
		r.t.Errorf("send of %v: %v", out.message, err)
	}
}

// reason returns the reason in a Reject or Disconnect.
func (r *replay) reason(bye reading) codec.Reason {
	f := goodbye{kind: bye.kind, reason: uint8(bye.id)}
	if f.kind == kindReject {
		f.reason = r.w.rejectReason(f.reason)
	}
	return f.meaning()
}

func (r *replay) goodbye(now time.Time, out reading) {
	why := codec.Goodbye{Reason: r.reason(out), Data: []byte(out.payload), Pad: out.pad}
	if r.side == "client" {
		why = codec.Goodbye{Reason: codec.Closed}
	}
	r.conn.Close(now, why)
	if !r.left {
		r.left, r.wantEnd = true, why.Reason
	}
}

// collect drains our side. Its datagrams count only during the capture.
func (r *replay) collect(now time.Time, counts bool) {
	for _, e := range codectest.Drain(r.conn) {
		switch e.Kind {
		case codec.Received:
			r.messages[message{e.Mode, e.ID, string(e.Payload), e.Pad}]++
		case codec.Disconnected:
			r.ended = append(r.ended, e)
		}
	}
	for _, d := range codectest.Transmit(r.conn, now) {
		switch {
		case r.w.kindOf(d) == kindAck:
			r.acks = append(r.acks, readAck(r.t, r.v, d))
		case counts:
			r.sent[r.unpaced(d)]++
		}
	}
}

// expect records the datagram that our side must send, because the real one did.
func (r *replay) expect(d []byte) {
	if hexOf(d) == "0505" {
		d = codectest.Unhex(r.t, "5500") // the server of 2.1.0 means this, and later servers send it
	}
	if r.w.kindOf(d) != kindAck {
		r.wantSent[r.unpaced(d)]++
	}
}

// unpaced returns a datagram in hexadecimal without the fields that depend on pace: measured times, and
// acknowledgements inside notify messages.
func (r *replay) unpaced(d []byte) string {
	d = bytes.Clone(d)
	switch r.w.kindOf(d) {
	case kindHeartbeat:
		d = d[:2]
		if r.v == V22 {
			d[1] &= 0x0f
		}
	case kindNotify:
		copy(d, []byte{6, 0, 0})
		d[3] &= 0xf0
	}
	return hexOf(d)
}

// exact lists the types that our side must send as often as the real one.
var exact = []kind{kindUnreliable, kindReject, kindDisconnect, kindNotify}

func (r *replay) check(ending codec.Reason) {
	if ending != codec.ReasonNone {
		r.wantEnd = ending
	}
	if len(r.ended) != 1 || r.ended[0].Reason != r.wantEnd {
		r.t.Errorf("ended by %+v, want %v", r.ended, r.wantEnd)
	}
	if !maps.Equal(r.messages, r.wantMessages) {
		r.t.Errorf("received %v, want %v", r.messages, r.wantMessages)
	}
	r.forgiveLastHeartbeat()
	for h, times := range r.wantSent {
		if k := r.w.kindOf(codectest.Unhex(r.t, h)); r.sent[h] == 0 || slices.Contains(exact, k) && r.sent[h] != times {
			r.t.Errorf("%s sent %d times, the real %s did %d times", h, r.sent[h], r.side, times)
		}
	}
	early := 0
	for h := range r.sent {
		k := r.w.kindOf(codectest.Unhex(r.t, h))
		switch {
		case r.wantSent[h] > 0:
		case k == kindConnect && r.side == "server":
			// A server without a handler does not say that it is deciding; the proxy always says it.
		case k == kindHeartbeat && r.side == "client" && early == 0:
			early++ // ours was due just before the end of the capture
		default:
			r.t.Errorf("%s sent, which the real %s did not", h, r.side)
		}
	}
}

// forgiveLastHeartbeat drops the real client's last heartbeat from the comparison if it precedes ours. Our heartbeats
// come from an exact timer, and not after a time-out.
func (r *replay) forgiveLastHeartbeat() {
	if r.v != V20 || r.side != "client" || r.wantEnd != codec.TimedOut {
		return
	}
	last := ""
	for h := range r.wantSent {
		if r.w.kindOf(codectest.Unhex(r.t, h)) == kindHeartbeat && h > last {
			last = h
		}
	}
	if r.sent[last] == 0 {
		delete(r.wantSent, last)
	}
}
