package nethernet

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
)

// fakeStack is a Stack whose peer is the test.
type fakeStack struct {
	out      Delivery
	got      [][]byte // datagrams
	sent     [][]byte
	reliable []bool
	paused   bool
	closed   string
	err      error
}

func (s *fakeStack) Datagram(b []byte) { s.got = append(s.got, bytes.Clone(b)) }
func (s *fakeStack) Send(b []byte, reliable bool) error {
	if s.err == nil {
		s.sent, s.reliable = append(s.sent, bytes.Clone(b)), append(s.reliable, reliable)
	}
	return s.err
}
func (s *fakeStack) Take(to *Delivery)        { s.out.MoveTo(to) }
func (s *fakeStack) Pause(on bool)            { s.paused = on }
func (s *fakeStack) Load() (queued, held int) { return len(s.sent), 7 }
func (s *fakeStack) RTT() time.Duration       { return time.Minute }
func (s *fakeStack) Close(text string)        { s.closed = text }
func (s *fakeStack) Abandon()                 {}

func events(c *Conn) (all []codec.Event) {
	for {
		ev, ok := c.Poll()
		if !ok {
			return all
		}
		ev.Payload = bytes.Clone(ev.Payload)
		all = append(all, ev)
	}
}

// TestConn goes through a connection's life.
func TestConn(t *testing.T) {
	now, s := time.Unix(1, 0), &fakeStack{paused: true}
	c := NewConn(s, false)
	if err := c.Receive(now, []byte{22, 0xfe, 0xfd}); err != nil || len(s.got) != 1 {
		t.Fatal(err, s.got)
	}
	if err := c.Receive(now, []byte("STUN")); !errors.Is(err, codec.ErrMalformed) {
		t.Error(err)
	}
	s.out.Open = true
	s.out.AddDatagram([]byte("one"))
	s.out.AddDatagram([]byte("two"))
	s.out.AddMessage([]byte("early"), true)
	c.Advance(now)
	if all := events(c); len(all) != 1 || all[0].Kind != codec.Asked {
		t.Fatalf("%v", all)
	}
	for _, want := range []string{"one", "two"} {
		if b, ok := c.Transmit(now, []byte("head ")); !ok || string(b) != "head "+want {
			t.Errorf("%q", b)
		}
	}
	if _, ok := c.Transmit(now, nil); ok || !s.paused {
		t.Error("a third datagram, or not paused before Admit")
	}
	c.Admit(now, 0)
	all := events(c)
	if len(all) != 2 || all[0].Kind != codec.Connected || string(all[1].Payload) != "\xfeearly" ||
		all[1].Mode != codec.ReliableOrdered || s.paused {
		t.Fatalf("%v", all)
	}
	s.out.AddMessage([]byte("late"), false)
	c.Advance(now)
	if all := events(c); len(all) != 1 || string(all[0].Payload) != "\xfelate" || all[0].Mode != codec.Unreliable {
		t.Fatalf("%v", all)
	}
	for _, m := range []codec.Message{
		{Payload: []byte("\xfeok"), Mode: codec.Reliable}, {Payload: []byte("\x86no")}, {Payload: []byte("\xfe")}, {},
	} {
		if err := c.Send(now, m); !errors.Is(err, codec.ErrMode) {
			t.Error(m, err)
		}
	}
	if err := c.Send(now, codec.Message{Payload: []byte("\xfeok"), Mode: codec.ReliableOrdered}); err != nil ||
		string(s.sent[0]) != "ok" || !s.reliable[0] {
		t.Error(err, s.sent)
	}
	c.Throttle(now, codec.Refuse)
	if !s.paused || c.Stats().Held != 7 || c.Stats().Queued != 1 || c.Stats().Received != 1 || c.Stats().Dropped != 1 ||
		c.Stats().RTT != time.Minute {
		t.Errorf("%+v", c.Stats())
	}
	c.Close(now, codec.Goodbye{Reason: codec.ServerStopped})
	if s.closed == "" || !errors.Is(c.Send(now, codec.Message{Payload: []byte("\xfeok")}), codec.ErrClosed) {
		t.Error("no text, or a message after Close")
	}
	if all := events(c); len(all) != 0 {
		t.Errorf("%v", all)
	}
	s.out.End.Reason = codec.Closed
	c.Advance(now)
	if all := events(c); len(all) != 1 || all[0].Kind != codec.Disconnected || all[0].Reason != codec.Closed {
		t.Errorf("%v", all)
	}
}

// TestDelivery moves batches while some of them wait, and frees the memory of large ones.
func TestDelivery(t *testing.T) {
	var from, to Delivery
	large := bytes.Repeat([]byte{1}, 3*kept)
	next := byte(0)
	for round := range 5 {
		from.AddMessage([]byte{byte(2 * round)}, true)
		from.AddMessage([]byte{byte(2*round + 1)}, false)
		from.AddDatagram(large)
		from.MoveTo(&to)
		if round == 1 {
			continue // two rounds wait
		}
		for {
			m, reliable, ok := to.Message()
			if !ok {
				break
			}
			if !bytes.Equal(m, []byte{gameByte, next}) || reliable != (next%2 == 0) {
				t.Fatalf("%x %v, want %d", m, reliable, next)
			}
			next++
		}
		for d, ok := to.Datagram(); ok; d, ok = to.Datagram() {
			if !bytes.Equal(d, large) {
				t.Fatal("another datagram")
			}
		}
	}
	if from.MoveTo(&to); next != 10 || cap(to.datagrams.bytes) > kept || cap(from.datagrams.bytes) > kept {
		t.Errorf("%d messages; room for %d and %d bytes", next, cap(to.datagrams.bytes), cap(from.datagrams.bytes))
	}
}

// TestOwn reads our own description as a peer does.
func TestOwn(t *testing.T) {
	key := playerKey(t)
	prints := []Fingerprint{{"sha-256", "AB:CD"}}
	now := time.Unix(1_700_000_000, 0)
	identity, err := ServerIdentity(key, now, now.Add(time.Minute), prints)
	if err != nil {
		t.Fatal(err)
	}
	at := []netip.AddrPort{netip.MustParseAddrPort("203.0.113.9:19132"), netip.MustParseAddrPort("[2001:db8::9]:19132")}
	o := Own{
		Ufrag: "ours", Password: "password-of-22-letters", Lite: true, Setup: "active", Fingerprints: prints,
		Identity: identity, Candidates: at, Session: 1 << 63,
	}
	d, err := ParseDescription(o.Text())
	if err != nil {
		t.Fatal(err)
	}
	read, err := ParseIdentity(d.Identity)
	if err != nil || read.Verify(&key.PublicKey, d.Fingerprints) != nil {
		t.Fatal(err, read)
	}
	if d.Ufrag != o.Ufrag || d.Password != o.Password || !d.Lite || d.Setup != "active" || d.SCTPPort != SCTPPort ||
		d.MaxMessageSize != MaxFragment || len(d.Candidates) != 2 || d.Candidates[1].Address != at[1] {
		t.Errorf("%+v", d)
	}
}
