package codectest

import (
	"flag"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
)

var forgedGoodbyes = flag.Int("forged.goodbyes", 100, "forged goodbyes to each side while datagrams are lost")

const (
	idleBefore  = 1200 * time.Millisecond // between the handshake and a forged goodbye
	goodbyeWait = 5 * time.Second         // until a forged goodbye is believed
	// believable is the share of forged goodbyes that may end a silent session with lossy20: all signs of life of a peer
	// may be lost.
	believable = 0.02
)

// lossy20 is a network that loses a tenth of the datagrams.
var lossy20 = simnet.Weather{Latency: 20 * time.Millisecond, Loss: 0.1}

// stopSeeds is the number of forged goodbyes to each side before each stop.
const stopSeeds = 10

// stops are for how long a process stands still after a forged goodbye.
var stops = []time.Duration{300 * time.Millisecond, 900 * time.Millisecond}

// checkForgedGoodbye has a forger say goodbye in the name of each side, while no side has a message to send, and either
// the network loses datagrams or the process of the side that hears the goodbye stands still.
func checkForgedGoodbye(t tb, c *Config) {
	if c.Defenceless != "" {
		return
	}
	for _, f := range []*forgedGoodbye{
		{
			name: clientName, from: clientAddr, to: serverAddr,
			sayer:  func(p *pair) *side { return p.client },
			hearer: func(p *pair) *side { return p.server },
		},
		{
			name: serverName, from: serverAddr, to: clientAddr,
			sayer:  func(p *pair) *side { return p.server },
			hearer: func(p *pair) *side { return p.client },
		},
	} {
		said, ended := f.play(t, c, *forgedGoodbyes, func(p *pair, say func()) {
			p.net.SetWeather(lossy20)
			say()
		})
		t.Logf("%d of %d forged goodbyes of a %s are believed with %.0f %% loss", ended, said, f.name, 100*lossy20.Loss)
		if float64(ended) > 1+believable*float64(said) {
			t.Errorf("%d of %d forged goodbyes of a %s are believed", ended, said, f.name)
		}
		for _, d := range stops {
			f.checkStop(t, c, d)
		}
	}
}

// checkStop lets the process of the side that hears a forged goodbye stand still for a time. What arrives meanwhile is
// lost, also the answers to a codec's questions. A session that such a stop ends without a goodbye does not count.
func (f *forgedGoodbye) checkStop(t tb, c *Config, d time.Duration) {
	standStill := func(p *pair) {
		p.net.Run(10 * time.Millisecond)
		f.hearer(p).stopped = true
		p.net.Run(d)
		f.hearer(p).stopped = false
	}
	if _, ended := f.play(t, c, 1, func(p *pair, _ func()) { standStill(p) }); ended > 0 {
		return
	}
	said, ended := f.play(t, c, stopSeeds, func(p *pair, say func()) {
		say()
		standStill(p)
	})
	if ended > 0 {
		t.Errorf("%d of %d forged goodbyes of a %s are believed after a stop of %v", ended, said, f.name, d)
	}
}

// forgedGoodbye is a goodbye in the name of one side.
type forgedGoodbye struct {
	name          string
	from, to      netip.AddrPort
	sayer, hearer func(*pair) *side
}

// play plays sessions in which the forger says goodbye, and returns how many did, and how many sessions ended. The
// forger copies a goodbye from a session of its own, which is as old. So it has the right numbers, if they are not
// random.
func (f *forgedGoodbye) play(t tb, c *Config, seeds int, run func(p *pair, say func())) (said, ended int) {
	simulateSeeds(t, seeds, func(r *report, seed uint64) {
		twin, p := connectedPair(r, c, seed+1000), connectedPair(r, c, seed)
		if twin == nil || p == nil {
			return
		}
		twin.net.Run(idleBefore)
		p.net.Run(idleBefore)
		twin.net.SetTap(func(from, _ netip.AddrPort, datagram []byte) {
			if from == f.from {
				p.net.Inject(0, f.from, f.to, append([]byte(nil), datagram...))
			}
		})
		run(p, func() {
			f.sayer(twin).conn.Close(twin.net.Now(), codec.Goodbye{Reason: codec.Closed})
			twin.net.Run(time.Millisecond)
		})
		p.net.Run(goodbyeWait)
		if said++; p.client.over || p.server.over {
			ended++
		}
	})
	return said, ended
}
