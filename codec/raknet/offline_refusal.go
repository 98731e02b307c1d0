package raknet

import "encoding/binary"

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
