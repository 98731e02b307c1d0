package recording

import (
	"net/netip"
	"sync"
	"time"

	"tidegate/session"
)

// CaptureFilter selects the datagrams of a capture. Empty fields select all.
type CaptureFilter struct {
	Session  session.ID
	Client   netip.Prefix // a network that contains the client's address
	Route    string
	Upstream string
}

// Captured is a datagram that passed between a loop and the network.
type Captured struct {
	At       time.Time // the time of the loop's turn, which looks at the clock once
	From, To netip.AddrPort
	Upstream bool       // between the proxy and a server, not a client
	Sent     bool       // sent by the proxy
	Stream   bool       // over TCP: Bytes are a frame with its length before it
	Session  session.ID // 0: none, or none yet
	Bytes    []byte
}

// Catch has the captured datagrams of one loop since the last Catch, in the loop's order.
type Catch struct {
	Captured []Captured
	// LeftOut counts datagrams without room, because the last catches were not taken in time.
	LeftOut struct{ Clients, Upstreams uint64 }
}

// MaxSpool and maxSpoolCount bound the datagrams that a capture keeps of a loop until they are read. That is about 30
// ms at a loop's highest rate, and longer at any lower one.
const (
	MaxSpool      = 2 << 20 // bytes of datagrams
	maxSpoolCount = 8192    // datagrams
)

// Capture is a capture by several loops, each with a Spool of its own. One goroutine takes what they have captured.
type Capture struct {
	Ready  <-chan struct{} // has a value soon after a datagram was captured
	spools []*Spool
	last   *Batch
}

// NewCapture returns a capture of the datagrams that f selects, by so many loops.
func NewCapture(f *CaptureFilter, loops int) *Capture {
	ready := make(chan struct{}, 1)
	c := &Capture{Ready: ready, spools: make([]*Spool, loops), last: new(Batch)}
	for i := range c.spools {
		c.spools[i] = NewSpool(f, ready)
	}
	return c
}

// Spool returns a loop's Spool.
func (c *Capture) Spool(loop int) *Spool { return c.spools[loop] }

// Take passes what each loop has captured since the last call. A Catch is lent until take returns.
func (c *Capture) Take(take func(*Catch) error) error {
	for _, spool := range c.spools {
		if c.last = spool.Swap(c.last); c.last.isEmpty() {
			continue
		}
		if err := take(&c.last.Catch); err != nil {
			return err
		}
	}
	return nil
}

// Spool holds a loop's datagrams for one capture. The loop never waits: a datagram without room is left out and
// counted. The lock is held while a datagram is copied, and while the reader exchanges two pointers to take the whole
// batch.
type Spool struct {
	filter *CaptureFilter
	ready  chan<- struct{} // gets a value soon after the spool has one

	mu   sync.Mutex
	held *Batch
}

// Batch is a Catch with the memory for its bytes.
type Batch struct {
	Catch
	room []byte
}

// NewSpool returns a Spool for the datagrams that f selects. ready gets a value soon after the Spool has one.
func NewSpool(f *CaptureFilter, ready chan<- struct{}) *Spool {
	return &Spool{filter: f, ready: ready, held: new(Batch)}
}

// Filter returns the filter that selects the Spool's datagrams.
func (s *Spool) Filter() *CaptureFilter { return s.filter }

// Put copies a datagram, after the prefix that stands before it on the wire.
func (s *Spool) Put(c *Captured, prefix, datagram []byte) {
	s.mu.Lock()
	s.held.add(c, prefix, datagram)
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default: // the reader has not come for the last datagrams yet
	}
}

func (b *Batch) add(c *Captured, prefix, datagram []byte) {
	if b.room == nil {
		b.room, b.Captured = make([]byte, 0, MaxSpool), make([]Captured, 0, maxSpoolCount)
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

// isEmpty reports whether the batch has no datagram, and none was left out.
func (b *Batch) isEmpty() bool { return len(b.Captured) == 0 && b.LeftOut == Catch{}.LeftOut }

// Swap returns the batch since the last call, in exchange for a batch that is no longer read.
func (s *Spool) Swap(used *Batch) *Batch {
	used.room, used.Catch = used.room[:0], Catch{Captured: used.Captured[:0]}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, used = used, s.held
	return used
}
