package relay

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/nethernet"
	"tidegate/codec/raknet"
	"tidegate/internal/joining"
	"tidegate/internal/policy"
	"tidegate/proxy/relay/recording"
	"tidegate/proxy/stats"
)

// fakeStack is a client's stack whose other end is the test.
type fakeStack struct {
	wake      func()
	out       nethernet.Delivery
	got, sent [][]byte // datagrams and messages
	paused    bool
	closed    string
	abandoned bool
}

func (s *fakeStack) Datagram(b []byte) { s.got = append(s.got, bytes.Clone(b)) }

func (s *fakeStack) Send(b []byte, _ bool) error {
	s.sent = append(s.sent, bytes.Clone(b))
	return nil
}

func (s *fakeStack) Take(to *nethernet.Delivery) { s.out.MoveTo(to) }
func (s *fakeStack) Pause(on bool)               { s.paused = on }
func (s *fakeStack) Load() (queued, held int)    { return 0, 0 }
func (s *fakeStack) RTT() time.Duration          { return 0 }
func (s *fakeStack) Close(text string)           { s.closed = text }
func (s *fakeStack) Abandon()                    { s.abandoned = true }

// stackedRelay is a Relay on a route that terminates, with NetherNet clients and RakNet servers.
type stackedRelay struct {
	*edgeRelay
	stacks []*fakeStack
	full   error
}

// Accept implements Stacks.
func (w *stackedRelay) Accept(_ *nethernet.Peer, wake func()) (nethernet.Stack, error) {
	if w.full != nil {
		return nil, w.full
	}
	s := &fakeStack{wake: wake, paused: true}
	w.stacks = append(w.stacks, s)
	return s, nil
}

func newStacked(t testing.TB, change ...func(*Upstream)) *stackedRelay {
	w := &stackedRelay{edgeRelay: new(edgeRelay)}
	w.tickets = joining.NewTickets(edgeLimits, func(j joining.Join) { w.ended = append(w.ended, j) })
	w.plainRelay = newPlainRelay(t, NetherNet, func(s *Settings) {
		s.Listeners[0].Joins, s.Listeners[0].Stacks = w.tickets, w
		route := *s.Listeners[0].Route
		u := *route.Upstream
		u.Protocol = raknet.New(raknet.Options{Name: "bedrock", DialVersion: 11, OrderedOnly: true, MaxMTU: 1400})
		route.Upstream, route.Mode = &u, policy.ModeTerminate
		for _, one := range change {
			one(&u)
		}
		route.Bridge.Queue = 1 << 20
		s.Listeners[0].Route = &route
	})
	return w
}

// joinStacked makes a join that this process has answered.
func (w *stackedRelay) joinStacked(name string) *joining.Ticket {
	w.t.Helper()
	t, err := w.tickets.Ask(w.now, name, "arena", edgeMeeting, listenerAddr)
	if err != nil {
		w.t.Fatal(err)
	}
	t.ServerUfrag, t.ServerPassword, t.ClientUfrag = "srv"+name, "password of 22 letters "+name, "cli"+name
	t.Target, t.Peer = listenerAddr, &nethernet.Peer{}
	if err := w.tickets.Answer(w.now, t); err != nil {
		w.t.Fatal(err)
	}
	return t
}

// woken lets the Relay take a turn after a stack has woken it, and returns what the Relay has sent.
func (w *stackedRelay) woken(s *fakeStack) []simDatagram {
	w.out = w.out[:0]
	s.wake()
	w.relay.Advance(w.now)
	w.relay.Flush(w.now)
	return w.out
}

