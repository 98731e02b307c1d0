package raknet

import (
	"encoding/binary"
	"fmt"
	"net/netip"

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

var errAddress = fmt.Errorf("raknet: address cut short: %w", codec.ErrMalformed)

// Sizes and type bytes of an address on the wire (docs/protocols/raknet.md#primitives):
//
//	v4  0      4
//	    1..4   the address, each bit inverted
//	    5..6   port, big-endian
//
//	v6  0      6 (stock RakNet takes anything but 4 for v6)
//	    1..2   address family in the order and with the number of the sender's platform
//	    3..4   port, big-endian
//	    5..8   flow information, ignored
//	    9..24  the address
//	    25..28 scope, ignored
const (
	address4Type = 4
	address4Size = 7
	address6Type = 6
	address6Size = 29
)

// family is the first two bytes of a sockaddr_in6, little-endian. Linux writes 10, Windows 23, macOS and BSD a length
// and 30 or 28. A stock peer copies them into its own sockaddr. If they are another platform's, the peer prints and
// compares the address wrongly. So each peer gets the family that it uses itself.
type family uint16

// unknownFamily is the family of an IPv4 address, and of a peer that has written no IPv6 address yet. It is written as
// Windows' family, since most games run there.
const (
	unknownFamily family = 0
	familyWindows family = 23
)

// address is an address as in a message.
type address struct {
	netip.AddrPort
	family family // family of an IPv6 address
}

// parseAddress reads one address. It returns the unassigned address as 0.0.0.0:0.
func parseAddress(b []byte) (a address, rest []byte, err error) {
	if len(b) < address4Size {
		return address{}, nil, errAddress
	}
	if b[0] == address4Type {
		ip := netip.AddrFrom4([4]byte{^b[1], ^b[2], ^b[3], ^b[4]})
		return address{AddrPort: netip.AddrPortFrom(ip, binary.BigEndian.Uint16(b[5:]))}, b[address4Size:], nil
	}
	if len(b) < address6Size {
		return address{}, nil, errAddress
	}
	a.AddrPort = netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[9:])), binary.BigEndian.Uint16(b[3:]))
	a.family = family(binary.LittleEndian.Uint16(b[1:]))
	return a, b[address6Size:], nil
}

// appendAddress appends an address. The zero address is written as unassigned. An IPv4-mapped IPv6 address is written
// as IPv4, since a peer without IPv6 support cannot read the longer form.
func appendAddress(b []byte, addr address) []byte {
	ip := addr.Addr().Unmap()
	if ip.Is6() {
		return appendAddress6(b, ip.As16(), addr.Port(), addr.family)
	}
	var v4 [4]byte
	if ip.Is4() {
		v4 = ip.As4()
	}
	b = append(b, address4Type, ^v4[0], ^v4[1], ^v4[2], ^v4[3])
	return binary.BigEndian.AppendUint16(b, addr.Port())
}

func appendAddress6(b []byte, ip [16]byte, port uint16, f family) []byte {
	if f == unknownFamily {
		f = familyWindows
	}
	b = append(b, address6Type)
	b = binary.LittleEndian.AppendUint16(b, uint16(f))
	b = binary.BigEndian.AppendUint16(b, port)
	b = append(b, 0, 0, 0, 0)
	b = append(b, ip[:]...)
	return append(b, 0, 0, 0, 0)
}
