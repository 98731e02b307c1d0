package riptide

import (
	"math/rand/v2"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

const ms = time.Millisecond

// library is a model of the C# library of 2.1+ in session. Its loop ticks. Each tick first resends messages, and then
// reads the socket. A message goes out again after 1.2 round trips, at least 10 ms, 15 times. A server knows the round
// trip from its client's heartbeats, and a client from the answers.
type library struct {
	server   bool
	tick     time.Duration
	next     time.Time // tick
	smooth   time.Duration
	known    bool
	number   seq
	pending  map[seq]*libraryMessage
	inbox    [][]byte
	out      [][]byte
	received window
	over     bool

	pingAt, beatAt  time.Time
	ping            uint8
	messages, sends int
	has             map[seq]bool // received
	doubled         int          // received again
}

type libraryMessage struct {
	datagram []byte
	sentAt   time.Time
	sends    int
}

func newLibrary(rng *rand.Rand, server bool, tick time.Duration) *library {
	phase := time.Duration(rng.Int64N(int64(tick)))
	return &library{
		server: server, tick: tick, next: start.Add(phase), beatAt: start.Add(phase), number: firstSeq + 1,
		pending: map[seq]*libraryMessage{}, has: map[seq]bool{}, received: newWindow(firstSeq + 1),
	}
}

func (l *library) learn(rtt time.Duration) {
	if rtt < 0 {
		return
	}
	if !l.known {
		l.known, l.smooth = true, rtt
	}
	l.smooth = max((7*l.smooth+3*rtt)/10, ms)
}

func (l *library) retry() time.Duration {
	if !l.known {
		return firstResend
	}
	return max(minimumResend, l.smooth*6/5)
}

func (l *library) transmit(now time.Time, m *libraryMessage) {
	m.sends++
	m.sentAt = now
	l.sends++
	l.out = append(l.out, m.datagram)
}

// send sends a reliable message.
func (l *library) send(now time.Time) {
	h := userHeader{reliable: true, seq: l.number, id: 1}
	m := &libraryMessage{datagram: v22.append(nil, kindReliable, h.append(v22, nil), nil, 0)}
	l.pending[l.number] = m
	l.number++
	l.messages++
	l.transmit(now, m)
}

// step plays the tick that is due, if one is. Then the game sends.
func (l *library) step(now time.Time, game func()) {
	if l.over || now.Before(l.next) {
		return
	}
	l.next = l.next.Add(l.tick)
	for _, m := range l.pending {
		if now.Sub(m.sentAt) < l.retry() {
			continue
		}
		if m.sends == maxSends {
			l.over = true
			return
		}
		l.transmit(now, m)
	}
	if !l.server && !now.Before(l.beatAt) {
		l.beatAt = l.beatAt.Add(time.Second)
		h := heartbeat{ping: l.ping, rtt: -1}
		if l.known {
			h.rtt = int16(l.smooth / ms)
		}
		l.pingAt = now
		l.out = append(l.out, h.append(v22, nil))
	}
	for _, d := range l.inbox {
		l.read(now, d)
	}
	l.inbox = nil
	game()
}

func (l *library) read(now time.Time, d []byte) {
	switch v22.kindOf(d) {
	case kindAck:
		var a ack
		_ = a.parse(v22, d)
		delete(l.pending, a.forSeq)
		delete(l.pending, a.last)
		for i := range seq(16) {
			if a.bits&(1<<i) != 0 {
				delete(l.pending, a.last-i-1)
			}
		}
	case kindReliable:
		s := seq(v22.uint16At(d, 0))
		l.received.add(now, s, 0, time.Hour)
		if l.has[s] {
			l.doubled++
		}
		l.has[s] = true
		a := l.received.acknowledge(s)
		l.out = append(l.out, a.append(v22, nil))
	case kindHeartbeat:
		if l.server {
			var h heartbeat
			_ = h.parse(v22, d)
			l.learn(time.Duration(h.rtt) * ms)
			l.out = append(l.out, appendHeartbeatAnswer(v22, nil, h.ping))
			return
		}
		l.ping++
		l.learn(now.Sub(l.pingAt))
	}
}

// wire carries datagrams with a delay. While it is cut, it loses them.
type wire struct {
	delay time.Duration
	cut   bool
	under []parcel
}

type parcel struct {
	at       time.Time
	datagram []byte
}

func (w *wire) put(now time.Time, datagrams [][]byte) {
	for _, d := range datagrams {
		if !w.cut {
			w.under = append(w.under, parcel{now.Add(w.delay), d})
		}
	}
}

func (w *wire) take(now time.Time) (arrived [][]byte) {
	for len(w.under) > 0 && !now.Before(w.under[0].at) {
		arrived = append(arrived, w.under[0].datagram)
		w.under = w.under[1:]
	}
	return arrived
}

// trip is a session between two libraries: direct, or through a proxy near the server that has our two ends.
type trip struct {
	now            time.Time
	client, server *library
	near, far      *Conn // to the server, and to the client; nil: direct
	legs           [2][2]*wire
}

const (
	playerLeg = iota
	serverLeg
)

// newTrip makes a session over a path of some latency each way, between loops of some ticks.
func newTrip(t *testing.T, seed uint64, server, client, latency time.Duration, direct bool) *trip {
	rng := rand.New(rand.NewPCG(seed, 12))
	x := &trip{now: start, client: newLibrary(rng, false, client), server: newLibrary(rng, true, server)}
	for i, delay := range []time.Duration{latency, ms / 2} {
		x.legs[i] = [2]*wire{{delay: delay}, {delay: delay}}
	}
	if !direct {
		p := newPair(t, Options{})
		x.near, x.far = p.client, p.server
	}
	return x
}

// step plays a millisecond. Both games send 20 reliable messages a second.
func (x *trip) step() {
	since := x.now.Sub(start)
	for _, l := range []*library{x.client, x.server} {
		l.step(x.now, func() {
			for l.messages < int(since/(50*ms)) {
				l.send(x.now)
			}
		})
	}
	up, down := 0, 1
	if x.near == nil {
		x.legs[playerLeg][up].put(x.now, x.client.out)
		x.legs[playerLeg][down].put(x.now, x.server.out)
		x.server.inbox = append(x.server.inbox, x.legs[playerLeg][up].take(x.now)...)
		x.client.inbox = append(x.client.inbox, x.legs[playerLeg][down].take(x.now)...)
	} else {
		x.legs[playerLeg][up].put(x.now, x.client.out)
		x.legs[serverLeg][down].put(x.now, x.server.out)
		x.proxy(x.far, x.near, x.legs[playerLeg][up], x.legs[playerLeg][down])
		x.proxy(x.near, x.far, x.legs[serverLeg][down], x.legs[serverLeg][up])
		x.client.inbox = append(x.client.inbox, x.legs[playerLeg][down].take(x.now)...)
		x.server.inbox = append(x.server.inbox, x.legs[serverLeg][up].take(x.now)...)
	}
	x.client.out, x.server.out = nil, nil
	x.now = x.now.Add(ms)
}

// proxy plays one of our ends. Its messages go to the other one.
func (x *trip) proxy(c, other *Conn, in, out *wire) {
	for _, d := range in.take(x.now) {
		_ = c.Receive(x.now, d)
		for _, e := range codectest.Drain(c) {
			if e.Kind == codec.Received {
				_ = other.Send(x.now, e.Message)
			}
		}
	}
	if c == x.near {
		c.FarRTT(other.Stats().RTT)
		other.FarRTT(c.ServerRTT())
	}
	c.Advance(x.now)
	codectest.Drain(c)
	out.put(x.now, codectest.Transmit(c, x.now))
	other.Advance(x.now)
}

func (x *trip) run(d time.Duration) {
	for end := x.now.Add(d); x.now.Before(end); {
		x.step()
	}
}

func (x *trip) cut(leg int, cut bool) {
	for _, w := range x.legs[leg] {
		w.cut = cut
	}
}

// alive reports whether the session lives at all ends.
func (x *trip) alive() bool {
	return !x.client.over && !x.server.over && (x.near == nil || x.near.state == connected && x.far.state == connected)
}

const trips = 8

// TestCutsAreBorne cuts each leg of the path for a while. Where a session lives without us, it lives with us. On the
// player's leg the player's own library decides, by the place of its heartbeats between the ticks of the server. So
// there only the sum of all cuts is never less.
func TestCutsAreBorne(t *testing.T) {
	for _, hz := range [][2]time.Duration{{60, 60}, {50, 60}, {20, 60}, {20, 20}} {
		for _, latency := range []time.Duration{ms / 2, 30 * ms, 100 * ms} {
			var all [2]int // on the player's leg, direct and through
			for _, d := range []time.Duration{250 * ms, 400 * ms, 700 * ms, 1000 * ms} {
				var direct int
				var through [2]int
				for seed := range uint64(trips) {
					play := func(isDirect bool, leg int) int {
						x := newTrip(t, seed, time.Second/hz[0], time.Second/hz[1], latency, isDirect)
						x.run(4 * time.Second)
						x.cut(leg, true)
						x.run(d)
						x.cut(leg, false)
						x.run(time.Second)
						if x.alive() {
							return 1
						}
						return 0
					}
					direct += play(true, playerLeg)
					for leg := range through {
						through[leg] += play(false, leg)
					}
				}
				t.Logf("%d and %d Hz, path of %v, cut of %v: alive of %d: direct %d, player's leg %d, server's leg %d",
					hz[0], hz[1], latency, d, trips, direct, through[0], through[1])
				if through[serverLeg] < direct {
					t.Errorf("%d and %d Hz, path of %v, cut of %v: worse than direct", hz[0], hz[1], latency, d)
				}
				all[0], all[1] = all[0]+direct, all[1]+through[playerLeg]
			}
			if all[1] < all[0] {
				t.Errorf("%d and %d Hz, path of %v: %d alive, direct %d", hz[0], hz[1], latency, all[1], all[0])
			}
		}
	}
}

// TestServersSendOnce: a server sends each message once, knows the player's whole round trip, and a player receives
// few duplicates.
func TestServersSendOnce(t *testing.T) {
	for _, tick := range []time.Duration{time.Second / 60, time.Second / 50, time.Second / 30, time.Second / 20} {
		for _, latency := range []time.Duration{ms / 2, 30 * ms, 100 * ms} {
			var of [2]library
			var doubled [2]int
			got := 0
			for seed := range uint64(trips) {
				for i, direct := range []bool{true, false} {
					x := newTrip(t, seed, tick, time.Second/60, latency, direct)
					x.run(10 * time.Second)
					of[i].messages += x.server.messages
					of[i].sends += x.server.sends
					of[i].smooth += x.server.smooth / trips
					doubled[i] += x.client.doubled
					got += len(x.client.has)
				}
			}
			mean := func(l *library) float64 { return float64(l.sends) / float64(l.messages) }
			what := "server of %v, path of %v: sends %.2f (direct %.2f), round trip %v (%v), duplicates %d (%d) of %d"
			t.Logf(what, tick, latency, mean(&of[1]), mean(&of[0]), of[1].smooth, of[0].smooth, doubled[1], doubled[0], got/2)
			if m := mean(&of[1]); m > 1.1 {
				t.Errorf("server of %v, path of %v: %.2f sends of a message", tick, latency, m)
			}
			if of[1].smooth < of[0].smooth-25*ms || of[1].smooth > of[0].smooth+35*ms {
				t.Errorf("server of %v, path of %v: the server sees another round trip", tick, latency)
			}
		}
	}
}
