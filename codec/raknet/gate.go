package raknet

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"

	"tidegate/codec"
)

var _ codec.Gatekeeper = (*Protocol)(nil)

// Bits of a codec.Gate. The low 32 are the cookie that the server asks back.
const (
	gateAnswered codec.Gate = 1 << 32 // the server has answered a first request
	gateCookie   codec.Gate = 1 << 33 // its answer has a cookie
	// gateVersions are the version of the client's first requests, or gateMixed: the server may have granted any of them.
	gateVersions codec.Gate = 0xff * gateVersion
	gateVersion             = 1 << 34
	gateMixed               = 0xff
)

var (
	errGate        = fmt.Errorf("raknet: no datagram that opens a connection: %w", codec.ErrUnexpected)
	errGateVersion = fmt.Errorf("raknet: not the server's protocol version: %w", codec.ErrRefused)
	errGateCookie  = fmt.Errorf("raknet: not the cookie that the server gave: %w", codec.ErrRefused)
)

// PassUp lets a client open a connection as a server wants it, where servers block an address otherwise: with whole
// pings, the server's version, and the cookie that the server gave.
func (p *Protocol) PassUp(now time.Time, gate *codec.Gate, server netip.AddrPort, datagram []byte) error {
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
		only := p.o.OnlyVersion
		if only != AnyVersion && p.servers.ask(now, server, cmp.Or(only, m.version)) != m.version {
			return errGateVersion
		}
		noteVersion(gate, m.version)
		return nil
	case idOpenConnectionRequest2:
		return passRequest2(*gate, datagram)
	}
	return errGate
}

func noteVersion(gate *codec.Gate, version uint8) {
	if known := *gate & gateVersions / gateVersion; known != 0 && known != codec.Gate(version) {
		version = gateMixed
	}
	*gate = *gate&^gateVersions | codec.Gate(version)*gateVersion
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
func (p *Protocol) PassDown(now time.Time, gate *codec.Gate, server netip.AddrPort, datagram []byte) {
	switch id, _ := offlineID(datagram); id {
	case idOpenConnectionReply1:
		var m openConnectionReply1
		if m.parse(datagram) == nil {
			*gate = *gate&gateVersions | gateAnswered
			if m.hasCookie {
				*gate |= gateCookie | codec.Gate(m.cookie)
			}
		}
	case idIncompatibleVersion:
		var m incompatible
		if m.parse(datagram) == nil && p.o.OnlyVersion == 0 {
			p.servers.refuse(now, server, m.version)
		}
	case idOpenConnectionReply2:
		if *gate&gateAnswered != 0 {
			p.servers.grant(server, uint8(*gate/gateVersion))
			*gate = codec.GateOpen
		}
	}
}

// A stray is a datagram whose number is far from those of its peer so far. Either it is forged, or a forged one has
// moved the window away from the peer's numbers, or an outage of the path has lost many. It is not believed before
// others confirm it. The reliable messages that are due next count at once, since a forger does not know their numbers.
const (
	// strayStep is by how much the number of a datagram that confirms a stray may be higher.
	strayStep = 64
	// strayRun is how many strays in a row move the window. Fewer do once the old numbers are silent for strayPatience.
	strayRun      = 8
	strayShortRun = 2
	strayPatience = 500 * time.Millisecond
	// strayLife is how long a run of strays waits for its next one. Until then, other strays are none of it.
	strayLife = time.Second
	// strayAhead is how far ahead of the oldest missing reliable message a stray's messages may be.
	strayAhead = 64
)

// strays is a run of datagrams with numbers that follow each other, far from the window.
type strays struct {
	StrayNext Seq24         `cbor:"3,keyasint,omitempty"` // one more than the newest
	StrayRun  int           `cbor:"4,keyasint,omitempty"`
	StrayAt   time.Duration `cbor:"5,keyasint,omitempty"` // when the newest came
}

// add takes a stray, and reports whether the window has to move to it. heardAt is when a datagram of the window came
// last.
func (s *strays) add(now, heardAt time.Duration, n Seq24) bool {
	follows := n.Sub(s.StrayNext)
	switch {
	case s.StrayRun > 0 && follows >= 0 && follows < strayStep:
		s.StrayRun++
	case s.StrayRun > 0 && now-s.StrayAt < strayLife:
		return false
	default:
		s.StrayRun = 1
	}
	s.StrayNext, s.StrayAt = n.Add(1), now
	if s.StrayRun >= strayRun || s.StrayRun >= strayShortRun && now-heardAt >= strayPatience {
		s.StrayRun = 0
		return true
	}
	return false
}
