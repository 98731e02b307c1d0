package proxy

import "sync"

// maxSpool bounds what a capture keeps of a loop until it is read: about 30 ms of a loop's fastest, longer of anything
// else.
const (
	maxSpool      = 2 << 20 // bytes of datagrams
	maxSpoolCount = 8192    // datagrams
)

// spool is where a loop puts what one capture wants of it. The loop never waits: what has no room is left out and
// counted. Its lock is held for the copy of a datagram, and by the reader while it takes the whole by changing two
// pointers.
type spool struct {
	filter *CaptureFilter
	ready  chan<- struct{} // has something whenever the spool has, after a moment

	mu   sync.Mutex
	held *batch
}

// batch is a Catch with the room for its bytes.
type batch struct {
	Catch
	room []byte
}

func newSpool(f *CaptureFilter, ready chan<- struct{}) *spool {
	return &spool{filter: f, ready: ready, held: new(batch)}
}

// put copies a datagram, with what stands before it on the wire.
func (s *spool) put(c *Captured, prefix, datagram []byte) {
	s.mu.Lock()
	s.held.add(c, prefix, datagram)
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default: // the reader has not yet come for what was there
	}
}

func (b *batch) add(c *Captured, prefix, datagram []byte) {
	if b.room == nil {
		b.room, b.Captured = make([]byte, 0, maxSpool), make([]Captured, 0, maxSpoolCount)
	}
	begin := len(b.room)
	switch {
	case begin+len(prefix)+len(datagram) <= cap(b.room) && len(b.Captured) < cap(b.Captured):
		b.room = append(append(b.room, prefix...), datagram...)
		b.Captured = append(b.Captured, *c)
		b.Captured[len(b.Captured)-1].Bytes = b.room[begin:]
	case c.Upstream:
		b.LeftOut.Upstreams++
	default:
		b.LeftOut.Clients++
	}
}

func (b *batch) empty() bool { return len(b.Captured) == 0 && b.LeftOut == Catch{}.LeftOut }

// swap returns what was put since the last time, in exchange for a batch that nobody reads any more.
func (s *spool) swap(used *batch) *batch {
	used.room, used.Catch = used.room[:0], Catch{Captured: used.Captured[:0]}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, used = used, s.held
	return used
}
