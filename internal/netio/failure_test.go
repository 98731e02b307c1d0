package netio

import (
	"net/netip"
	"testing"
)

// closer is a Handler that closes a socket at the first failure.
type closer struct {
	other *endpoint
	told  int
}

func (c *closer) Datagram(Socket, netip.AddrPort, []byte) {}

func (c *closer) Failed(Socket, error) {
	c.told++
	c.other.closed = true
}

func TestFailures(t *testing.T) {
	peer := netip.MustParseAddrPort("192.0.2.1:1")
	first, second, listening := &endpoint{peer: peer}, &endpoint{peer: peer}, &endpoint{}
	var q failures
	q.add(nil, listening, unreachable) // a listening socket serves many peers
	q.add(nil, first, tooLarge)        // not the peer's fault
	if len(q) != 0 {
		t.Fatalf("%d failures queued, want none", len(q))
	}
	q.add(nil, first, refused)
	q.add(nil, first, unreachable)
	q.add(nil, second, refused)
	h := closer{other: second}
	q.deliver(&h)
	if h.told != 1 {
		t.Errorf("%d failures, want only that of the first: the second was closed", h.told)
	}
	if q.deliver(&h); h.told != 1 {
		t.Error("told again")
	}
}
