package rudp

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// TestGiveUp: the 34th packet without an acknowledgement is a goodbye. The reason says whether the peer is silent. Its
// last packets may have been on their way for some periods.
func TestGiveUp(t *testing.T) {
	for heard, want := range map[int]codec.Reason{0: codec.TimedOut, 10: codec.TimedOut, 33: codec.PoorConnection} {
		p := newPair(t, Options{Rate: 20, base: 65510})
		if unacknowledged := p.client.flight.next.minus(p.client.flight.acked) - 1; unacknowledged != 1 {
			t.Fatalf("%d packets unacknowledged at first", unacknowledged)
		}
		sent := 1
		var last []byte
		for p.client.state != closed {
			if sent <= heard {
				stale := packet{seq: p.client.received.last + 1, acks: acks{last: p.client.flight.acked}, kind: kindKeepAlive}
				if err := p.client.Receive(p.now, stale.append(nil)); err != nil {
					t.Fatal(err)
				}
			}
			p.now = p.client.NextTimeout()
			p.client.Advance(p.now)
			last = one(t, p.client, p.now)
			sent++
		}
		got := codectest.Drain(p.client)
		if sent != 34 || parse(t, last).kind != kindNotify || len(got) != 1 || got[0].Reason != want {
			t.Errorf("heard %d: %d packets, the last %x, events %v", heard, sent, last, got)
		}
		if heard > 0 {
			continue // the last packet acknowledges a packet that the server has not sent
		}
		_ = p.server.Receive(p.now, last)
		for p.server.state != closed {
			p.server.Advance(p.server.NextTimeout())
		}
		if got := codectest.Drain(p.server); len(got) != 1 || got[0].Reason != codec.Closed {
			t.Errorf("the server makes of the last packet: %v", got)
		}
	}
}

// TestNotifyEnds: the peer's goodbye ends a session whose peer then falls silent, and gets no answer.
func TestNotifyEnds(t *testing.T) {
	for _, closer := range []string{"client", "server"} {
		p := newPair(t, Options{})
		p.atClient, p.atServer = nil, nil
		from, heard := p.client, &p.atServer
		if closer == "server" {
			from, heard = p.server, &p.atClient
		}
		from.Close(p.now, codec.Goodbye{Reason: codec.Kicked, Data: []byte("why")})
		p.exchange()
		for range 30 {
			p.now = p.now.Add(10 * time.Millisecond)
			p.client.Advance(p.now)
			p.server.Advance(p.now)
			p.exchange()
		}
		if len(*heard) != 1 || (*heard)[0].Reason != codec.Closed || len((*heard)[0].Payload) > 0 {
			t.Errorf("after the %s's goodbye: %v", closer, *heard)
		}
		p.now = p.now.Add(time.Second)
		p.client.Advance(p.now)
		p.server.Advance(p.now)
		rest := append(codectest.Transmit(p.client, p.now), codectest.Transmit(p.server, p.now)...)
		if len(rest) > 0 || !p.client.NextTimeout().IsZero() || !p.server.NextTimeout().IsZero() {
			t.Errorf("after the end: %x", rest)
		}
		if err := from.Receive(p.now, keepAlive(9, 1)); !errors.Is(err, codec.ErrUnexpected) {
			t.Errorf("received after the end: %v", err)
		}
	}
}

// TestWrap: all numbers wrap twice in one session without a loss.
func TestWrap(t *testing.T) {
	p := newPair(t, Options{Rate: 250})
	const packets = 2<<16 + 10
	for i := range packets {
		payload := []byte{byte(i), byte(i >> 8), byte(i >> 16)}
		for _, c := range []*Conn{p.client, p.server} {
			send(t, c, string(payload), 1)
		}
		p.atClient, p.atServer = p.atClient[:0], p.atServer[:0]
		p.step()
		for _, got := range [][]codec.Event{p.atClient, p.atServer} {
			for _, e := range got {
				if e.Kind == codec.Lost || e.Kind == codec.Received && !bytes.Equal(e.Payload, payload) {
					t.Fatalf("packet %d: %v %x", i, e.Kind, e.Payload)
				}
			}
			if !slices.Equal(payloads(got), []string{string(payload)}) {
				t.Fatalf("packet %d: received %q", i, payloads(got))
			}
		}
	}
}

func TestAnnounce(t *testing.T) {
	if err := newPair(t, Options{}).server.Announce(start, codec.Joined, 1); !errors.Is(err, codec.ErrMode) {
		t.Error(err)
	}
}
