package recording

import (
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"

	"tidegate/codec"
	"tidegate/session"
)

// RecordFilter selects recorded datagrams. Empty fields select all.
type RecordFilter struct {
	Since   time.Time
	Session session.ID // also the datagrams of its client before the session began
	Client  netip.Prefix
	Peer    netip.AddrPort // the session's client, if it is known: the search is faster
}

// Found is a record that a reader has chosen.
type Found struct {
	recorded
	in *BlackBox
}

// Choose returns the records that a filter selects, the oldest first.
func (b *BlackBox) Choose(f *RecordFilter) (all []Found) {
	client := f.Peer
	if f.Session != 0 && !client.IsValid() {
		b.find(f.Since, client, func(r recorded) bool {
			if r.session == f.Session {
				client = r.client
			}
			return r.session != f.Session
		})
		if !client.IsValid() {
			return nil
		}
	}
	b.find(f.Since, client, func(r recorded) bool {
		if f.selects(&r) {
			all = append(all, Found{r, b})
		}
		return true
	})
	slices.Reverse(all)
	return all
}

func (f *RecordFilter) selects(r *recorded) bool {
	return (f.Session == 0 || r.session == f.Session || r.session == 0) &&
		(!f.Client.IsValid() || f.Client.Contains(r.client.Addr()))
}

// Recorder has the black boxes of all loops.
type Recorder struct{ boxes []*BlackBox }

// NewRecorder returns a recorder for so many loops, which share size bytes.
func NewRecorder(loops, size int) *Recorder {
	r := &Recorder{make([]*BlackBox, loops)}
	for i := range r.boxes {
		r.boxes[i] = NewBlackBox(size / loops)
	}
	return r
}

// Box returns a loop's black box.
func (r *Recorder) Box(loop int) *BlackBox { return r.boxes[loop] }

// Read passes the recorded datagrams that a filter selects to take, in the order of time, and reports whether there are
// any. A Catch is lent until take returns.
func (r *Recorder) Read(f *RecordFilter, take func(*Catch) error) (found bool, err error) {
	var all []Found
	for _, b := range r.boxes {
		all = append(all, b.Choose(f)...)
	}
	return len(all) > 0, ReadOut(all, take)
}

// ReadOut passes records to take in the order of time, in batches. It counts records that the loops have overwritten
// meanwhile.
func ReadOut(all []Found, take func(*Catch) error) error {
	slices.SortStableFunc(all, func(a, b Found) int { return a.at.Compare(b.at) })
	b := new(Batch)
	for i := range all {
		if !all[i].in.read(all[i].place, b) {
			b.LeftOut.Clients++
		}
		if i%slice == 0 {
			runtime.Gosched() // a loop may wait for the lock
		}
		full := len(b.Captured) == maxSpoolCount || len(b.room) > MaxSpool-codec.MaxDatagram
		if !full && i+1 < len(all) {
			continue
		}
		if err := take(&b.Catch); err != nil {
			return err
		}
		b.room, b.Catch = b.room[:0], Catch{Captured: b.Captured[:0]}
	}
	return nil
}

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
