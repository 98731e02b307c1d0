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

// openConnectionReply1 answers with the MTU that the probe proved, and perhaps a cookie for the client to echo:
//
//	0       0x06
//	1..16   magic
//	17..24  server's GUID
//	25      security: 1 if a cookie follows
//	..      cookie, 4 bytes, big-endian
//	..      public key of 64 bytes, if the server will encrypt; the Bedrock dialect never has one
//	..      MTU, 2 bytes, big-endian
type openConnectionReply1 struct {
	guid      uint64 `cbor:"7,keyasint,omitempty" secret:"true"`
	hasCookie bool
	cookie    uint32
	encrypts  bool `cbor:"9,keyasint,omitempty"` // a public key follows
	publicKey [publicKeySize]byte
	mtu       uint16 `cbor:"10,keyasint,omitempty"`
}

const publicKeySize = 64

func (m *openConnectionReply1) parse(b []byte) error {
	body, err := checkOffline(b, idOpenConnectionReply1, 8+1+2)
	if err != nil {
		return err
	}
	*m = openConnectionReply1{guid: binary.BigEndian.Uint64(body), hasCookie: body[8] != 0}
	body = body[9:]
	if m.hasCookie {
		if len(body) < 4+2 {
			return errOfflineShort
		}
		m.cookie = binary.BigEndian.Uint32(body)
		body = body[4:]
		if len(body) >= publicKeySize+2 {
			m.encrypts = true
			copy(m.publicKey[:], body)
			body = body[publicKeySize:]
		}
	}
	m.mtu = binary.BigEndian.Uint16(body)
	return nil
}

func (m *openConnectionReply1) append(b []byte) []byte {
	b = appendOffline(b, idOpenConnectionReply1)
	b = appendGUID(b, m.guid)
	b = appendFlag(b, m.hasCookie)
	if m.hasCookie {
		b = binary.BigEndian.AppendUint32(b, m.cookie)
		if m.encrypts {
			b = append(b, m.publicKey[:]...)
		}
	}
	return binary.BigEndian.AppendUint16(b, m.mtu)
}

const answerSize = 128

// openConnectionReply2 grants the connection and settles its MTU:
//
//	0       0x08
//	1..16   magic
//	17..24  server's GUID
//	..      client's address as the server sees it
//	..      MTU, 2 bytes, big-endian
//	..      security: stock RakNet sets the top bit, others the lowest, if an answer of 128 bytes follows
type openConnectionReply2 struct {
	guid     uint64
	client   address
	mtu      uint16
	encrypts bool
	answer   [answerSize]byte // answer to the client's challenge
}

func (m *openConnectionReply2) parse(b []byte) error {
	body, err := checkOffline(b, idOpenConnectionReply2, 8)
	if err != nil {
		return err
	}
	*m = openConnectionReply2{guid: binary.BigEndian.Uint64(body)}
	if m.client, body, err = parseAddress(body[8:]); err != nil {
		return err
	}
	if len(body) < 2+1 {
		return errOfflineShort
	}
	m.mtu, m.encrypts = binary.BigEndian.Uint16(body), body[2] != 0
	if !m.encrypts {
		return nil
	}
	if len(body) < 2+1+answerSize {
		return errOfflineShort
	}
	copy(m.answer[:], body[2+1:])
	return nil
}

func (m *openConnectionReply2) append(b []byte) []byte {
	b = appendOffline(b, idOpenConnectionReply2)
	b = appendGUID(b, m.guid)
	b = appendAddress(b, m.client)
	b = binary.BigEndian.AppendUint16(b, m.mtu)
	if !m.encrypts {
		return append(b, 0)
	}
	return append(append(b, 0x80), m.answer[:]...)
}

func appendFlag(b []byte, set bool) []byte {
	if set {
		return append(b, 1)
	}
	return append(b, 0)
}
