package raknet

import (
	"encoding/binary"
	"slices"
)

// docs/protocols/raknet/join.md#open-connection describes the four messages that open a connection, two from each side.

// openConnectionRequest1 probes whether the server exists, speaks the version, and receives a datagram of this length:
//
//	0       0x05
//	1..16   magic
//	17      protocol version
//	18..    zeros up to the probed length
type openConnectionRequest1 struct {
	version uint8
	length  int // length of the whole datagram in bytes: the MTU less udpOverhead
}

const minRequest1Size = 1 + len(magic) + 1

func (m *openConnectionRequest1) parse(b []byte) error {
	body, err := checkOffline(b, idOpenConnectionRequest1, 1)
	if err != nil {
		return err
	}
	*m = openConnectionRequest1{version: body[0], length: len(b)}
	return nil
}

func (m *openConnectionRequest1) append(b []byte) []byte {
	b = appendOffline(b, idOpenConnectionRequest1)
	b = append(b, m.version)
	end := len(b) + max(0, m.length-minRequest1Size)
	b = slices.Grow(b, end-len(b))
	clear(b[len(b):end])
	return b[:end]
}

// openConnectionRequest2 asks for the connection:
//
//	0       0x07
//	1..16   magic
//	..      cookie, 4 bytes, and challenge flag, 1 byte, if the reply had a cookie
//	..      challenge, 64 bytes, if that flag is set
//	..      server's address as the client sees it
//	..      MTU, 2 bytes, big-endian
//	..      client's GUID, 8 bytes, big-endian
type openConnectionRequest2 struct {
	hasCookie  bool
	cookie     uint32
	challenged bool
	challenge  [challengeSize]byte // only the server's private key can answer it
	server     address
	mtu        uint16
	guid       uint64
}

const challengeSize = 64

// parse reads a request. cookie says whether the server asked for a cookie, because only the server knows it.
func (m *openConnectionRequest2) parse(b []byte, cookie bool) error {
	body, err := checkOffline(b, idOpenConnectionRequest2, 0)
	if err != nil {
		return err
	}
	*m = openConnectionRequest2{hasCookie: cookie}
	if cookie {
		if len(body) < 5 {
			return errOfflineShort
		}
		m.cookie = binary.BigEndian.Uint32(body)
		m.challenged = body[4] != 0
		body = body[5:]
		if m.challenged {
			if len(body) < challengeSize {
				return errOfflineShort
			}
			copy(m.challenge[:], body)
			body = body[challengeSize:]
		}
	}
	if m.server, body, err = parseAddress(body); err != nil {
		return err
	}
	if len(body) < 2+8 {
		return errOfflineShort
	}
	m.mtu, m.guid = binary.BigEndian.Uint16(body), binary.BigEndian.Uint64(body[2:])
	return nil
}

func (m *openConnectionRequest2) append(b []byte) []byte {
	b = appendOffline(b, idOpenConnectionRequest2)
	if m.hasCookie {
		b = binary.BigEndian.AppendUint32(b, m.cookie)
		b = appendFlag(b, m.challenged)
		if m.challenged {
			b = append(b, m.challenge[:]...)
		}
	}
	b = appendAddress(b, m.server)
	b = binary.BigEndian.AppendUint16(b, m.mtu)
	return appendGUID(b, m.guid)
}
