package raknet

import (
	"encoding/binary"
	"fmt"

	"tidegate/codec"
)

// magic marks every offline message.
const magic = "\x00\xff\xff\x00\xfe\xfe\xfe\xfe\xfd\xfd\xfd\xfd\x12\x34\x56\x78"

// udpOverhead is the size that RakNet adds to a datagram's length for its MTU. It is the same for IPv6.
const udpOverhead = 28

var (
	errOfflineShort = fmt.Errorf("raknet: offline message cut short: %w", codec.ErrMalformed)
	errOfflineMagic = fmt.Errorf("raknet: not the expected offline message: %w", codec.ErrMalformed)
)

// offlineID distinguishes an offline message from a datagram of a connection and returns its identifier. Like stock
// RakNet it demands a known identifier, a minimum length and the magic in its place
// (docs/protocols/raknet.md#offline).
func offlineID(b []byte) (id byte, ok bool) {
	if len(b) == 0 {
		return 0, false
	}
	at, least := 1, 1+len(magic)+8
	switch b[0] {
	case idUnconnectedPing, idUnconnectedPingOpen:
		at, least = 9, 9+len(magic) // an old client leaves out its GUID
	case idUnconnectedPong:
		at, least = 17, 17+len(magic)
	case idOutOfBand:
		at, least = 9, 9+len(magic)
	case idIncompatibleVersion:
		at, least = 2, 2+len(magic)+8
	case idOpenConnectionRequest1, idOpenConnectionReply1, idOpenConnectionRequest2, idOpenConnectionReply2,
		idConnectionAttemptFailed, idAlreadyConnected, idNoFreeConnections, idConnectionBanned, idRecentlyConnected:
	default:
		return 0, false
	}
	return b[0], len(b) >= least && string(b[at:at+len(magic)]) == magic
}

// checkOffline returns the bytes after the given identifier and the magic, of which there must be at least size bytes.
func checkOffline(b []byte, id byte, size int) ([]byte, error) {
	body := 1 + len(magic)
	if len(b) < body+size {
		return nil, errOfflineShort
	}
	if b[0] != id || string(b[1:body]) != magic {
		return nil, errOfflineMagic
	}
	return b[body:], nil
}

// appendOffline starts an offline message with the magic right behind its identifier.
func appendOffline(b []byte, id byte) []byte {
	return append(append(b, id), magic...)
}

func appendGUID(b []byte, guid uint64) []byte { return binary.BigEndian.AppendUint64(b, guid) }

// Message identifiers: the first byte of an offline datagram, or of an online message
// (docs/protocols/raknet.md#messages). The game's identifiers begin at idFirstUser.
const (
	idConnectedPing             = 0x00
	idUnconnectedPing           = 0x01
	idUnconnectedPingOpen       = 0x02 // answered only while the server has a free place
	idConnectedPong             = 0x03
	idDetectLostConnections     = 0x04
	idOpenConnectionRequest1    = 0x05
	idOpenConnectionReply1      = 0x06
	idOpenConnectionRequest2    = 0x07
	idOpenConnectionReply2      = 0x08
	idConnectionRequest         = 0x09
	idRequiresPublicKey         = 0x0a
	idRequiresSecurity          = 0x0b
	idOutOfBand                 = 0x0d
	idConnectionRequestAccepted = 0x10
	idConnectionAttemptFailed   = 0x11
	idAlreadyConnected          = 0x12
	idNewIncomingConnection     = 0x13
	idNoFreeConnections         = 0x14
	idDisconnectionNotification = 0x15
	idConnectionLost            = 0x16
	idConnectionBanned          = 0x17
	idInvalidPassword           = 0x18
	idIncompatibleVersion       = 0x19
	idRecentlyConnected         = 0x1a
	idTimestamp                 = 0x1b // a time precedes the application's message
	idFirstUser                 = idTimestamp
	idUnconnectedPong           = 0x1c // offline only: online, 0x1c is the application's
)

// unconnectedPing asks a server for its pong, without a connection (docs/protocols/raknet.md#offline):
//
//	0       0x01, or 0x02 to be answered only by a server with a free place
//	1..8    the sender's time in milliseconds
//	9..24   magic
//	25..32  the sender's GUID; old clients leave it out
type unconnectedPing struct {
	id   byte
	time uint64
	guid uint64
}

// pingSize is the length of a whole ping; minPingSize is that of a ping without its GUID.
const (
	minPingSize = 9 + len(magic)
	pingSize    = minPingSize + 8
)

func (p *unconnectedPing) parse(b []byte) error {
	if len(b) < minPingSize {
		return errOfflineShort
	}
	if (b[0] != idUnconnectedPing && b[0] != idUnconnectedPingOpen) || string(b[9:minPingSize]) != magic {
		return errOfflineMagic
	}
	*p = unconnectedPing{id: b[0], time: binary.BigEndian.Uint64(b[1:])}
	if len(b) >= pingSize {
		p.guid = binary.BigEndian.Uint64(b[minPingSize:])
	}
	return nil
}

func (p *unconnectedPing) append(b []byte) []byte {
	b = append(b, p.id)
	b = binary.BigEndian.AppendUint64(b, p.time)
	b = append(b, magic...)
	return appendGUID(b, p.guid)
}

