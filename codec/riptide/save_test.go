package riptide

import (
	"reflect"
	"testing"
	"time"

	"tidegate/codec"
)

// TestSaveEverything saves a connection whose fields all have a value, and restores it at the same time. The
// conformance suite sees only what changes its datagrams.
func TestSaveEverything(t *testing.T) {
	p := New(Options{})
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return now.Add(time.Duration(ms) * time.Millisecond) }
	c := newConn(p, now)
	c.state, c.server, c.busy, c.client, c.tentative = connected, false, true, 7, true
	c.heard, c.tolerantUntil = at(-5), at(900)
	goodbye := codec.Event{Kind: codec.Disconnected, Reason: codec.Kicked}
	goodbye.Payload, goodbye.Pad = []byte("kick"), 3
	c.doubt = doubt{goodbye: goodbye, since: at(-1), believe: at(600), probeAt: at(200)}
	c.welcome = welcome{waiting: true, sends: 3, sentAt: at(-7)}
	c.ticker = ticker{
		next: at(300), connect: []byte{1, 2}, attempts: 4, ping: 9, pingAt: at(-3),
		patient: true, full: true, asks: true, refusals: 1,
	}
	c.rtt = rtt{
		Smooth: 40 * time.Millisecond, Own: true, Starved: 3, Far: time.Second,
		Slowest: [2]time.Duration{50 * time.Millisecond, 60 * time.Millisecond},
	}
	c.window.add(now, c.window.base+9, 11, time.Hour)
	c.window.stuck = at(-2)
	for i := range 70 {
		c.sends.delivered(uint8(i % 9))
	}
	c.sends.bad = 5
	for range 5 {
		c.notifier.ask(c.notifier.next, codec.Receipt(c.notifier.next))
		c.notifier.number(now, 0)
	}
	c.notifier.count(30, 30)
	c.notifier.acked = 2
	d := c.notifier.guard()
	*d = doorman{
		said: [2]seq{1, 2}, sentBy: [2]seq{3, 4}, sentAt: at(-4), heard: at(-3), pace: 5 * time.Millisecond, doubt: at(6),
	}
	d.strays[2] = stray{seq: 9, run: 2, since: at(-2)}
	c.stats = codec.Stats{Sent: 1, Received: 2, Resent: 3, Lost: 4, Dropped: 5}

	conn, err := p.Restore(now, nil, c.Save(now, nil))
	if err != nil {
		t.Fatal(err)
	}
	restored := conn.(*Conn)
	restored.window.prints = c.window.prints // saved prints have a key of their own
	if !reflect.DeepEqual(restored, c) {
		t.Errorf("restored\n%+v\nwant\n%+v", restored, c)
	}
}
