package raknet

import (
	"encoding/binary"
)

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
	guid      uint64
	hasCookie bool
	cookie    uint32
	encrypts  bool // a public key follows
	publicKey [publicKeySize]byte
	mtu       uint16
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
