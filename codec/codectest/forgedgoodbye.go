package codectest

import (
	"flag"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/testkit/simnet"
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

// checkForgedGoodbye has a forger say goodbye in the name of each side, while the network loses datagrams and no side
// has a message to send. The forger copies a goodbye from a session of its own, which is as old. So it has the right
// numbers, if they are not random.
func checkForgedGoodbye(t tb, c *Config) {
	if c.Defenceless != "" {
		return
	}
	for _, of := range []struct {
		name     string
		from, to netip.AddrPort
		sayer    func(*pair) *side
	}{
		{clientName, clientAddr, serverAddr, func(p *pair) *side { return p.client }},
		{serverName, serverAddr, clientAddr, func(p *pair) *side { return p.server }},
	} {
		said, ended := 0, 0
		simulateSeeds(t, *forgedGoodbyes, func(r *report, seed uint64) {
			twin, p := connectedPair(r, c, seed+1000), connectedPair(r, c, seed)
			if twin == nil || p == nil {
				return
			}
			twin.net.Run(idleBefore)
			p.net.Run(idleBefore)
			p.net.SetWeather(lossy20)
			twin.net.SetTap(func(from, _ netip.AddrPort, datagram []byte) {
				if from == of.from {
					p.net.Inject(0, of.from, of.to, append([]byte(nil), datagram...))
				}
			})
			sayer := of.sayer(twin)
			sayer.conn.Close(twin.net.Now(), codec.Goodbye{Reason: codec.Closed})
			twin.net.Run(time.Millisecond)
			p.net.Run(goodbyeWait)
			if said++; p.client.over || p.server.over {
				ended++
			}
		})
		t.Logf("%d of %d forged goodbyes of a %s are believed with %.0f %% loss", ended, said, of.name, 100*lossy20.Loss)
		if float64(ended) > 1+believable*float64(said) {
			t.Errorf("%d of %d forged goodbyes of a %s are believed", ended, said, of.name)
		}
	}
}
