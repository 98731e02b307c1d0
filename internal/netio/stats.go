package netio

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// Stats are the totals of a Poller. They never decrease.
type Stats struct {
	In, Out   Traffic
	Truncated uint64 // received, but longer than MaxDatagram; dropped
	// Datagrams dropped by the kernel, which does not tell a full buffer from a filter. Always 0 in Portable.
	KernelDrops uint64 // at listening sockets without a filter, or with one that counts its own drops
	FilterDrops uint64 // at listening sockets with a filter that does not count, by it or because the buffer was full
	DialedDrops uint64 // at dialed sockets, because the buffer was full
	WouldBlock  uint64 // to be sent while the kernel's buffer was full; dropped
	TooLarge    uint64 // to be sent, but longer than MaxDatagram or the path allows; dropped
	Strangers   uint64 // received by a shared descriptor from an unknown peer; dropped
	Refused     uint64 // reports of closed ports at dialed peers
	Errors      uint64 // other errors of sending and receiving, at most one for each datagram
	Delays      uint64 // turns that waited for more datagrams
	Streams     StreamStats
}

// StreamStats are the totals of a Poller's TCP connections. Stats.In and Out count their frames.
type StreamStats struct {
	Accepted  uint64
	Dialed    uint64
	Ended     uint64 // by the peer, properly or by a reset, or by the network
	BadFrames uint64 // closed because a frame length was out of bounds
	Silent    uint64 // closed without a first frame in time
	Slow      uint64 // closed because too much data waited for the peer
	Refused   uint64 // closed at once because of StreamOptions.MaxConns or Hellos, or for lack of descriptors
}

// countEnd counts the end of a stream because of err.
func (s *StreamStats) countEnd(err error) {
	switch err {
	case ErrFrame:
		s.BadFrames++
	case ErrSilent:
		s.Silent++
	case ErrSlow:
		s.Slow++
	default:
		s.Ended++
	}
}

// Traffic counts one direction.
type Traffic struct {
	Datagrams uint64
	Bytes     uint64 // of payload
	Calls     uint64 // system calls: Datagrams / Calls is the average batch
}

// add counts the datagrams of one system call.
func (t *Traffic) add(datagrams, bytes int) {
	t.Datagrams += uint64(datagrams)
	t.Bytes += uint64(bytes)
	t.Calls++
}

// countSend counts n unsent datagrams.
func (s *Stats) countSend(f failure, n int) {
	switch f {
	case wouldBlock:
		s.WouldBlock += uint64(n)
	case tooLarge:
		s.TooLarge += uint64(n)
	case refused:
		s.Refused += uint64(n)
	default:
		s.Errors += uint64(n)
	}
}

// countReceive counts an error that came instead of a datagram.
func (s *Stats) countReceive(f failure) {
	switch f {
	case tooLarge:
		s.Truncated++
	case refused:
		s.Refused++
	default:
		s.Errors++
	}
}

// failure is the meaning of a socket error on all platforms.
type failure uint8

const (
	otherFailure failure = iota
	wouldBlock           // the kernel's buffer is full, or empty
	tooLarge             // the datagram exceeds the path's limit, or the receive buffer
	refused              // the peer's host reported an unreachable port
	unreachable          // there is no route to the peer's host
)

// err returns the error for the Handler, or nil if the Handler does not get it.
func (f failure) err() error {
	switch f {
	case refused:
		return ErrRefused
	case unreachable:
		return ErrUnreachable
	}
	return nil
}

// failures is the queue for Handler.Failed. Receive delivers it, never Send or Flush, so that a loop is not called
// back in the middle of its own work. A socket has at most one entry.
type failures []failed

// failed is a dialed socket with an error, or a stream that has ended.
type failed struct {
	socket   Socket
	endpoint *endpoint
	err      error
	over     bool // the socket is to be closed
}

// add queues a failure of s if s is dialed and has none in the queue yet.
func (q *failures) add(s Socket, e *endpoint, f failure) {
	if !e.dialed() || e.failed || f.err() == nil {
		return
	}
	e.failed = true
	*q = append(*q, failed{s, e, f.err(), false})
}

// end queues the end of the stream s, once, and counts its cause.
func (q *failures) end(s Socket, e *endpoint, stats *StreamStats, err error) {
	if e.closed || e.ending {
		return
	}
	e.ending = true
	if told := classify(err).err(); told != nil {
		err = told
	}
	stats.countEnd(err)
	*q = append(*q, failed{s, e, err, true})
}

// deliver passes the queue to h, including entries that h adds meanwhile.
func (q *failures) deliver(h Handler) {
	for i := 0; i < len(*q); i++ {
		f := (*q)[i]
		f.endpoint.failed = false
		if f.endpoint.closed {
			continue
		}
		h.Failed(f.socket, f.err)
		if f.over {
			f.socket.Close()
		}
	}
	clear(*q)
	*q = (*q)[:0]
}

// notListening explains an error of Listen.
func notListening(addr netip.AddrPort, err error) error {
	if addr.Addr() == netip.IPv6Unspecified() && errors.Is(err, syscall.EAFNOSUPPORT) {
		return fmt.Errorf("listen on %s: %w: this machine has no IPv6, name 0.0.0.0:%d", addr, err, addr.Port())
	}
	return fmt.Errorf("listen on %s: %w", addr, err)
}
