package relay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"tidegate/session"
)

// shard is the index of a Relay among the Relays that share the listeners, and their number.
type shard struct{ index, of int }

// identities makes RakNet GUIDs for clients whose protocol has none. A server takes two clients with one GUID for one
// client.
type identities struct{ rng *rand.Rand }

// next returns a RakNet GUID. Its top bit is set, as newer go-raknet demands.
func (i identities) next() uint64 { return i.rng.Uint64() | 1<<63 }

// secret returns a seed that strangers cannot predict.
func (i identities) secret() (s [32]byte) {
	for n := 0; n < len(s); n += 8 {
		binary.LittleEndian.PutUint64(s[n:], i.rng.Uint64())
	}
	return s
}

// clientIDs makes Riptide client IDs for clients whose upstream makes none. Each shard has its own residue class of 1
// to 65,535. IDs are random within it. So a peer that repeats an ID has read the datagram with that ID.
type clientIDs struct {
	rng          *rand.Rand
	first, step  int
	used         []uint64 // one bit per ID
	count, limit int      // of this shard
}

func newClientIDs(s shard, secret [32]byte) *clientIDs {
	first := 1 + s.index
	return &clientIDs{
		rng: rand.New(rand.NewChaCha8(secret)), first: first, step: s.of, limit: (1<<16 - first + s.of - 1) / s.of,
	}
}

// take returns an unused ID, or false when all IDs of the shard are in use.
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

// claim takes an ID that a session of another process has. It returns false if the ID is in use, or is not one of the
// shard's.
func (c *clientIDs) claim(id uint16) bool {
	if int(id) < c.first || (int(id)-c.first)%c.step != 0 {
		return false
	}
	if c.used == nil {
		c.used = make([]uint64, 1<<16/64)
	}
	if c.isUsed(id) {
		return false
	}
	c.used[id/64] |= 1 << (id % 64)
	c.count++
	return true
}

func (c *clientIDs) free(id uint16) {
	c.used[id/64] &^= 1 << (id % 64)
	c.count--
}

func (c *clientIDs) id(n int) uint16 { return uint16(c.first + n*c.step) }

func (c *clientIDs) isUsed(id uint16) bool { return c.used[id/64]&(1<<(id%64)) != 0 }

// serials makes the IDs of one Relay's sessions. Each ID is higher than the one before.
type serials struct {
	last, step session.ID
}

func newSerials(shard, shards int) serials {
	return serials{last: session.ID(shard), step: session.ID(shards)}
}

func (s *serials) next() session.ID {
	s.last += s.step
	return s.last
}

// has reports whether an ID is one of this Relay's, given or not.
func (s *serials) has(id session.ID) bool { return id%s.step == s.last%s.step }

// Errors of an operator's requests to a Server.
var (
	ErrNoSession = errors.New("no such session") // the session has ended, or never existed
	ErrEnding    = errors.New("the session is ending already")
)

// errRecord is wrapped by errors about a readable record that does not fit this proxy.
var errRecord = errors.New("unusable record of a session")

func unusable(what string, value any) error {
	return fmt.Errorf("%w: %s is %v", errRecord, what, value)
}
