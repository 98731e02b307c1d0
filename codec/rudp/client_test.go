package rudp

import (
	"errors"
	"slices"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

func newClient(o Options) *Conn {
	o.AppID = 1
	return New(o).Dial(start, address, codec.Hello{Data: []byte("of no use")}).(*Conn)
}

func TestClientConnects(t *testing.T) {
	c := newClient(Options{})
	if got := hexOf(one(t, c, start)); got != request {
		t.Fatalf("request %s", got)
	}
	if err := c.Receive(start.Add(40*ms), codectest.Unhex(t, acceptAt20)); err != nil {
		t.Fatal(err)
	}
	if got := codectest.Kinds(codectest.Drain(c)); !slices.Equal(got, []codec.EventKind{codec.Connected}) {
		t.Errorf("events %v", got)
	}
	now := c.NextTimeout()
	if d := codectest.Transmit(c, now); len(d) > 0 || !now.Equal(start.Add(90*ms)) {
		t.Errorf("sent %x, next packet after %v, want a period after Accept", d, now.Sub(start))
	}
	c.Advance(now)
	want := packet{app: 1, seq: 1, acks: acks{last: 0, bits: 0x80000000}, kind: kindKeepAlive}
	if got := one(t, c, now); hexOf(got) != hexOf(want.append(nil)) {
		t.Errorf("sent %x, want %+v", got, want)
	}
}

// TestClientUnanswered: without an answer the client sends a request every 250 ms, for as long as Options say.
func TestClientUnanswered(t *testing.T) {
	c := newClient(Options{DialTimeout: 1100 * ms})
	now, sent := start, 0
	for c.state != closed {
		for _, d := range codectest.Transmit(c, now) {
			sent++
			if hexOf(d) != request {
				t.Errorf("sent %x", d)
			}
		}
		now = c.NextTimeout()
		c.Advance(now)
	}
	if sent != 5 || now.Sub(start) != 1100*ms {
		t.Errorf("%d requests until %v", sent, now.Sub(start))
	}
	if got := codectest.Drain(c); len(got) != 1 || got[0].Reason != codec.NoConnection {
		t.Errorf("events %v", got)
	}
}

// TestClientMissesAccept: our server repeats Accept with later numbers. Session packets before an Accept are useless
// to the client, because it does not know the rate.
func TestClientMissesAccept(t *testing.T) {
	c := newClient(Options{})
	if err := c.Receive(start, keepAlive(1, 0)); !errors.Is(err, codec.ErrUnexpected) {
		t.Errorf("KeepAlive: %v", err)
	}
	p := packet{app: 1, seq: 3, kind: kindAccept, data: []byte{20, 0}}
	if err := c.Receive(start, p.append(nil)); err != nil || c.state != connected {
		t.Errorf("Accept: %v", err)
	}
}

// TestClientAnsweredInTime: an answer cancels a request that is due but not sent yet.
func TestClientAnsweredInTime(t *testing.T) {
	for _, answer := range []string{acceptAt20, refusal} {
		c := newClient(Options{})
		one(t, c, start)
		c.Advance(start.Add(250 * ms))
		if err := c.Receive(start.Add(250*ms), codectest.Unhex(t, answer)); err != nil {
			t.Fatal(err)
		}
		if d := codectest.Transmit(c, start.Add(250*ms)); len(d) > 0 {
			t.Errorf("after %s: sent %x", answer, d)
		}
	}
}

func TestClientRefusesAnswers(t *testing.T) {
	c := newClient(Options{})
	for what, bad := range map[string]struct {
		packet
		err error
	}{
		"rate 0":              {packet{app: 1, kind: kindAccept, data: []byte{0, 0}}, codec.ErrMalformed},
		"no rate":             {packet{app: 1, kind: kindAccept}, codec.ErrMalformed},
		"another application": {packet{app: 2, kind: kindAccept, data: []byte{20, 0}}, codec.ErrUnexpected},
		"number too high":     {packet{app: 1, seq: 32768, kind: kindAccept, data: []byte{20, 0}}, codec.ErrWindow},
		"acknowledges more":   {packet{app: 1, acks: acks{last: 1}, kind: kindAccept, data: []byte{20, 0}}, codec.ErrWindow},
		"goodbye":             {packet{app: 1, kind: kindNotify}, codec.ErrUnexpected},
	} {
		if err := c.Receive(start, bad.append(nil)); !errors.Is(err, bad.err) {
			t.Errorf("%s: %v, want %v", what, err, bad.err)
		}
	}
	if got := codectest.Drain(c); len(got) > 0 || c.Stats().Dropped != 6 || c.Stats().Received != 0 {
		t.Errorf("events %v, stats %+v", got, c.Stats())
	}
}

func TestClientRefused(t *testing.T) {
	for want, h := range map[codec.Reason]string{
		codec.Rejected:     refusal,
		codec.Incompatible: hexOf((&packet{app: 2, kind: kindRefuse}).append(nil)),
	} {
		c := newClient(Options{})
		one(t, c, start)
		if err := c.Receive(start, codectest.Unhex(t, h)); err != nil {
			t.Error(err)
		}
		if got := codectest.Drain(c); len(got) != 1 || got[0].Reason != want {
			t.Errorf("events %v, want %v", got, want)
		}
	}
}

// TestClientRefusedRepeating: a real server refuses a repeated request while the first one waits. The refusal counts
// only if no other answer comes.
func TestClientRefusedRepeating(t *testing.T) {
	for _, accepted := range []bool{true, false} {
		c := newClient(Options{})
		one(t, c, start)
		now := start.Add(250 * ms)
		c.Advance(now)
		one(t, c, now)
		_ = c.Receive(now, codectest.Unhex(t, refusal))
		if got := codectest.Drain(c); len(got) > 0 {
			t.Fatalf("events %v", got)
		}
		if next := c.NextTimeout(); !next.Equal(start.Add(defaultDialTimeout)) {
			t.Errorf("next request after %v, want none", next.Sub(start))
		}
		want := codec.Disconnected
		if accepted {
			want = codec.Connected
			_ = c.Receive(now, codectest.Unhex(t, acceptAt20))
		} else {
			c.Advance(c.NextTimeout())
		}
		got := codectest.Drain(c)
		if len(got) != 1 || got[0].Kind != want || !accepted && got[0].Reason != codec.Rejected {
			t.Errorf("events %v, want %v", got, want)
		}
	}
}

func TestClientClosesHandshake(t *testing.T) {
	c := newClient(Options{})
	if err := c.Send(start, codec.Message{Payload: []byte("early"), Receipt: 1}); err != nil {
		t.Fatal(err)
	}
	c.Close(start, codec.Goodbye{Reason: codec.Closed})
	if got := codectest.Kinds(codectest.Drain(c)); !slices.Equal(got, []codec.EventKind{codec.Lost, codec.Disconnected}) {
		t.Errorf("events %v", got)
	}
	if p := parse(t, one(t, c, start)); p.kind != kindNotify || p.seq != 1 {
		t.Errorf("sent %+v", p)
	}
}
