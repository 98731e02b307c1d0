package admission

import (
	"time"

	"tidegate/codec"
)

// Clients and strangers wait in one receive buffer of the kernel. It holds about 2,700 small datagrams, or 960 with a
// network card that uses a page for each. A full buffer drops both alike. So the loop must empty it faster than it
// fills. When the loop has read more than mostBacklog datagrams without finding the buffer empty, it reads strangers
// and drops them. It still handles one in heardOf, which may be honest. Such a drop costs a fifth of an answer. Where
// the kernel has a gate for strangers, their datagrams never reach the loop.
const (
	someBacklog = 256 // a loop with more datagrams to read at once is behind
	mostBacklog = 512
	heardOf     = 8 // beyond mostBacklog, one stranger's datagram in so many is handled
)

// Backlog measures how far a loop is behind with reading. A backend that never reports an empty buffer gives no
// measure.
type Backlog struct {
	// Lossy is the time until which a full buffer may have lost clients' datagrams.
	Lossy time.Time

	tells bool
	told  bool // the drops of this flood were reported
	read  int  // clients' datagrams since the buffer was empty
}

// LossyFor is how long clients may suffer from a buffer that was full: until the lost datagrams have been sent again.
const LossyFor = 5 * time.Second

// Drained notes that nothing is left to read.
func (b *Backlog) Drained() { *b = Backlog{tells: true, Lossy: b.Lossy} }

// Count counts a client's datagram. With so many to read, the buffer may have been full.
func (b *Backlog) Count(now time.Time) {
	if b.read++; b.Overrun() {
		b.Lossy = now.Add(LossyFor)
	}
}

// Excuse tells a client's connection to ignore losses that our own full receive buffer may have caused.
func (b *Backlog) Excuse(now time.Time, client codec.Conn) {
	if now.Before(b.Lossy) {
		if e, ok := client.(codec.LossTolerant); ok {
			e.TolerateLoss(b.Lossy)
		}
	}
}

// Behind reports whether more datagrams waited than a loop that keeps up ever has.
func (b *Backlog) Behind() bool { return b.tells && b.read > someBacklog }

// Overrun reports whether more datagrams waited than the kernel's gate would ever let strangers send.
func (b *Backlog) Overrun() bool { return b.tells && b.read > mostBacklog }

// Sheds reports whether a stranger's datagram, if it was the last one read, is dropped.
func (b *Backlog) Sheds() bool { return b.Overrun() && b.read%heardOf != 0 }

// Tell reports whether the next drop of a stranger's datagram is the first one of this flood. Only the first one is
// logged as any drop is.
func (b *Backlog) Tell() bool {
	first := !b.told
	b.told = true
	return first
}
