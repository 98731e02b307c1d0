package nethernet

import (
	"crypto/sha1" //nolint:gosec // STUN's
	"crypto/subtle"
	"hash"
	"net/netip"
)

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
