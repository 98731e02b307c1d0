package nethernet

import (
	"crypto/sha1" //
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"net/netip"

	"tidegate/codec"
)

var be = binary.BigEndian

// maxBinding is the size in bytes of the largest STUN message that Parse reads. Real ones have about 100.
const maxBinding = 2048

// Class is what a STUN message does.
type Class uint16

// Classes of a Binding, as on the wire.
const (
	Request    Class = 0x0001
	Indication Class = 0x0011
	Success    Class = 0x0101
	Failure    Class = 0x0111
)

// Role is the part of an ICE agent that sends a request.
type Role uint8

// Roles.
const (
	NoRole Role = iota
	Controlling
	Controlled
)

// The attributes of RFC 8489 and RFC 8445 that matter here.
const (
	attrUsername      = 0x0006
	attrIntegrity     = 0x0008
	attrMapped        = 0x0020
	attrPriority      = 0x0024
	attrUseCandidate  = 0x0025
	attrFingerprint   = 0x8028
	attrControlled    = 0x8029
	attrControlling   = 0x802a
	attrHeader        = 4
	integrityLen      = 20
	fingerprintLen    = 4
	fingerprintMask   = 0x5354554e
	familyIPv4        = 1
	familyIPv6        = 2
	mappedHeader      = 4
	lengthAt          = 2
	transactionAt     = 8
	bindingMethodMask = 0x0111 // the bits of a type that give the class
	responseBit       = 0x0100 // of a type: Success and Failure have it
)

// TransactionID pairs a request with its response.
type TransactionID [12]byte

// Binding is a STUN message of ICE: a check whether a path works, or its answer. Nothing in it is proved before
// IsWhole and Integrity.Verify say so.
//
// This package has its own parser, because pion/stun copies a datagram to read it, writes into it to verify it, and
// takes bytes behind a message and attributes behind its signature. It also brings DTLS and a network library along.
type Binding struct {
	Class      Class
	ID         TransactionID
	Username   []byte // receiver's ufrag, ":", sender's ufrag; part of the datagram; nil: none
	Nominates  bool   // USE-CANDIDATE: the controlling agent wants this path
	Role       Role
	TieBreaker uint64
	Priority   uint32
	Mapped     netip.AddrPort // the sender of the request, as its receiver saw it; invalid: none

	datagram      []byte
	integrityAt   int // where the attribute begins; 0: none
	fingerprintAt int
}

// Parse reads a datagram, which b refers to from then on. It is strict, because a relay and the peer behind it must
// read the same: the length is exact, no attribute that counts occurs twice, and only the fingerprint follows the
// integrity. An error wraps codec.ErrMalformed. An error does not mean that a peer would refuse the datagram:
// extensions of ICE use other messages.
func (b *Binding) Parse(datagram []byte) error {
	if !IsSTUN(datagram) {
		return codec.ErrMalformed
	}
	*b = Binding{Class: Class(be.Uint16(datagram)), datagram: datagram}
	if len(datagram) > maxBinding || b.Class&^bindingMethodMask != 0 || b.Class&1 == 0 {
		return fmt.Errorf("%w: not a Binding, or too long", codec.ErrMalformed)
	}
	copy(b.ID[:], datagram[transactionAt:])
	seen := 0 // a bit for each attribute that was there
	for at := stunHeader; at < len(datagram); {
		rest := datagram[at:]
		if len(rest) < attrHeader {
			return codec.ErrMalformed
		}
		kind, size := be.Uint16(rest), int(be.Uint16(rest[2:]))
		padded := (size + 3) &^ 3
		if len(rest)-attrHeader < padded || b.fingerprintAt != 0 || b.integrityAt != 0 && kind != attrFingerprint {
			return errMisplaced
		}
		bit, ok := b.attribute(kind, rest[attrHeader:attrHeader+size], at)
		if !ok || seen&bit != 0 {
			return errMisplaced
		}
		seen |= bit
		at += attrHeader + padded
	}
	return nil
}

var errMisplaced = fmt.Errorf("%w: attribute too long, twice, or behind the integrity", codec.ErrMalformed)

