package netio_test

import (
	"net/netip"
	"testing"

	"tidegate/internal/netio"
)

// With one socket flooded without end, the other is served all the same.
func TestFloodedSocketDoesNotStarveAnother(t *testing.T) {
	const enough = 20000 // datagrams of the flood; a fair turn takes a few hundred
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		flooded, quiet := l.listen(loopback), l.listen(loopback)
		client, flood := l.dial(quiet.Addr()), l.dial(flooded.Addr())
		served := false
		l.onDatagram = func(s netio.Socket, _ netip.AddrPort, _ []byte) {
			if served = served || s == quiet; served {
				return
			}
			if len(l.received) > enough {
				t.Fatalf("%d datagrams of a flooded socket were received before one of another", enough)
			}
			l.send(flood, netip.AddrPort{}, "flood") // each makes another
			l.Flush()
		}
		for range 1000 {
			l.send(flood, netip.AddrPort{}, "flood")
		}
		l.send(client, netip.AddrPort{}, "me too")
		l.Flush()
		l.until("the quiet socket's datagram", func() bool { return served })
	})
}
