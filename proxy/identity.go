package proxy

import "math/rand/v2"

// identities gives RakNet GUIDs to clients whose protocol has none. A server takes two clients of one GUID for one.
type identities struct{ rng *rand.Rand }

func newIdentities(seed uint64) identities {
	return identities{rand.New(rand.NewPCG(seed, 0x7469646567617465))}
}

func (i identities) next() uint64 { return max(1, i.rng.Uint64()) }

// clientIDs gives Riptide client IDs to clients whose upstream gives none: from 1 up, each shard its own residue class,
// and like the real server's, a freed one goes to the back of the queue.
type clientIDs struct {
	next, step int
	freed      []uint16
}

// freedReserve is how many fresh IDs are preferred over freed ones, so that late news of a former client does not seem to
// be about its successor.
const freedReserve = 1024

func newClientIDs(shard, shards int) *clientIDs { return &clientIDs{next: 1 + shard, step: shards} }

// take returns an unused ID, or false when all 65,535 are in use.
func (c *clientIDs) take() (uint16, bool) {
	if c.next <= 1<<16-1 && (len(c.freed) == 0 || c.next < freedReserve) {
		id := uint16(c.next)
		c.next += c.step
		return id, true
	}
	if len(c.freed) == 0 {
		return 0, false
	}
	id := c.freed[0]
	c.freed = c.freed[1:]
	return id, true
}

func (c *clientIDs) free(id uint16) { c.freed = append(c.freed, id) }
