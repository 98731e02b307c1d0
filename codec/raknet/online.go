package raknet

import (
	"encoding/binary"
	"fmt"

	"tidegate/codec"
)

// Online messages finish a handshake and keep a connection alive. They travel like those of the game
// (docs/protocols/raknet.md#online). Each parse takes the whole message, including its identifier.

var (
	errOnlineShort = fmt.Errorf("raknet: online message of a wrong length: %w", codec.ErrMalformed)
	errOnlineID    = fmt.Errorf("raknet: not the expected online message: %w", codec.ErrMalformed)
)

// connectionRequestAccepted is the server's answer:
//
//	0       0x10
//	..      client's address as the server sees it
//	..      2 bytes: the client's index in the server's list, big-endian
//	..      the server's own addresses: 10 of them, or 20 from version 7 on
//	..      8 bytes: the time of the request
//	..      8 bytes: server's time in milliseconds
//
// The server's own addresses help peers behind one router, and must not leak to the Internet. We write each one as
// unassigned, and ignore those of the peer.
type connectionRequestAccepted struct {
	client      address
	index       uint16
	addresses   int // number of the server's own addresses
	requestTime uint64
	replyTime   uint64
}

func (m *connectionRequestAccepted) parse(b []byte) error {
	err := checkOnline(b, idConnectionRequestAccepted, 1)
	if err != nil {
		return err
	}
	*m = connectionRequestAccepted{}
	var rest []byte
	if m.client, rest, err = parseAddress(b[1:]); err != nil {
		return err
	}
	if len(rest) < 2 {
		return errOnlineShort
	}
	m.index = binary.BigEndian.Uint16(rest)
	m.addresses, m.requestTime, m.replyTime, err = parseAddressesAndTimes(rest[2:])
	return err
}

func (m *connectionRequestAccepted) append(b []byte) []byte {
	b = append(b, idConnectionRequestAccepted)
	b = appendAddress(b, m.client)
	b = binary.BigEndian.AppendUint16(b, m.index)
	return appendAddressesAndTimes(b, m.addresses, m.requestTime, m.replyTime)
}

// newIncomingConnection ends the handshake on the client's side:
//
//	0       0x13
//	..      server's address as the client sees it
//	..      the client's own addresses, as in connectionRequestAccepted
//	..      8 bytes: the server's time, from its connectionRequestAccepted
//	..      8 bytes: client's time in milliseconds
type newIncomingConnection struct {
	server     address
	addresses  int // number of the client's own addresses
	serverTime uint64
	clientTime uint64
}

func (m *newIncomingConnection) parse(b []byte) error {
	err := checkOnline(b, idNewIncomingConnection, 1)
	if err != nil {
		return err
	}
	*m = newIncomingConnection{}
	var rest []byte
	if m.server, rest, err = parseAddress(b[1:]); err != nil {
		return err
	}
	m.addresses, m.serverTime, m.clientTime, err = parseAddressesAndTimes(rest)
	return err
}

func (m *newIncomingConnection) append(b []byte) []byte {
	b = append(b, idNewIncomingConnection)
	b = appendAddress(b, m.server)
	return appendAddressesAndTimes(b, m.addresses, m.serverTime, m.clientTime)
}

// ownAddresses returns the number of own addresses that each side of this connection lists.
func (c *Conn) ownAddresses() int {
	if c.longList {
		return 20
	}
	return 10
}

// timesSize is the length of the two times behind a list of addresses. The list has no count: it fills the rest of the
// message before these.
const timesSize = 16

func parseAddressesAndTimes(b []byte) (addresses int, first, second uint64, err error) {
	for ; len(b) > timesSize; addresses++ {
		if _, b, err = parseAddress(b); err != nil {
			return 0, 0, 0, err
		}
	}
	if len(b) < timesSize {
		return 0, 0, 0, errOnlineShort
	}
	return addresses, binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), nil
}

func appendAddressesAndTimes(b []byte, addresses int, first, second uint64) []byte {
	for range addresses {
		b = appendAddress(b, address{})
	}
	b = binary.BigEndian.AppendUint64(b, first)
	return binary.BigEndian.AppendUint64(b, second)
}

func checkOnline(b []byte, id byte, size int) error {
	if len(b) < size {
		return errOnlineShort
	}
	if b[0] != id {
		return errOnlineID
	}
	return nil
}
