package raknet

import (
	"math/bits"

	"tidegate/codec/internal/events"
)

// workspace is the memory that a connection needs while data is under way: during the handshake, while the game sends,
// and for each ping. An idle connection has none, so that it is small. The connections of one loop share their
// workspaces.
type workspace struct {
	sending   sending
	flying    flying
	receiving receiving

	asking *attempt      // Conn.attempt, until the server has answered the connection request; nil: none
	early  earlyMessages `record:"inline"`
	lent   [][]byte      // recycled buffers that events refer to, until the next input
	events events.Queue
	memory *buffers
}

// noWorkspace is the workspace of a connection without one. It is only read, and always empty.
var noWorkspace workspace

// workspaces holds the unused workspaces of a loop's connections. It is not safe for concurrent use. nil holds none.
type workspaces struct {
	free   []*workspace
	memory buffers // shared by all workspaces
	// spare is the number of workspaces that were unused since the last review. A review follows after returned has
	// reached workspaceReview.
	spare, returned int
}

// workspaceReview is the number of returned workspaces between two reviews. A review frees the workspaces that were
// spare since the last one, except keptWorkspaces. So many clients that join and fall silent leave only the memory for
// their pings behind.
const (
	workspaceReview = 256
	keptWorkspaces  = 512
)

func newWorkspace(memory *buffers) *workspace {
	w := &workspace{memory: memory}
	w.events.Share(&memory.events)
	for i, q := range [...]*ackQueue{&w.receiving.acks, &w.receiving.recent, &w.receiving.repeat} {
		q.ranges = w.receiving.room[i][:0:2]
	}
	return w
}

// get lends a workspace.
func (p *workspaces) get() *workspace {
	if p == nil {
		return newWorkspace(new(buffers))
	}
	last := len(p.free) - 1
	if last < 0 {
		p.spare = 0
		return newWorkspace(&p.memory)
	}
	w := p.free[last]
	p.free[last], p.free = nil, p.free[:last]
	p.spare = min(p.spare, last)
	return w
}

// put takes back an empty workspace. It frees one that has grown large.
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

// keptPlaces bounds the lists of a workspace that is kept.
const keptPlaces = 32

// isLarge reports whether a workspace has grown beyond the needs of most connections.
func (w *workspace) isLarge() bool {
	s, f, r := &w.sending, &w.flying, &w.receiving
	return max(len(s.control.ring), len(s.small.ring), len(s.bulk.ring),
		len(f.ring), cap(f.parts), cap(f.free), cap(f.resend), cap(f.done),
		cap(r.acks.ranges), cap(r.recent.ranges), cap(r.repeat.ranges), cap(r.nacks.ranges), cap(r.holes.list),
		cap(w.lent), w.events.Room()) > keptPlaces
}

// occupy gives the connection a workspace, if it has none.
func (c *Conn) occupy() {
	if c.workspace == &noWorkspace {
		c.move(c.p.spaces.get())
	}
}

// leave returns a workspace that is empty now.
func (c *Conn) leave() {
	w := c.workspace
	w.flying.forgetResends() // parts that have settled meanwhile
	w.asking, w.flying.stuck = nil, stuck{}
	c.move(&noWorkspace)
	c.p.spaces.put(w)
}

// move makes the connection's halves use a workspace.
func (c *Conn) move(to *workspace) {
	c.workspace = to
	c.sender.sending, c.sender.memory, c.sender.flight.flying = &to.sending, to.memory, &to.flying
	c.receiver.receiving, c.receiver.memory, c.receiver.splits.memory = &to.receiving, to.memory, to.memory
}

// Buffers are kept for reuse in classes of powers of two from 64 bytes to 64 KiB: at most keptBytes of them, and
// keptMessages records.
const (
	leastClass   = 6
	mostClass    = 16
	keptBytes    = 1 << 20
	keptMessages = 4096
)

// buffers recycles the memory of messages that wait to be acknowledged, for further parts, or for their turn. The
// connections of a loop share it. So its size follows the total under way, and a returned buffer is still in the
// processor's cache at its next use. It has no lock.
type buffers struct {
	free    *[mostClass - leastClass + 1][][]byte
	kept    int
	records []*outgoing
	ready   []inbound   // of the datagram in hand, in the order of delivery to the application
	events  events.Pool // of all connections
}

// record returns an empty record of a message.
func (f *buffers) record() *outgoing {
	last := len(f.records) - 1
	if last < 0 {
		return new(outgoing)
	}
	m := f.records[last]
	f.records = f.records[:last]
	return m
}

// putRecord returns a record and its payload.
func (f *buffers) putRecord(m *outgoing) {
	f.put(m.Payload)
	*m = outgoing{}
	if len(f.records) < keptMessages {
		f.records = append(f.records, m)
	}
}

// copy returns a copy of p in recycled memory.
func (f *buffers) copy(p []byte) []byte { return append(f.get(len(p)), p...) }

// get returns an empty buffer with room for n bytes.
func (f *buffers) get(n int) []byte {
	class := classOf(n)
	if class > mostClass {
		return make([]byte, 0, n)
	}
	if f.free != nil {
		list := &f.free[class-leastClass]
		if last := len(*list) - 1; last >= 0 {
			b := (*list)[last]
			*list = (*list)[:last]
			f.kept -= cap(b)
			return b
		}
	}
	return make([]byte, 0, 1<<class)
}

// put returns a buffer from get.
func (f *buffers) put(b []byte) {
	class := classOf(cap(b))
	if b == nil || class > mostClass || cap(b) != 1<<class || f.kept+cap(b) > keptBytes {
		return
	}
	if f.free == nil {
		f.free = new([mostClass - leastClass + 1][][]byte)
	}
	f.free[class-leastClass] = append(f.free[class-leastClass], b[:0])
	f.kept += cap(b)
}

// classOf returns the binary logarithm of the smallest class with room for n bytes.
func classOf(n int) int { return max(leastClass, bits.Len(uint(max(n, 1)-1))) }
