package relay

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/raknet"
)

// TestGatekeptRelay relays players to a server that blocks addresses, beside a stranger who has its first request
// answered and then makes up a cookie.
func TestGatekeptRelay(t *testing.T) {
	servers := raknet.New(raknet.Options{Blocks: true})
	w := newWorld(t, 1, simnet.Weather{Latency: 20 * time.Millisecond}, servers, plainRoute(servers))
	stranger := netip.MustParseAddrPort("198.51.100.9:7000")
	var reply []byte
	w.SetTap(func(from, to netip.AddrPort, d []byte) {
		if to == stranger {
			reply = append(reply[:0], d...)
		}
	})
	request, _ := servers.Dial(w.Now(), listenerAddr, codec.Hello{}).Transmit(w.Now(), nil)
	w.Inject(0, stranger, listenerAddr, request)
	w.await("an answer", time.Second, func() bool { return len(reply) > 0 })
	w.Run(100 * time.Millisecond)
	dropped := w.proxy.relay.counters.Drops
	made := append([]byte{7}, reply[1:17]...)
	made = binary.BigEndian.AppendUint32(made, binary.BigEndian.Uint32(reply[26:])+1)
	made = append(made, 0, 4, 0x80, 0xff, 0xff, 0xfe, 0x1e, 0x61, 5, 0xd4, 1, 2, 3, 4, 5, 6, 7, 8)
	w.Inject(0, stranger, listenerAddr, made)
	w.Run(100 * time.Millisecond)
	if dropped == w.proxy.relay.counters.Drops {
		t.Error("a request with a cookie that the server never gave went on to the server")
	}
	p := w.connect(codec.Hello{Identity: 4711})
	w.send(&p.peer, codec.Message{Payload: []byte{0x90, 1, 2}, Mode: codec.ReliableOrdered})
	w.await("echoed", time.Second, func() bool { return len(p.received()) == 1 })
}
