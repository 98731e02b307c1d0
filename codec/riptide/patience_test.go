package riptide

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// patientOptions are the options of connections that do not give up after maxSends.
var patientOptions = map[string]Options{
	"2.0": {Version: V20}, "2.0 over TCP": {Version: V20, Stream: true}, "2.2 over TCP": {Stream: true},
}

// eachPatient runs a test with all of patientOptions.
func eachPatient(t *testing.T, test func(t *testing.T, o Options)) {
	for name, o := range patientOptions {
		t.Run(name, func(t *testing.T) { test(t, o) })
	}
}

// unacknowledged returns a client of a server that answers heartbeats and acknowledges nothing. Two messages are sent
// to it.
func unacknowledged(t *testing.T, o Options) *pair {
	p := newPair(t, o)
	p.client.rtt = rtt{}
	for r := range codec.Receipt(2) {
		if err := p.client.Send(p.now, codec.Message{Mode: codec.Reliable, Receipt: r + 1}); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// step lets the client do its next due work. The server answers every datagram except reliable messages.
func (p *pair) step() (reliable int) {
	if p.client.state != connected {
		p.t.Fatal("the connection was given up")
	}
	p.now = p.client.NextTimeout()
	p.client.Advance(p.now)
	for _, d := range codectest.Transmit(p.client, p.now) {
		if p.client.dialect.kindOf(d) == kindReliable {
			reliable++
			continue
		}
		_ = p.server.Receive(p.now, d)
		for _, answer := range codectest.Transmit(p.server, p.now) {
			_ = p.client.Receive(p.now, answer)
		}
	}
	return reliable
}

// TestPatience: a message that the peer never acknowledges is sent 15 times at the library's pace and 10 times slowly.
// Then the connection is given up, so that the loss is not silent.
func TestPatience(t *testing.T) { eachPatient(t, patience) }

func patience(t *testing.T, o Options) {
	p := unacknowledged(t, o)
	sent := len(codectest.Transmit(p.client, p.now))
	var slowly []time.Duration
	for last := p.now; p.client.state == connected; {
		n := p.step()
		sent += n
		if n > 0 {
			if sent > 2*maxSends {
				slowly = append(slowly, p.now.Sub(last))
			}
			last = p.now
		}
	}
	if sent != 2*25 || len(slowly) != 10 {
		t.Errorf("%d transmissions of 2 messages, %d of each slowly; want 50 and 10", sent, len(slowly))
	}
	for _, after := range slowly {
		if after != 500*time.Millisecond {
			t.Errorf("sent again after %v, want 500 ms", after)
		}
	}
	e := wantKinds(t, p.client, codec.Lost, codec.Lost, codec.Disconnected)
	if e[2].Reason != codec.PoorConnection {
		t.Errorf("over for %v, want a poor connection", e[2].Reason)
	}
}

// TestOutage: a path that is dead for longer than 15 transmissions loses no message.
func TestOutage(t *testing.T) { eachPatient(t, outage) }

func outage(t *testing.T, o Options) {
	p := unacknowledged(t, o)
	codectest.Transmit(p.client, p.now)
	for p.client.flight.at(p.client.flight.oldest).sends < maxSends+2 {
		p.step()
	}
	p.atClient, p.atServer = nil, nil
	p.now = p.client.NextTimeout()
	for p.client.Stats().Queued > 0 && p.now.Sub(start) < 10*time.Second {
		p.client.Advance(p.now)
		p.exchange()
		p.now = p.client.NextTimeout()
	}
	if len(p.atServer) != 2 || len(p.atClient) != 2 || p.atClient[1].Kind != codec.Delivered {
		t.Errorf("server saw %+v, client %+v; want 2 messages delivered", p.atServer, p.atClient)
	}
}

// TestWelcomePatience20: the client's own Welcome is as patient as its messages. The server's stops after 15.
func TestWelcomePatience20(t *testing.T) {
	c := New(Options{Version: V20}).Dial(start, address, codec.Hello{}).(*Conn)
	if err := c.Receive(start, codectest.Unhex(t, "0801000100")); err != nil {
		t.Fatal(err)
	}
	sent := 0
	for now := start; c.state == connected && now.Sub(start) < time.Minute; now = c.NextTimeout() {
		c.Advance(now)
		for _, d := range codectest.Transmit(c, now) {
			if v20.kindOf(d) == kindWelcome {
				sent++
			}
		}
		c.heard = now
	}
	if e := wantKinds(t, c, codec.Connected, codec.Disconnected); e[1].Reason != codec.PoorConnection || sent != 25 {
		t.Errorf("over for %v after %d transmissions, want a poor connection after 25", e[1].Reason, sent)
	}
	s := newServer(t, Options{Version: V20}, "03")
	s.Admit(start, 1)
	codectest.Transmit(s, start)
	if now, sent := until(s, start.Add(time.Minute)); sent[kindWelcome] != maxSends-1 || now.Sub(start) != 5*time.Second {
		t.Errorf("server's Welcome resent %d times until %v, want 14 and 5 s", sent[kindWelcome], now.Sub(start))
	}
}

// TestQualityOfPatients: poor quality ends no connection of 2.0, and none over TCP.
func TestQualityOfPatients(t *testing.T) {
	eachPatient(t, func(t *testing.T, o Options) {
		if sent, over := poorLink(t, o, codec.Reliable); over {
			t.Errorf("over after %d messages", sent)
		}
	})
}

// TestToleratedPatience: while losses are tolerated, a message is sent slowly after 15 transmissions. Afterwards the
// connection is given up.
func TestToleratedPatience(t *testing.T) {
	p := unacknowledged(t, Options{})
	until := p.now.Add(3 * time.Second)
	p.client.TolerateLoss(until)
	for p.client.state == connected && p.now.Sub(until) < 10*time.Second {
		p.step()
		if p.client.state != connected && p.now.Before(until) {
			t.Fatalf("given up %v before the excuse was over", until.Sub(p.now))
		}
	}
	if over := p.now.Sub(until); p.client.state == connected || over > time.Second {
		t.Errorf("given up %v after the excuse was over, want within a second", over)
	}
	wantKinds(t, p.client, codec.Lost, codec.Lost, codec.Disconnected)
}

// TestToleratedQuality: losses while they are tolerated end no connection, then or later.
func TestToleratedQuality(t *testing.T) {
	p := newPair(t, Options{})
	later := p.now.Add(time.Second)
	for range 3 * qualityRuns {
		p.client.TolerateLoss(later)
		if p.client.sends.delivered(maxSends) {
			t.Fatal("a connection that tolerates losses is too poor")
		}
	}
	for i := range qualityRuns - 1 {
		if p.client.sends.delivered(maxSends) && i < qualityRuns-2 {
			t.Fatalf("too poor after %d measures, want %d", i+1, qualityRuns)
		}
	}
}

// TestReflectedSilence mutes each end in turn. It shows its peer no sign of life, though messages pass. The peer is
// heard for longer, and the muted client sends the heartbeat that it owes as soon as it may.
func TestReflectedSilence(t *testing.T) {
	for _, muted := range []string{"client", "server"} {
		p := newPair(t, Options{})
		mute, other := p.client, p.server
		if muted == "server" {
			mute, other = p.server, p.client
		}
		pass := func(d time.Duration) {
			for end := p.now.Add(d); p.now.Before(end); p.now = p.now.Add(50 * time.Millisecond) {
				p.client.Advance(p.now)
				p.server.Advance(p.now)
				p.exchange()
			}
		}
		pass(2 * time.Second)
		if mute.Reflect(true, true); other.IsSilent(p.now) {
			t.Fatalf("%s: silent too early", muted)
		}
		pass(4 * time.Second)
		if err := mute.Send(p.now, codec.Message{Mode: codec.Reliable, HasID: true}); err != nil || !other.IsSilent(p.now) {
			t.Errorf("muted %s: error %v, silent %v", muted, err, other.IsSilent(p.now))
		}
		if p.exchange(); other.flight.bytes != 0 || mute.flight.bytes != 0 {
			t.Errorf("muted %s: messages wait", muted)
		}
		mute.Reflect(false, true)
		if pass(1100 * time.Millisecond); other.IsSilent(p.now) || mute.state != connected {
			t.Errorf("muted %s: silent afterwards", muted)
		}
		mute.Reflect(true, false)
		if pass(7 * time.Second); other.state != closed {
			t.Errorf("muted %s: its peer waits for ever", muted)
		}
		q := newPair(t, Options{TimeoutTime: 2 * time.Second})
		q.server.Reflect(false, true)
		if got := q.server.deadline().Sub(q.now); got != longestSilence {
			t.Errorf("a peer whose silence is shown is lost after %v", got)
		}
	}
}

// TestOwnSilenceEndsWithAGoodbye: a server may have no time-out of its own. So a client whose silence is its own says
// goodbye in the end. One that does not hear its server says nothing, as the library's.
func TestOwnSilenceEndsWithAGoodbye(t *testing.T) {
	muted, deaf := newPair(t, Options{}).client, newPair(t, Options{}).client
	muted.Reflect(true, false)
	for c, want := range map[*Conn][]string{tentative(t): {"05"}, muted: {"05"}, deaf: nil} {
		now := start.Add(time.Minute)
		if c.Advance(now); c.state != closed {
			t.Errorf("after a minute of silence the client is in state %d", c.state)
		}
		wantSent(t, c, now, want...)
	}
}
