package demo

import (
	"net/netip"

	"tidegate/codec"
	"tidegate/internal/netio"
)

// stream is a protocol over TCP: what it calls datagrams are frames, which differ by their length prefix.
type stream struct {
	codec.Protocol
	spec   codec.Spec
	prefix netio.Prefix
}

func newStream(p codec.Protocol, prefix netio.Prefix) stream {
	s := stream{p, *p.Spec(), prefix}
	s.spec.Name += overTCP
	return s
}

// overTCP ends the names of such protocols.
const overTCP = "+tcp"

// Spec implements codec.Protocol. The name is that of the protocol with the transport.
func (s stream) Spec() *codec.Spec { return &s.spec }

// isStream reports whether a protocol is one over TCP.
func isStream(p codec.Protocol) bool {
	_, ok := p.(stream)
	return ok
}

// listen opens what a server of a protocol listens on.
func listen(poller netio.Poller, p codec.Protocol) (netio.Socket, error) {
	if s, ok := p.(stream); ok {
		return poller.ListenStream(loopback, netio.StreamOptions{Prefix: s.prefix})
	}
	return poller.Listen(loopback, netio.SocketOptions{})
}

// dial opens what a player of a protocol sends by.
func dial(poller netio.Poller, p codec.Protocol, door netip.AddrPort) (netio.Socket, error) {
	if s, ok := p.(stream); ok {
		return poller.DialStream(door, netio.StreamOptions{Prefix: s.prefix})
	}
	return poller.Dial(door, netio.SocketOptions{})
}