// attribute takes one attribute. It returns a bit for each kind that it knows, and false if the value has a wrong size.
func (b *Binding) attribute(kind uint16, value []byte, at int) (bit int, ok bool) {
	switch kind {
	case attrUsername:
		b.Username = value
		return 1, len(value) > 0
	case attrIntegrity:
		b.integrityAt = at
		return 2, len(value) == integrityLen
	case attrFingerprint:
		b.fingerprintAt = at
		return 4, len(value) == fingerprintLen
	case attrUseCandidate:
		b.Nominates = true
		return 8, len(value) == 0
	case attrPriority:
		if len(value) != 4 {
			return 0, false
		}
		b.Priority = be.Uint32(value)
		return 16, true
	case attrControlled, attrControlling:
		if len(value) != 8 {
			return 0, false
		}
		b.Role, b.TieBreaker = Controlled, be.Uint64(value)
		if kind == attrControlling {
			b.Role = Controlling
		}
		return 32, true // both roles at once are a fault, too
	case attrMapped:
		b.Mapped = unmask(value, b.datagram)
		return 64, b.Mapped.IsValid()
	}
	return 0, true
}

// unmask reads XOR-MAPPED-ADDRESS. The invalid address means a wrong size or family.
func unmask(value, datagram []byte) netip.AddrPort {
	var ip [16]byte
	size := len(value) - mappedHeader
	if size != 4 && size != 16 || value[1] != familyOf(size) {
		return netip.AddrPort{}
	}
	for i := range size {
		ip[i] = value[mappedHeader+i] ^ datagram[4+i]
	}
	addr, _ := netip.AddrFromSlice(ip[:size])
	return netip.AddrPortFrom(addr, be.Uint16(value[2:])^stunCookie>>16)
}

func familyOf(size int) byte {
	if size == 4 {
		return familyIPv4
	}
	return familyIPv6
}

// Names reports whether the message is for the agent with the ufrag to, from the one with the ufrag from.
func (b *Binding) Names(to, from string) bool {
	n := len(to)
	return len(b.Username) == n+1+len(from) && string(b.Username[:n]) == to && b.Username[n] == ':' &&
		string(b.Username[n+1:]) == from
}

// IsWhole reports whether the message ends with a right fingerprint, as every message of ICE does. It costs little and
// proves nothing about the sender.
func (b *Binding) IsWhole() bool {
	at := b.fingerprintAt
	return at != 0 && be.Uint32(b.datagram[at+attrHeader:]) == fingerprintOf(b.datagram[:at])
}

// fingerprintOf returns the fingerprint of a message up to that attribute. The length in the header counts it already.
func fingerprintOf(message []byte) uint32 { return crc32.ChecksumIEEE(message) ^ fingerprintMask }

// Integrity computes the HMAC-SHA1 that proves that the sender of a STUN message knows a password. It is the memory
// that this takes: one Integrity serves any number of passwords, without allocations, but one goroutine at a time.
type Integrity struct {
	inner, outer hash.Hash
	block        [sha1.BlockSize]byte
	length       [2]byte
	sum          [sha1.Size]byte
}

// NewIntegrity returns an Integrity.
func NewIntegrity() *Integrity { return &Integrity{inner: sha1.New(), outer: sha1.New()} }

// Verify reports whether a message has an integrity that was made with the password. A request has the password of its
// receiver, and so has the response. It takes some microseconds: look the username up and call IsWhole first.
func (g *Integrity) Verify(b *Binding, password string) bool {
	at := b.integrityAt
	if at == 0 || password == "" {
		return false
	}
	sum := g.compute(b.datagram[:at], password)
	return subtle.ConstantTimeCompare(sum, b.datagram[at+attrHeader:at+attrHeader+integrityLen]) == 1
}

// compute returns the HMAC of a message up to that attribute, as if the message ended after it.
func (g *Integrity) compute(message []byte, password string) []byte {
	g.key(password)
	be.PutUint16(g.length[:], uint16(len(message)-stunHeader+attrHeader+integrityLen))
	g.inner.Write(message[:lengthAt])
	g.inner.Write(g.length[:])
	g.inner.Write(message[lengthAt+len(g.length):])
	g.outer.Write(g.inner.Sum(g.sum[:0]))
	return g.outer.Sum(g.sum[:0])
}

