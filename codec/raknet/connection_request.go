package raknet

import "encoding/binary"

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
