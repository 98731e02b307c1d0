package raknet

import (
	"fmt"
	"net/netip"

	"tidegate/codec"
)

var _ codec.Gatekeeper = (*Protocol)(nil)

// Bits of a codec.Gate. The low 32 are the cookie that the server asks back.
const (
	gateAnswered codec.Gate = 1 << 32 // the server has answered a first request
	gateCookie   codec.Gate = 1 << 33 // its answer has a cookie
)

var (
	errGate        = fmt.Errorf("raknet: no datagram that opens a connection: %w", codec.ErrUnexpected)
	errGateVersion = fmt.Errorf("raknet: not the server's protocol version: %w", codec.ErrRefused)
	errGateCookie  = fmt.Errorf("raknet: not the cookie that the server gave: %w", codec.ErrRefused)
)

// PassUp lets a client open a connection as a server wants it, where servers block an address otherwise: with whole
// pings, the server's version, and the cookie that the server gave.
func (p *Protocol) PassUp(gate *codec.Gate, server netip.AddrPort, datagram []byte) error {
	if !p.o.Blocks {
		*gate = codec.GateOpen
		return nil
	}
	switch id, _ := offlineID(datagram); id {
	case idUnconnectedPing, idUnconnectedPingOpen:
		if len(datagram) < pingSize {
			return errOfflineShort
		}
		return nil
	case idOpenConnectionRequest1:
		var m openConnectionRequest1
		if err := m.parse(datagram); err != nil {
			return err
		}
		if v := p.servers.ask(server, p.o.OnlyVersion); v != 0 && v != m.version {
			return errGateVersion
		}
		return nil
	case idOpenConnectionRequest2:
		return passRequest2(*gate, datagram)
	}
	return errGate
}

func passRequest2(gate codec.Gate, datagram []byte) error {
	if gate&gateAnswered == 0 {
		return errGate
	}
	var m openConnectionRequest2
	if err := m.parse(datagram, gate&gateCookie != 0); err != nil {
		return err
	}
	if m.hasCookie && m.cookie != uint32(gate) {
		return errGateCookie
	}
	return nil
}

// PassDown learns a server's cookie and version, and that it has granted the connection.
func (p *Protocol) PassDown(gate *codec.Gate, server netip.AddrPort, datagram []byte) {
	switch id, _ := offlineID(datagram); id {
	case idOpenConnectionReply1:
		var m openConnectionReply1
		if m.parse(datagram) == nil {
			*gate = gateAnswered
			if m.hasCookie {
				*gate |= gateCookie | codec.Gate(m.cookie)
			}
		}
	case idIncompatibleVersion:
		var m incompatible
		if m.parse(datagram) == nil {
			p.servers.learn(server, m.version)
		}
	case idOpenConnectionReply2:
		if *gate&gateAnswered != 0 {
			*gate = codec.GateOpen
		}
	}
}