// TestStacked admits a client, answers its checks from each of its addresses, and lets datagrams and messages pass. The
// server is asked once the channels are open.
func TestStacked(t *testing.T) {
	w := newStacked(t)
	captured := recording.NewSpool(&recording.CaptureFilter{Session: 1}, make(chan struct{}, 1))
	w.relay.capture(captured)
	ticket := w.joinStacked("a")
	first, second := playerAddr(1), playerAddr(2)
	for _, from := range []netip.AddrPort{first, second, first} {
		request := w.request(ticket, from == first)
		out := w.hears(from, request)
		var b nethernet.Binding
		if len(out) != 1 || out[0].to != from || b.Parse(out[0].bytes) != nil || b.Class != nethernet.Success ||
			b.Mapped != from || !nethernet.NewIntegrity().Verify(&b, ticket.Told().ServerPassword) {
			t.Fatalf("%v: %v", from, out)
		}
	}
	if len(w.stacks) != 1 {
		t.Fatalf("%d stacks", len(w.stacks))
	}
	w.relay.endCapture(captured)
	if all := fmt.Sprint(told(captured)); !strings.Contains(all, " came from "+first.String()) {
		t.Errorf("the capture does not say how the player has joined: %s", all)
	}
	s := w.stacks[0]
	s.out.AddDatagram(edgeRecord)
	if out := w.woken(s); len(out) != 1 || out[0].to != first || !bytes.Equal(out[0].bytes, edgeRecord) {
		t.Fatalf("the stack's datagram became %v", out)
	}
	if out := w.hears(second, edgeRecord); len(out) != 0 || len(s.got) != 1 {
		t.Fatalf("%v; the stack got %d datagrams", out, len(s.got))
	}
	if out := w.hears(playerAddr(9), edgeRecord); len(out) != 0 || len(s.got) != 1 {
		t.Fatal("a stranger's datagram reached the stack")
	}
	if n := w.relay.HoldStacked(true); n != 1 {
		t.Errorf("%d clients have half-open channels", n)
	}
	if n, behind := w.relay.DismissStacked(w.now.Add(-time.Hour)); n != 0 || behind != 1 || s.closed != "" {
		t.Errorf("%d dismissed, %d behind, of a client without channels", n, behind)
	}
	s.out.Open = true
	out := w.woken(s)
	if len(out) != 1 || out[0].to != serverAddr || out[0].bytes[0] != 5 { // RakNet's request for a connection
		t.Fatalf("the server was not asked: %v", out)
	}
	w.relay.Advance(w.now)
	if n := w.relay.HoldStacked(true); n != 0 || s.closed != "" {
		t.Errorf("%d clients have half-open channels, and one reads %q before the successor runs", n, s.closed)
	}
	for again := range 2 {
		n, behind := w.relay.DismissStacked(w.now)
		if n != 1-again || behind != 0 || s.closed != joinAgain || w.relay.PartStacked(w.now) != 1 {
			t.Errorf("%d dismissed, %q", n, s.closed)
		}
	}
	s.out.End = nethernet.End{Reason: codec.Closed, Err: errors.New("why")}
	w.woken(s)
	w.wait(20 * time.Second)
	if w.relay.Len() != 0 || !s.abandoned || len(w.ended) != 1 || w.ended[0].Stage != joining.Ended {
		t.Errorf("%d sessions; abandoned: %v; ended: %v", w.relay.Len(), s.abandoned, w.ended)
	}
	if j := w.relay.listeners[0].joins; len(j.sources)+len(j.sessions) != 0 {
		t.Errorf("%d addresses and %d sessions are left", len(j.sources), len(j.sessions))
	}
	w.woken(s) // a late wake concerns no session
}

// TestStackedRefused refuses clients without a stack. The ends of their joins and the drops say why.
func TestStackedRefused(t *testing.T) {
	for drop, err := range map[stats.Drop]error{
		stats.DropHalfOpen: nethernet.ErrBusy, stats.DropUnknownProtocol: errors.New("another certificate"),
	} {
		w := newStacked(t)
		w.full = err
		ticket := w.joinStacked("a")
		if out := w.hears(playerAddr(1), w.request(ticket, true)); len(out) != 0 || w.relay.Len() != 0 {
			t.Errorf("%v, %d sessions", out, w.relay.Len())
		}
		if w.relay.counters.Drops[drop] != 1 || len(w.ended) != 1 || w.ended[0].Reason != err.Error() {
			t.Errorf("%v: %v; %v", err, w.relay.counters.Drops, w.ended)
		}
	}
}

// TestStackedSilence ends the session of a client that joined over HTTP, was admitted, and then fell silent.
func TestStackedSilence(t *testing.T) {
	w := newStacked(t)
	w.hears(playerAddr(1), w.request(w.joinStacked("a"), true))
	w.relay.Flush(w.now)
	w.wait(w.settings.HandshakeTimeout)
	if w.stacks[0].closed == "" {
		t.Error("the player was not told")
	}
	w.wait(lingerTime)
	w.wait(0)
	if w.relay.Len() != 0 || !w.stacks[0].abandoned {
		t.Errorf("%d sessions; abandoned: %v", w.relay.Len(), w.stacks[0].abandoned)
	}
}

// TestStackedIsNotSaved keeps such sessions from a successor.
func TestStackedIsNotSaved(t *testing.T) {
	w := newStacked(t)
	w.hears(playerAddr(1), w.request(w.joinStacked("a"), true))
	x := BeginExport(w.relay, w.now, false, nil)
	for _, write := range x.batches(1) {
		if b := write(); len(b) > 0 {
			t.Errorf("%d bytes", len(b))
		}
	}
	for e := range w.relay.table.All {
		if why := staysHere(w.relay, e); why == "" || copyCalm(w.relay, w.now, e) == copying {
			t.Error("it can leave")
		}
	}
}
