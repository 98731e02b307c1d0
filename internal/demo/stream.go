package demo

import (
	"net/netip"

	"tidegate/codec"
	"tidegate/codec/endpoint"
)

// stream is a protocol over TCP. Its frames are what the protocol calls datagrams. They differ in their length prefix.
type stream struct {
	codec.Protocol
	spec   codec.Spec
	prefix int // size of the length in bytes
}

func newStream(p codec.Protocol, prefix int) stream {
	s := stream{p, *p.Spec(), prefix}
	s.spec.Name += overTCP
	return s
}

// overTCP is the suffix of the names of protocols over TCP.
const overTCP = "+tcp"

// Spec implements codec.Protocol. The name has the suffix overTCP.
func (s stream) Spec() *codec.Spec { return &s.spec }

// isStream reports whether a protocol is one over TCP.
func isStream(p codec.Protocol) bool {
	_, ok := p.(stream)
	return ok
}

// listen opens a server of a protocol.
func listen[T any](e *endpoint.Endpoint[T], p codec.Protocol, at netip.AddrPort) (*endpoint.Listener, error) {
	if s, ok := p.(stream); ok {
		return e.ListenStream(p, at, endpoint.StreamOptions{Prefix: s.prefix})
	}
	return e.Listen(p, at, endpoint.SocketOptions{})
}

// dial connects a client of a protocol.
func dial[T any](
	e *endpoint.Endpoint[T], p codec.Protocol, to netip.AddrPort, identity uint64,
) (*endpoint.Conn[T], error) {
	if s, ok := p.(stream); ok {
		return e.DialStream(p, to, codec.Hello{Identity: identity}, endpoint.StreamOptions{Prefix: s.prefix})
	}
	return e.Dial(p, to, codec.Hello{Identity: identity}, endpoint.SocketOptions{})
}
