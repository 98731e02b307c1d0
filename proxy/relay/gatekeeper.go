package relay

import "tidegate/codec"

// judgeOpening returns why a relayed client's datagram must not reach the server, or nil. Once the server has let the
// client in, all datagrams pass.
func (p *session) judgeOpening(datagram []byte) error {
	if p.gate == codec.GateOpen {
		return nil
	}
	keeper, ok := p.route.Upstream.Protocol.(codec.Gatekeeper)
	if !ok {
		p.gate = codec.GateOpen
		return nil
	}
	return keeper.PassUp(&p.gate, p.server.Addr, datagram)
}

// noteOpening gives a server's datagram to the Gatekeeper of a client that is not let in yet.
func (p *session) noteOpening(datagram []byte) {
	if p.gate == codec.GateOpen {
		return
	}
	if keeper, ok := p.route.Upstream.Protocol.(codec.Gatekeeper); ok {
		keeper.PassDown(&p.gate, p.server.Addr, datagram)
	}
}
