package relay

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"time"

	"tidegate/codec"
	"tidegate/internal/a2s"
	"tidegate/internal/siphash"
)

// Pong is a listener's answer about its upstream's servers, for clients that ask without a session. One Relay writes
// it, and the others read it. It is safe for concurrent use.
type Pong struct {
	listing atomic.Pointer[listing]
	other   atomic.Pointer[listing] // what the servers say in another way
}

// listing is the servers' own text. It is immutable.
type listing struct {
	text []byte // of all servers together
	pong []byte // the datagram of one server with its own text
}

// Text returns the servers' present text, or nil while there is none. The caller must not change it. Text does not
// allocate.
func (p *Pong) Text() []byte {
	if l := p.present(); l != nil {
		return l.text
	}
	return nil
}

// present returns what the servers have answered, or what they say in another way, or nil.
func (p *Pong) present() *listing {
	if l := p.listing.Load(); l != nil {
		return l
	}
	return p.other.Load()
}

// SetElse publishes a text and a server's pong for as long as no server answers itself. It keeps both. An empty pong
// publishes nothing.
func (p *Pong) SetElse(text, pong []byte) {
	if len(pong) == 0 {
		p.other.Store(nil)
		return
	}
	p.other.Store(&listing{text, pong})
}

// set publishes copies of a text and of a server's pong, if they have changed. An empty pong publishes nothing, so
// that no text counts.
func (p *Pong) set(text, pong []byte) {
	old := p.listing.Load()
	switch {
	case len(pong) == 0:
		p.listing.Store(nil)
	case old == nil || !bytes.Equal(old.text, text) || !bytes.Equal(old.pong, pong):
		p.listing.Store(&listing{append([]byte{}, text...), bytes.Clone(pong)}) // an empty text is not nil
	}
}

// answer appends the answer to a ping as a server would give it, if any server has answered.
func (p *Pong) answer(b, ping []byte, protocol codec.Pinger) []byte {
	l := p.present()
	if l == nil {
		return b
	}
	return protocol.AppendPong(b, ping, l.pong, l.text)
}

// Queries are a listener's answers to server browsers (A2S), as its servers give them. One Relay writes them, and the
// others read them. It is safe for concurrent use.
type Queries struct {
	key     [2]uint64
	family  a2s.Family
	asked   atomic.Bool // a client has asked since the querier last looked
	answers [a2s.Kinds]atomic.Pointer[[][]byte]
}

// NewQueries returns Queries of a family without answers. Challenges are made from the seed.
func NewQueries(family a2s.Family, seed [32]byte) *Queries {
	key := [2]uint64{binary.LittleEndian.Uint64(seed[:]), binary.LittleEndian.Uint64(seed[8:])}
	return &Queries{family: family, key: key}
}

// answer returns the servers' answer to a query of a client, nil if there is none.
func (q *Queries) answer(k a2s.Kind) *[][]byte {
	if !q.asked.Load() {
		q.asked.Store(true)
	}
	return q.answers[k].Load()
}

// challengeTime is how long a challenge is given. It counts as long again.
const challengeTime = time.Minute

// challenge returns the number that proves the address of a client at a time.
func (q *Queries) challenge(now time.Time, client netip.AddrPort) uint32 {
	address := client.Addr().As16()
	h := siphash.New(q.key[0], q.key[1])
	h.Word(binary.LittleEndian.Uint64(address[:]), 2)
	h.Word(binary.LittleEndian.Uint64(address[8:]), 2)
	h.Word(uint64(client.Port())|uint64(now.Unix()/int64(challengeTime/time.Second))<<16, 2)
	return uint32(h.Sum(4)) &^ (1 << 31) // None is no challenge
}

func (q *Queries) isProved(now time.Time, client netip.AddrPort, given uint32) bool {
	return given == q.challenge(now, client) || given == q.challenge(now.Add(-challengeTime), client)
}
