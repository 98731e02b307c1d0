package raknet

import (
	"encoding/binary"
)

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
