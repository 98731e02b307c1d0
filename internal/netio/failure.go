package netio

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

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