// Pong is a server's answer to a ping (docs/protocols/raknet.md#offline):
//
//	0       0x1c
//	1..8    the time of the ping
//	9..16   the server's GUID
//	17..32  magic
//	33..    Data; the Bedrock dialect puts its length, big-endian, before it
type Pong struct {
	Time uint64 // the time of the ping
	GUID uint64 // the server's GUID
	Data []byte // the game's text, at most a few hundred bytes; aliases the datagram
}

// pongHeaderSize is the size of a pong before its data.
const pongHeaderSize = 17 + len(magic)

// AppendPing appends a ping for any server, with or without a free place. The pong will carry the same time, in any
// unit; RakNet itself writes milliseconds.
func AppendPing(b []byte, time, guid uint64) []byte {
	p := unconnectedPing{id: idUnconnectedPing, time: time, guid: guid}
	return p.append(b)
}

// ParsePong reads a pong of either dialect. If the first two bytes of its data are the length of the rest, they are
// not part of Data. Errors wrap codec.ErrMalformed.
func ParsePong(b []byte) (Pong, error) {
	const data = pongHeaderSize
	if len(b) < data {
		return Pong{}, errOfflineShort
	}
	if b[0] != idUnconnectedPong || string(b[17:data]) != magic {
		return Pong{}, errOfflineMagic
	}
	p := Pong{Time: binary.BigEndian.Uint64(b[1:]), GUID: binary.BigEndian.Uint64(b[9:]), Data: b[data:]}
	if n := len(p.Data) - 2; n >= 0 && int(binary.BigEndian.Uint16(p.Data)) == n {
		p.Data = p.Data[2:]
	}
	return p, nil
}

// append appends the pong. sized puts the length of Data before it, for clients of the Bedrock dialect.
func (p *Pong) append(b []byte, sized bool) []byte {
	b = append(b, idUnconnectedPong)
	b = binary.BigEndian.AppendUint64(b, p.Time)
	b = appendGUID(b, p.GUID)
	b = append(b, magic...)
	if sized {
		b = binary.BigEndian.AppendUint16(b, uint16(len(p.Data)))
	}
	return append(b, p.Data...)
}

// refusal refuses a connection attempt (docs/protocols/raknet/join.md#refusals):
//
//	0       0x11, 0x12, 0x14, 0x17 or 0x1a
//	1..16   magic
//	17..24  server's GUID
type refusal struct {
	id   byte
	guid uint64
}

func (m *refusal) parse(b []byte) error {
	if len(b) == 0 {
		return errOfflineShort
	}
	switch b[0] {
	case idConnectionAttemptFailed, idAlreadyConnected, idNoFreeConnections, idConnectionBanned, idRecentlyConnected:
	default:
		return errOfflineMagic
	}
	body, err := checkOffline(b, b[0], 8)
	if err != nil {
		return err
	}
	*m = refusal{id: b[0], guid: binary.BigEndian.Uint64(body)}
	return nil
}

func (m *refusal) append(b []byte) []byte {
	return appendGUID(appendOffline(b, m.id), m.guid)
}

// incompatible refuses a client of another protocol version. Unlike the other refusals its magic comes late:
//
//	0       0x19
//	1       server's protocol version
//	2..17   magic
//	18..25  server's GUID
type incompatible struct {
	version uint8
	guid    uint64
}

const incompatibleSize = 2 + len(magic) + 8

func (m *incompatible) parse(b []byte) error {
	if len(b) < incompatibleSize {
		return errOfflineShort
	}
	if b[0] != idIncompatibleVersion || string(b[2:2+len(magic)]) != magic {
		return errOfflineMagic
	}
	*m = incompatible{version: b[1], guid: binary.BigEndian.Uint64(b[2+len(magic):])}
	return nil
}

func (m *incompatible) append(b []byte) []byte {
	b = append(b, idIncompatibleVersion, m.version)
	b = append(b, magic...)
	return appendGUID(b, m.guid)
}

// Messages for peers of which only one wants to encrypt (docs/protocols/raknet/join.md#security). Stock RakNet reports
// them to its own application, except for the last two codes of the first message.

// requiresPublicKey tells a peer that its key, or its proof of identity, is not sufficient:
//
//	0       0x0a
//	1       reason: one of the codes below
type requiresPublicKey struct{ code byte }

const (
	serverKeyMissing      = 0
	clientIdentityMissing = 1
	clientIdentityInvalid = 2
)

func (m *requiresPublicKey) append(b []byte) []byte { return append(b, idRequiresPublicKey, m.code) }

// requiresSecurity tells a client that wants to encrypt that the server does not encrypt:
//
//	0       0x0b
//	..      client's address
//	..      8 bytes: server's GUID
type requiresSecurity struct {
	client address
	guid   uint64
}

func (m *requiresSecurity) append(b []byte) []byte {
	return appendGUID(appendAddress(append(b, idRequiresSecurity), m.client), m.guid)
}

// connectionLost reports that the server lost a client (docs/protocols/raknet.md#online):
//
//	0       0x16
//	1..8    client's GUID
//	..      client's address
type connectionLost struct {
	guid   uint64
	client address
}

func (m *connectionLost) parse(b []byte) error {
	err := checkOnline(b, idConnectionLost, 1+8)
	if err != nil {
		return err
	}
	var rest []byte
	m.guid = binary.BigEndian.Uint64(b[1:])
	if m.client, rest, err = parseAddress(b[1+8:]); err == nil && len(rest) != 0 {
		err = errOnlineShort
	}
	return err
}
