package nethernet

// Kind is the protocol of a datagram, as far as its first bytes tell.
type Kind uint8

// Kinds.
const (
	Strange         Kind = iota // nothing that such a port expects
	RakNetOffline               // RakNet's ping or request for a connection, with its magic bytes
	STUN                        // ICE's checks, and extensions that Binding cannot read
	DTLS                        // a record of an encrypted connection
	RakNetConnected             // RakNet's datagrams of a session
)

// Sizes and values of the first bytes. RFC 7983 gives STUN the first bytes 0 to 3, and DTLS 20 to 63.
const (
	stunHeader  = 20
	stunCookie  = 0x2112a442
	stunMost    = 3
	dtlsLeast   = 20
	dtlsMost    = 63
	dtlsAlert   = 21
	raknetLeast = 0x80
	raknetMost  = 0x8f
	raknetNACK  = 0xa0
	raknetACK   = 0xc0
)

const (
	raknetMagic  = "\x00\xff\xff\x00\xfe\xfe\xfe\xfe\xfd\xfd\xfd\xfd\x12\x34\x56\x78"
	raknetPingAt = 9 // of the magic bytes, after the time
	raknetOpenAt = 1
)

// KindOf looks at a datagram's first bytes. RakNet comes first: the time in its ping may look like STUN's cookie, but
// STUN never has RakNet's magic bytes there. A DTLS record is known by one byte, since records of DTLS 1.3 have no
// version. So only an admitted source's DTLS means anything.
func KindOf(datagram []byte) Kind {
	if len(datagram) == 0 {
		return Strange
	}
	switch first := datagram[0]; {
	case isRakNetOffline(datagram):
		return RakNetOffline
	case IsSTUN(datagram):
		return STUN
	case first >= dtlsLeast && first <= dtlsMost:
		return DTLS
	case first >= raknetLeast && first <= raknetMost, first == raknetNACK, first == raknetACK:
		return RakNetConnected
	}
	return Strange
}

// IsSTUN reports whether a datagram is one STUN message: its first byte, cookie and exact length.
func IsSTUN(datagram []byte) bool {
	return len(datagram) >= stunHeader && datagram[0] <= stunMost && be.Uint32(datagram[4:]) == stunCookie &&
		len(datagram)%4 == 0 && int(be.Uint16(datagram[2:]))+stunHeader == len(datagram)
}

// MayClose reports whether a DTLS datagram begins with an alert. After a handshake the alert is encrypted, so this is
// a hint that the connection ends, and anybody can forge it.
func MayClose(datagram []byte) bool { return len(datagram) > 0 && datagram[0] == dtlsAlert }

func isRakNetOffline(d []byte) bool {
	at := raknetOpenAt
	switch d[0] {
	case 1, 2:
		if len(d) < 33 { // with the sender's ID
			return false
		}
		at = raknetPingAt
	case 5, 7:
	default:
		return false
	}
	return len(d) >= at+len(raknetMagic) && string(d[at:at+len(raknetMagic)]) == raknetMagic
}
