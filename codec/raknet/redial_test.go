package raknet

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
)

// newHalfMade returns a link with a server that has lost its second reply. Like go-raknet it answers no offline
// message any more.
func newHalfMade(t *testing.T) *link {
	l := newLink(t, Options{})
	l.drop = func(toServer bool, b []byte) bool {
		return !toServer && b[0] == idOpenConnectionReply2 || toServer && l.server != nil && b[0] <= idOpenConnectionRequest2
	}
	return l
}

// TestStranded: a client whose second request gets no answer is stranded after two seconds, and keeps asking.
func TestStranded(t *testing.T) {
	l := newHalfMade(t)
	l.wait(grantPatience - ms)
	if got := l.client.Stranded(); got != codec.NotStranded {
		t.Errorf("stranded (%d) while the server may yet answer", got)
	}
	l.wait(ms)
	if got := l.client.Stranded(); got != codec.Unanswered {
		t.Errorf("after %v it is %d, want Unanswered", grantPatience, got)
	}
	asked := 0
	l.drop = func(toServer bool, _ []byte) bool {
		if toServer {
			asked++
		}
		return false
	}
	l.wait(time.Second)
	if asked == 0 || len(l.toClient) > 0 {
		t.Errorf("without a redial the client has asked %d times more; events %v", asked, l.toClient)
	}
}

// TestStrandedByOnlineDatagrams: a datagram that only a server with a connection sends shortens the wait. It leaves
// time for a reply that was overtaken. A datagram before the client's request for the grant does not count.
func TestStrandedByOnlineDatagrams(t *testing.T) {
	online := append(appendDataHeader(nil, 0, false, false), 0, 0, 72, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	l := newHalfMade(t)
	_ = l.client.Receive(l.now, online)
	l.wait(500 * ms)
	_ = l.client.Receive(l.now, online)
	l.wait(100 * ms)
	if got := l.client.Stranded(); got != codec.NotStranded {
		t.Errorf("stranded (%d) before a reply that was overtaken had time to come", got)
	}
	l.wait(20 * ms)
	if got := l.client.Stranded(); got != codec.Unanswered {
		t.Errorf("it is %d, want Unanswered", got)
	}
}

// TestRedial starts again from another address, which the server does not know.
func TestRedial(t *testing.T) {
	l := newHalfMade(t)
	l.wait(grantPatience)
	l.server, l.drop = nil, nil // another address has another connection
	l.client.Redial(l.now, addressed(netip.MustParseAddrPort("192.0.2.1:40001")))
	if got := l.client.Stranded(); got != codec.NotStranded {
		t.Errorf("stranded (%d) as soon as it has another address", got)
	}
	connect(t, l)
	if l.server.Identity() != 77 {
		t.Errorf("the server knows the client as %d", l.server.Identity())
	}
}

type addressed netip.AddrPort

func (a addressed) Addr() netip.AddrPort { return netip.AddrPort(a) }

// TestRedialOfAKnownClient: a stock server that was cut off for a while knows the client by its first address, and
// refuses the second. The client is sent back once. A refusal of the first address is final.
func TestRedialOfAKnownClient(t *testing.T) {
	refuse := func(l *link) {
		_ = l.client.Receive(l.now, l.p.appendRefusal(nil, idAlreadyConnected, l.p.self()))
		l.poll()
	}
	l := newHalfMade(t)
	first := func() *Conn { l.wait(grantPatience); return l.server }()
	l.server, l.drop = nil, func(toServer bool, b []byte) bool { return toServer && b[0] == idOpenConnectionRequest2 }
	l.client.Redial(l.now, nil)
	l.wait(10 * ms)
	refuse(l)
	if got := l.client.Stranded(); got != codec.KnownByEarlier || has(l.toClient, codec.Disconnected) {
		t.Fatalf("refused, it is %d, want KnownByEarlier; events %v", got, l.toClient)
	}
	l.server, l.drop = first, nil
	l.client.Redial(l.now, nil)
	connect(t, l)

	l = newHalfMade(t)
	l.wait(10 * ms)
	refuse(l)
	if got := ending(t, l.toClient); got != codec.AlreadyConnected {
		t.Errorf("the first address refused: %v", got)
	}
}
