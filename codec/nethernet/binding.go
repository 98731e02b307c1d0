package nethernet

import (
	"encoding/binary"
	"fmt"
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
	if !IsSTUN(datagram) || len(datagram) > maxBinding {
		return codec.ErrMalformed
	}
	*b = Binding{Class: Class(be.Uint16(datagram)), datagram: datagram}
	if b.Class&^bindingMethodMask != 0 || b.Class&1 == 0 {
		return fmt.Errorf("%w: not a Binding", codec.ErrMalformed)
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
