package raknet

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"tidegate/codec"
)

// The messages with which two peers finish a handshake and keep a connection travel like those of the game
// (docs/protocols/raknet.md#online). Each parse takes the whole message, identifier included.

var (
	errOnlineShort = fmt.Errorf("raknet: online message of a wrong length: %w", codec.ErrMalformed)
	errOnlineID    = fmt.Errorf("raknet: not the expected online message: %w", codec.ErrMalformed)
)

// connectionRequest is the first message of a client:
//
//	0       0x09
//	1..8    client's GUID
//	9..16   client's time in milliseconds
//	17      security: 1 if the connection is encrypted; then
//	          32 bytes: proof that the client read the server's answer
//	          identity: 1 if 160 bytes of proof of the client's identity follow
//	..      password, up to the end
type connectionRequest struct {
	guid     uint64
	time     uint64
	encrypts bool
	proof    [proofSize]byte
	identity []byte // nil for none, else identitySize bytes; aliases the message
	password []byte // aliases the message
}

const (
	minConnectionRequestSize = 18
	proofSize                = 32
	identitySize             = 160
)

func (m *connectionRequest) parse(b []byte) error {
	if err := checkOnline(b, idConnectionRequest, minConnectionRequestSize); err != nil {
		return err
	}
	*m = connectionRequest{
		guid:     binary.BigEndian.Uint64(b[1:]),
		time:     binary.BigEndian.Uint64(b[9:]),
		encrypts: b[17] != 0,
		password: b[minConnectionRequestSize:],
	}
	if m.encrypts {
		return m.parseProofs(m.password)
	}
	return nil
}

func (m *connectionRequest) parseProofs(b []byte) error {
	if len(b) < proofSize+1 {
		return errOnlineShort
	}
	copy(m.proof[:], b)
	identified := b[proofSize] != 0
	m.password = b[proofSize+1:]
	if !identified {
		return nil
	}
	if len(m.password) < identitySize {
		return errOnlineShort
	}
	m.identity, m.password = m.password[:identitySize], m.password[identitySize:]
	return nil
}

func (m *connectionRequest) append(b []byte) []byte {
	b = append(b, idConnectionRequest)
	b = appendGUID(b, m.guid)
	b = binary.BigEndian.AppendUint64(b, m.time)
	b = appendFlag(b, m.encrypts)
	if m.encrypts {
		b = append(b, m.proof[:]...)
		b = append(appendFlag(b, m.identity != nil), m.identity...)
	}
	return append(b, m.password...)
}

// connectionRequestAccepted is the server's answer:
//
//	0       0x10
//	..      client's address as the server sees it
//	..      2 bytes: the client's index in the server's list, big-endian
//	..      the server's own addresses: 10 of them, or 20 from version 7 on
//	..      8 bytes: the time of the request
//	..      8 bytes: server's time in milliseconds
//
// The server's own addresses help peers behind one router and are nobody's business on the Internet: we write each
// as unassigned and skip those we read.
type connectionRequestAccepted struct {
	client      netip.AddrPort
	index       uint16
	addresses   int // how many addresses of its own the server lists
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
	server     netip.AddrPort
	addresses  int // how many addresses of its own the client lists
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

// ownAddresses is how many addresses of its own each side of this connection lists.
func (c *Conn) ownAddresses() int {
	if c.longList {
		return 20
	}
	return 10
}

// timesSize is the length of the two times that end a list of addresses. The list has no count: what is left of the
// message before these is the list.
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
		b = appendAddress(b, netip.AddrPort{})
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
