package raknet

import (
	"testing"
	"time"

	"tidegate/codec"
)

// silentServer returns a link whose server says nothing more, and whose client, our end, must notice soon.
func silentServer(t *testing.T, idle time.Duration) *link {
	l := newConnected(t, Options{})
	l.client.Reflect(false, true)
	l.wait(idle)
	l.drop = func(toServer bool, _ []byte) bool { return !toServer }
	return l
}

// TestSilentServer: a server that owes an answer for a second is silent, and one that owes nothing is asked soon. A
// busy or an idle one that lives never is.
func TestSilentServer(t *testing.T) {
	alive := newConnected(t, Options{})
	alive.client.Reflect(false, true)
	for i := range 300 {
		if alive.wait(100 * ms); i%30 < 10 {
			alive.send(alive.client, codec.Reliable, 20, 0)
		}
		if alive.client.IsSilent(alive.now) || alive.server.IsSilent(alive.now) {
			t.Fatalf("a living peer is silent after %v", alive.now.Sub(linkStart))
		}
	}
	for _, idle := range []time.Duration{0, 3 * time.Second, 20 * time.Second} {
		l := silentServer(t, idle)
		since := l.now
		for !l.client.IsSilent(l.now) {
			l.wait(10 * ms)
		}
		if took := l.now.Sub(since); took < leastSilence || took > 2500*ms+leastSilence+50*ms {
			t.Errorf("a server that is idle for %v is silent after %v", idle, took)
		}
		l = silentServer(t, idle)
		l.send(l.client, codec.Reliable, 20, 0)
		l.wait(leastSilence - 10*ms)
		if early := l.client.IsSilent(l.now); early {
			t.Error("silent too early")
		}
		if l.wait(20 * ms); !l.client.IsSilent(l.now) {
			t.Error("not silent, though it owes an answer for a second")
		}
	}
}

// TestSilenceIsShown: a C++ player of a silent server gets no datagram, and gives up by its own time-out. When the
// server is heard again in time, all is acknowledged at once. The end of a lost server is silent, too.
func TestSilenceIsShown(t *testing.T) {
	l := newConnected(t, Options{})
	sent := 0
	l.drop = func(toServer bool, _ []byte) bool {
		if !toServer {
			sent++
		}
		return false
	}
	ping := connectedPing{time: 1}
	l.client.sender.enqueueControl(l.now.Sub(linkStart), codec.Unreliable, ping.append(nil), 0)
	l.server.keepalive.Far = 100 * ms
	l.exchange() // a pong waits
	l.server.Reflect(true, true)
	sent = 0
	for range 100 {
		l.send(l.client, codec.ReliableOrdered, 20, 0)
		l.wait(90 * ms)
	}
	if sent > 0 || has(l.toClient, codec.Disconnected) || count(l.toServer, codec.Received) != 100 {
		t.Fatalf("%d datagrams to a player of a silent server; %d and %d events", sent, len(l.toClient), len(l.toServer))
	}
	if !l.server.Reflect(false, true) || l.server.Reflect(false, true) {
		t.Error("not released, or twice")
	}
	if l.exchange(); sent == 0 || !l.client.sender.settled() {
		t.Errorf("%d datagrams when the server is heard again, settled %v", sent, l.client.sender.settled())
	}
	l.send(l.client, codec.ReliableOrdered, 20, 0)
	l.server.Reflect(true, true)
	l.exchange()
	sent = 0
	l.server.Close(l.now, codec.Goodbye{Reason: codec.ServerStopped, Lost: true})
	l.wait(11 * time.Second)
	if at, after := ending(t, l.toServer), ending(t, l.toClient); sent > 0 || at != codec.ServerStopped ||
		after != codec.TimedOut {
		t.Errorf("%d datagrams after a loss; ended as %v and %v", sent, at, after)
	}
}

// TestBedrockIsTold: a player of a later version is shown no silence, and gets a goodbye.
func TestBedrockIsTold(t *testing.T) {
	l := newConnected(t, Options{DialVersion: 11})
	if l.server.Reflects() || l.client.Reflects() || !newConnected(t, Options{}).server.Reflects() {
		t.Fatal("only C++ players are shown silence")
	}
	l.server.Close(l.now, codec.Goodbye{Reason: codec.ServerStopped, Lost: true})
	if l.wait(5 * time.Second); ending(t, l.toClient) != codec.Closed {
		t.Errorf("ended as %v, want closed", ending(t, l.toClient))
	}
}
