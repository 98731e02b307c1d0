package relay

import "tidegate/codec"

// judgeOpening returns why a relayed client's datagram must not reach the server, or nil. Once the server has let the
// client in, all datagrams pass.
func (s *link) judgeOpening(datagram []byte) error {
	if s.gate == codec.GateOpen {
		return nil
	}
	keeper, ok := s.route.Upstream.Protocol.(codec.Gatekeeper)
	if !ok {
		s.gate = codec.GateOpen
		return nil
	}
	return keeper.PassUp(&s.gate, s.server.Addr, datagram)
}

// noteOpening gives a server's datagram to the Gatekeeper of a client that is not let in yet.
func (s *link) noteOpening(datagram []byte) {
	if s.gate == codec.GateOpen {
		return
	}
	if keeper, ok := s.route.Upstream.Protocol.(codec.Gatekeeper); ok {
		keeper.PassDown(&s.gate, s.server.Addr, datagram)
	}
}
