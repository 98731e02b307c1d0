package proxy

import (
	"encoding/binary"
	"math/rand/v2"
)

// identities gives RakNet GUIDs to clients whose protocol has none. A server takes two clients of one GUID for one.
type identities struct{ rng *rand.Rand }

func newIdentities(seed uint64) identities {
	return identities{rand.New(rand.NewPCG(seed, 0x7469646567617465))}
}

func (i identities) next() uint64 { return max(1, i.rng.Uint64()) }

// secret is a seed of something that strangers must not foresee.
func (i identities) secret() (s [32]byte) {
	for n := 0; n < len(s); n += 8 {
		binary.LittleEndian.PutUint64(s[n:], i.rng.Uint64())
	}
	return s
}

// clientIDs gives Riptide client IDs to clients whose upstream gives none: each shard its own residue class of 1 to
// 65,535, and any of those, so that whoever can repeat an ID has read the datagram that it was given in.
type clientIDs struct {
	rng          *rand.Rand
	first, step  int
	used         []uint64 // a bit for each ID
	count, limit int      // of this shard
}

func newClientIDs(s shard, secret [32]byte) *clientIDs {
	first := 1 + s.index
	return &clientIDs{
		rng: rand.New(rand.NewChaCha8(secret)), first: first, step: s.of, limit: (1<<16 - first + s.of - 1) / s.of,
	}
}

// take returns an unused ID, or false when all of the shard's are in use.
func (c *clientIDs) take() (uint16, bool) {
	if c.count >= c.limit {
		return 0, false
	}
	if c.used == nil {
		c.used = make([]uint64, 1<<16/64)
	}
	n := c.rng.IntN(c.limit)
	for c.isUsed(c.id(n)) {
		n = (n + 1) % c.limit
	}
	id := c.id(n)
	c.used[id/64] |= 1 << (id % 64)
	c.count++
	return id, true
}

func (c *clientIDs) free(id uint16) {
	c.used[id/64] &^= 1 << (id % 64)
	c.count--
}

func (c *clientIDs) id(n int) uint16 { return uint16(c.first + n*c.step) }

func (c *clientIDs) isUsed(id uint16) bool { return c.used[id/64]&(1<<(id%64)) != 0 }
