package raknet

import "tidegate/codec/internal/events"

// workspace is the memory that a connection needs while anything is under way on it: while it is opened, while the game
// talks, and for each ping. An idle connection has none, so that it is small; connections of one loop lend theirs to each
// other.
type workspace struct {
	sending   sending
	flying    flying
	receiving receiving

	question asking // room for Conn.asking
	early    earlyMessages
	lent     [][]byte // recycled buffers that events refer to, until the next input
	events   events.Queue
	memory   *buffers
}

// nowhere is the workspace of a connection that has none. It is for reading: it has nothing in it, ever.
var nowhere workspace

// workspaces are those that no connection of a loop has at the moment. They are not safe for concurrent use. nil is none.
type workspaces struct {
	free   []*workspace
	memory buffers // of all of them
	// spare is how many of them nobody has needed since the last review, which is after so many were given back.
	spare, returned int
}

// workspaceReview is how many workspaces are given back between two reviews. Each lets go of those that were spare since
// the last one, all but keptWorkspaces: a crowd that joins and falls silent leaves no more behind than its pings need.
const (
	workspaceReview = 256
	keptWorkspaces  = 512
)

// get lends a workspace.
func (p *workspaces) get() *workspace {
	if p == nil {
		return &workspace{memory: new(buffers)}
	}
	last := len(p.free) - 1
	if last < 0 {
		p.spare = 0
		return &workspace{memory: &p.memory}
	}
	w := p.free[last]
	p.free[last], p.free = nil, p.free[:last]
	p.spare = min(p.spare, last)
	return w
}

// put takes back a workspace that has nothing in it. One that has grown is let go of.
func (p *workspaces) put(w *workspace) {
	if p == nil || w.isLarge() {
		return
	}
	p.free = append(p.free, w)
	if p.returned++; p.returned < workspaceReview {
		return
	}
	kept := max(len(p.free)-p.spare, min(len(p.free), keptWorkspaces))
	clear(p.free[kept:])
	p.free = p.free[:kept]
	p.spare, p.returned = kept, 0
}

// keptPlaces bounds the lists of a workspace that is worth keeping.
const keptPlaces = 32

// isLarge reports whether a workspace has grown beyond what most connections need.
func (w *workspace) isLarge() bool {
	s, f, r := &w.sending, &w.flying, &w.receiving
	return max(len(s.control.ring), len(s.small.ring), len(s.bulk.ring),
		len(f.ring), cap(f.parts), cap(f.free), cap(f.resend), cap(f.done),
		cap(r.ready), cap(r.acks.ranges), cap(r.told.ranges), cap(r.repeat.ranges), cap(r.nacks.ranges), cap(r.holes.list),
		cap(w.lent), w.events.Room()) > keptPlaces
}

// occupy gives the connection a workspace, if it has none.
func (c *Conn) occupy() {
	if c.workspace == &nowhere {
		c.move(c.p.spaces.get())
	}
}

// leave gives up a workspace in which nothing is left.
func (c *Conn) leave() {
	w := c.workspace
	w.flying.forgetResends() // those that have settled meanwhile
	c.move(&nowhere)
	c.p.spaces.put(w)
}

// move has the connection's halves work in a workspace.
func (c *Conn) move(to *workspace) {
	c.workspace = to
	c.sender.sending, c.sender.memory, c.sender.flight.flying = &to.sending, to.memory, &to.flying
	c.receiver.receiving, c.receiver.memory, c.receiver.splits.memory = &to.receiving, to.memory, to.memory
}