// key begins both hashes with the password. A password longer than a block is hashed first.
func (g *Integrity) key(password string) {
	const innerPad, outerPad = 0x36, 0x36 ^ 0x5c
	g.inner.Reset()
	g.outer.Reset()
	n := 0
	if len(password) > len(g.block) {
		for rest := password; rest != ""; rest = rest[n:] {
			n = copy(g.block[:], rest)
			g.inner.Write(g.block[:n])
		}
		n = copy(g.block[:], g.inner.Sum(g.sum[:0]))
		g.inner.Reset()
	} else {
		n = copy(g.block[:], password)
	}
	clear(g.block[n:])
	for i := range g.block {
		g.block[i] ^= innerPad
	}
	g.inner.Write(g.block[:])
	for i := range g.block {
		g.block[i] ^= outerPad
	}
	g.outer.Write(g.block[:])
}

// AppendSuccess appends the success response to a request with this ID, which came from the address mapped. The
// password is that of the request.
func (g *Integrity) AppendSuccess(b []byte, id TransactionID, mapped netip.AddrPort, password string) []byte {
	start := len(b)
	b = appendHeader(b, Success, id)
	addr := mapped.Addr().Unmap()
	ip := addr.AsSlice()
	if addr.Is4() { // AsSlice allocates only where it escapes
		four := addr.As4()
		ip = four[:]
	}
	b = appendAttr(b, attrMapped, mappedHeader+len(ip))
	b = append(b, 0, familyOf(len(ip)))
	b = be.AppendUint16(b, mapped.Port()^stunCookie>>16)
	for i, octet := range ip {
		b = append(b, octet^b[start+4+i])
	}
	return g.seal(b, start, password)
}

// Check is a request that an agent sends to find out whether a path works.
type Check struct {
	ID         TransactionID
	To, From   string // the ufrags of the receiver and the sender
	Priority   uint32 // that the receiver would give to the sender's address
	Role       Role   // Controlling or Controlled
	TieBreaker uint64
	Nominates  bool // only if Controlling
}

// AppendCheck appends a request. The password is the receiver's.
func (g *Integrity) AppendCheck(b []byte, c Check, password string) []byte {
	start := len(b)
	b = appendHeader(b, Request, c.ID)
	name := len(c.To) + 1 + len(c.From)
	b = appendAttr(b, attrUsername, name)
	b = append(append(append(b, c.To...), ':'), c.From...)
	for range -name & 3 {
		b = append(b, 0)
	}
	if c.Nominates {
		b = appendAttr(b, attrUseCandidate, 0)
	}
	role := uint16(attrControlled)
	if c.Role == Controlling {
		role = attrControlling
	}
	b = be.AppendUint64(appendAttr(b, role, 8), c.TieBreaker)
	b = be.AppendUint32(appendAttr(b, attrPriority, 4), c.Priority)
	return g.seal(b, start, password)
}

func appendHeader(b []byte, class Class, id TransactionID) []byte {
	b = be.AppendUint16(b, uint16(class))
	b = be.AppendUint16(b, 0) // seal writes the length
	b = be.AppendUint32(b, stunCookie)
	return append(b, id[:]...)
}

func appendAttr(b []byte, kind uint16, size int) []byte {
	return be.AppendUint16(be.AppendUint16(b, kind), uint16(size))
}

// seal ends the message that begins at start with its integrity and its fingerprint.
func (g *Integrity) seal(b []byte, start int, password string) []byte {
	sum := g.compute(b[start:], password)
	b = append(appendAttr(b, attrIntegrity, integrityLen), sum...)
	be.PutUint16(b[start+lengthAt:], uint16(len(b)-start-stunHeader+attrHeader+fingerprintLen))
	fingerprint := fingerprintOf(b[start:])
	return be.AppendUint32(appendAttr(b, attrFingerprint, fingerprintLen), fingerprint)
}

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
