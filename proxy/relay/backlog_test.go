package relay

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/testkit/allocs"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/stats"
)

// mostBacklog datagrams may wait at once. Beyond that, one stranger's datagram in heardOf is handled.
const (
	mostBacklog = 512
	heardOf     = 8
)

// backlogOf returns the Backlog of a loop that has read a number of datagrams, and has not found the buffer empty.
func backlogOf(now time.Time, read int) (b admission.Backlog) {
	b.Drained()
	for range read {
		b.Count(now)
	}
	return b
}

// TestStrangersAreShedWhenBehind reads more datagrams than may wait at once. Then the Relay hears one of eight
// strangers, and every player, until all input has been read.
func TestStrangersAreShedWhenBehind(t *testing.T) {
	p := newPlainRelay(t, Any, unchanged)
	p.meet(0, 0, serverAddr)
	p.relay.InputDrained()
	n := 0
	flood := func(datagrams int) (shed uint64) {
		before := p.relay.counters.Drops[stats.DropOverload]
		for range datagrams {
			n++
			p.Receive(p.now, strangerAddr(n), listenerAddr, []byte("hello"))
		}
		return p.relay.counters.Drops[stats.DropOverload] - before
	}
	if shed := flood(mostBacklog); shed != 0 {
		t.Errorf("%d of the first %d were not listened to", shed, mostBacklog)
	}
	if shed := flood(8 * heardOf); shed != 7*heardOf {
		t.Errorf("%d of %d were not listened to, want %d", shed, 8*heardOf, 7*heardOf)
	}
	for range 100 {
		p.up(0, 0, serverAddr, []byte("play"))
	}
	p.relay.InputDrained()
	if shed := flood(mostBacklog); shed != 0 {
		t.Errorf("%d were not listened to after all had been read", shed)
	}
}

// TestNobodyIsShedUnknowingly asserts that the Relay hears all strangers if no backend reports the end of input.
func TestNobodyIsShedUnknowingly(t *testing.T) {
	p := newPlainRelay(t, Any, unchanged)
	for i := range 4 * mostBacklog {
		p.Receive(p.now, strangerAddr(i), listenerAddr, []byte("hello"))
	}
	if shed := p.relay.counters.Drops[stats.DropOverload]; shed != 0 {
		t.Errorf("%d were not listened to", shed)
	}
}

// TestSheddingIsCheap asserts that shedding allocates nothing. It logs one line for each flood, with the number of
// suppressed lines.
func TestSheddingIsCheap(t *testing.T) {
	p := newPlainRelay(t, Any, unchanged)
	p.relay.backlog = backlogOf(p.now, mostBacklog)
	hello := []byte("hello")
	p.Receive(p.now, strangerAddr(1), listenerAddr, hello)
	flooded := p.relay.backlog
	shed := func() {
		p.relay.backlog = flooded // the next one is not the one of eight
		p.Receive(p.now, strangerAddr(1), listenerAddr, hello)
	}
	if n := allocs.PerRun(1000, shed); n != 0 {
		t.Errorf("%v allocations for each", n)
	}
	if told, all := p.relay.journal.lines.suppressed[stats.DropOverload],
		p.relay.counters.Drops[stats.DropOverload]; told != all-1 {
		t.Errorf("%d of %d left suppressed, want all but one", told, all)
	}
}

// TestRepliesAreBounded asserts that small answers have a budget of their own, for each network and for all. Small
// answers are not larger than their questions.
func TestRepliesAreBounded(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{}, raknet6(), defaultRoute(raknet6()))
	ping := append(make([]byte, 9), "\x00\xff\xff\x00\xfe\xfe\xfe\xfe\xfd\xfd\xfd\xfd\x12\x34\x56\x78"...)
	ping[0] = 1
	ping = append(ping, make([]byte, 8)...)
	send := func(i int) {
		w.proxy.Receive(w.Now(), strangerAddr(i), listenerAddr, ping)
	}
	for range repliesNetwork + 50 {
		send(0)
	}
	if n := w.drops(stats.DropReplyBudget); n != 50 {
		t.Errorf("%d questions of one network were not answered, want 50", n)
	}
	before := w.drops(stats.DropReplyBudget)
	for i := range repliesOverall {
		send(1 + i%2000)
	}
	if n := w.drops(stats.DropReplyBudget) - before; n < repliesNetwork {
		t.Errorf("%d questions of all networks were not answered, want those beyond %d", n, repliesOverall)
	}
}

// TestWhatOpensIsAnybodysWhenBehind covers datagrams that only open a session. A player in a session never sends
// them, so they may be forged. In a flood the Relay sheds them like a stranger's, even from a player's address.
func TestWhatOpensIsAnybodysWhenBehind(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{}, raknet6(), defaultRoute(raknet6()))
	player := w.connect(codec.Hello{})
	r := w.proxy.relay
	r.backlog = backlogOf(w.Now(), mostBacklog)
	request := append([]byte{5}, "\x00\xff\xff\x00\xfe\xfe\xfe\xfe\xfd\xfd\xfd\xfd\x12\x34\x56\x78\x06"...)
	for range 8 * heardOf {
		w.proxy.Receive(w.Now(), player.addr, listenerAddr, request)
	}
	if shed := w.drops(stats.DropOverload); shed != 7*heardOf {
		t.Errorf("%d of %d were shed, want %d", shed, 8*heardOf, 7*heardOf)
	}
	for range 8 * heardOf {
		w.proxy.Receive(w.Now(), player.addr, listenerAddr, []byte{0x84, 0, 0, 0})
	}
	if shed := w.drops(stats.DropOverload); shed != 7*heardOf {
		t.Errorf("%d of the player's own were shed", shed-7*heardOf)
	}
}

// TestAllAskTwiceWhenBehind asserts that every new client must ask twice in a flood, because opening a session takes
// long.
func TestAllAskTwiceWhenBehind(t *testing.T) {
	p := newPlainRelay(t, Any, unchanged)
	heardNext := backlogOf(p.now, heardOf*mostBacklog-1)
	p.relay.backlog = heardNext
	p.swallow(playerAddr(0), listenerAddr, []byte("first"), stats.DropAskAgain)
	p.relay.backlog = heardNext
	p.meet(0, 0, serverAddr)
	p.relay.InputDrained()
	p.meet(1, 1, secondAddr)
}

// TestStreamsAreNotShed asserts that a client over TCP gets in while more datagrams come than the loop can read. Its
// first frame is not repeated, since a stream loses nothing, and its address is proved.
func TestStreamsAreNotShed(t *testing.T) {
	w := streamWorld(t, func(*Route) {})
	for range 20 {
		p := w.join(codec.Hello{})
		for range 100 {
			w.proxy.relay.backlog = backlogOf(w.Now(), mostBacklog+1)
			w.Run(time.Millisecond)
		}
		if p.find(codec.Connected) == nil {
			t.Fatalf("not connected; drops: %v", w.proxy.relay.counters.Drops)
		}
	}
}
