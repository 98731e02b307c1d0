package raknet

import "encoding/binary"

// connectedPing asks the peer for its pong. Stock RakNet ignores a ping of any other length
// (docs/protocols/raknet.md#online):
//
//	0       0x00
//	1..8    the sender's time in milliseconds
type connectedPing struct{ time uint64 }

const connectedPingSize = 9

func (m *connectedPing) parse(b []byte) error {
	if err := checkOnline(b, idConnectedPing, connectedPingSize); err != nil {
		return err
	}
	if len(b) != connectedPingSize {
		return errOnlineShort
	}
	m.time = binary.BigEndian.Uint64(b[1:])
	return nil
}

func (m *connectedPing) append(b []byte) []byte {
	return binary.BigEndian.AppendUint64(append(b, idConnectedPing), m.time)
}

// connectedPong answers a connectedPing (docs/protocols/raknet.md#online):
//
//	0       0x03
//	1..8    the time of the ping
//	9..16   the answering peer's own time in milliseconds
type connectedPong struct {
	pingTime uint64
	pongTime uint64
}

const connectedPongSize = 17

func (m *connectedPong) parse(b []byte) error {
	if err := checkOnline(b, idConnectedPong, connectedPongSize); err != nil {
		return err
	}
	if len(b) != connectedPongSize {
		return errOnlineShort
	}
	m.pingTime, m.pongTime = binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint64(b[9:])
	return nil
}

func (m *connectedPong) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(append(b, idConnectedPong), m.pingTime)
	return binary.BigEndian.AppendUint64(b, m.pongTime)
}
