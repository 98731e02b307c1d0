package scenario

import (
	"math/rand/v2"
	"net/netip"
	"sync"

	"tidegate/internal/lossylink"
	"tidegate/tools/bench/process"
)

// bulkPath is a path between one client and a subject. It counts the datagrams to the client, and loses some from begin
// on.
type bulkPath struct {
	link *lossylink.Link
	loss float64

	mu        sync.Mutex
	rng       *rand.Rand
	begun     bool
	datagrams uint64
	again     uint64
	seen      map[[3]byte]bool // numbers of reliable messages; there are 2^24
}

func startBulkPath(o *Options, to netip.AddrPort, seed uint64) (*bulkPath, error) {
	p := &bulkPath{loss: o.Loss, rng: rand.New(rand.NewPCG(seed, 0)), seen: make(map[[3]byte]bool)}
	var err error
	p.link, err = lossylink.StartAt(netip.AddrPortFrom(process.Loopback, 0), to, 1,
		lossylink.Loss{Chosen: p.loses, Delay: o.Path, Buffer: 8 << 20})
	return p, err
}

func (p *bulkPath) addr() netip.AddrPort { return p.link.Addr() }

func (p *bulkPath) stop() { p.link.Stop() }

// begin starts counts and losses.
func (p *bulkPath) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = true
}

func (p *bulkPath) counts() (datagrams, again uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.datagrams, p.again
}

// loses counts a datagram, and decides whether it is lost.
func (p *bulkPath) loses(toServer bool, datagram []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun {
		return false
	}
	if !toServer {
		p.datagrams++
		if number, ok := reliableNumber(datagram); ok {
			if p.seen[number] {
				p.again++
			}
			p.seen[number] = true
		}
	}
	return p.rng.Float64() < p.loss
}

// reliableNumber returns the number of the first message in a RakNet datagram, if the message is reliable
// (docs/protocols/raknet.md).
func reliableNumber(b []byte) (number [3]byte, ok bool) {
	const valid, ack, nack = 0x80, 0x40, 0x20
	if len(b) < 10 || b[0]&(valid|ack|nack) != valid {
		return number, false
	}
	switch b[4] >> 5 {
	case 2, 3, 4, 6, 7:
		return [3]byte(b[7:10]), true
	}
	return number, false
}
