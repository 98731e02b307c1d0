package raknet

import (
	"encoding/binary"
	"fmt"

	"tidegate/codec"
)

// magic marks every offline message.
const magic = "\x00\xff\xff\x00\xfe\xfe\xfe\xfe\xfd\xfd\xfd\xfd\x12\x34\x56\x78"

// udpOverhead is what RakNet adds to a datagram's length to speak of an MTU. It is the same for IPv6.
const udpOverhead = 28

var (
	errOfflineShort = fmt.Errorf("raknet: offline message cut short: %w", codec.ErrMalformed)
	errOfflineMagic = fmt.Errorf("raknet: not the expected offline message: %w", codec.ErrMalformed)
)

// offlineID tells an offline message from a datagram of a connection and gives its identifier. As stock RakNet does,
// it demands a known identifier, a least length and the magic in its place (docs/protocols/raknet.md#offline).
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

// checkOffline returns what follows the given identifier and the magic, of which there must be at least size bytes.
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

// appendOffline starts an offline message whose magic stands right behind its identifier.
func appendOffline(b []byte, id byte) []byte {
	return append(append(b, id), magic...)
}

func appendGUID(b []byte, guid uint64) []byte { return binary.BigEndian.AppendUint64(b, guid) }
