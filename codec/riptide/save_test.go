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
	c.ticker = ticker{next: at(300), connect: []byte{1, 2}, attempts: 4, ping: 9, pingAt: at(-3)}
	c.rtt = rtt{smooth: 40 * time.Millisecond, last: 50 * time.Millisecond, own: true}
	c.window.add(now, c.window.base+9, 11, time.Hour)
	c.window.stuck = at(-2)
	for i := range 70 {
		c.sends.delivered(uint8(i % 9))
		c.notifier.loss.result(i%3 == 0)
	}
	c.sends.bad, c.notifier.loss.bad = 5, 6
	for range 5 {
		c.notifier.ask(c.notifier.next, codec.Receipt(c.notifier.next))
		c.notifier.number()
	}
	c.notifier.receive(30)
	c.notifier.acked, c.notifier.late, c.notifier.lateRun = 2, 4, 3
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
