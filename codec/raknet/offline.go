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
