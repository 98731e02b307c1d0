package webrtc

import (
	"encoding/binary"
	"net"
	"os"
	"sync"
	"time"
)

// maxWaiting bounds the datagrams that wait for DTLS. SCTP's window lets more come only if its datagrams are small.
const maxWaiting = 512

// maxPlain bounds the bytes of a peer's datagrams until the handshake is over. DTLS keeps what it cannot complete.
const maxPlain = 64 << 10

// maxLeaving bounds the bytes of datagrams that wait for the loop.
const maxLeaving = 512 << 10

// wire is the net.PacketConn below DTLS. Its datagrams come from the loop, and go to the stack's Delivery.
type wire struct {
	stack *stack

	mu      sync.Mutex
	arrived sync.Cond
	waiting [][]byte
	expired bool // the deadline of reads has passed
	plain   int  // bytes of datagrams until the handshake was over
	sealed  bool // the handshake is over
	closed  bool
}

// slots are the memory of waiting datagrams.
var slots = sync.Pool{New: func() any { return new([maxDatagram]byte) }}

// maxDatagram is the size in bytes of the largest datagram taken. DTLS's peers send at most some 1,500.
const maxDatagram = 2048

// put takes a datagram of the peer's, unless too many wait.
func (w *wire) put(datagram []byte) {
	if len(datagram) > maxDatagram {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.waiting) >= maxWaiting {
		return
	}
	if !w.sealed {
		if w.plain += len(datagram); w.plain > maxPlain {
			return
		}
	}
	slot := slots.Get().(*[maxDatagram]byte)
	records := w.appendRecords(slot[:0], datagram)
	if len(records) == 0 {
		slots.Put(slot)
		return
	}
	w.waiting = append(w.waiting, records)
	w.arrived.Signal()
}

// Facts of records: a type, 2 bytes of version, 2 of epoch, 6 of number, 2 of length.
const (
	recordHeader  = 13
	changeType    = 20 // of ciphers: the record is never encrypted, and only DTLS's handshake has one, in the clear
	handshakeType = 22 // that of application data is larger
)

// appendRecords appends the records of a datagram that its sender cannot have forged, or that belong to a handshake.
// Others would end the connection.
func (w *wire) appendRecords(b, datagram []byte) []byte {
	for len(datagram) >= recordHeader {
		size := recordHeader + int(binary.BigEndian.Uint16(datagram[11:]))
		if size > len(datagram) {
			break
		}
		kind, isPlain := datagram[0], binary.BigEndian.Uint16(datagram[3:]) == 0
		if isPlain && !w.sealed && kind <= handshakeType || !isPlain && kind != changeType {
			b = append(b, datagram[:size]...)
		}
		datagram = datagram[size:]
	}
	return b
}

// seal ends the time of plain records.
func (w *wire) seal() {
	w.mu.Lock()
	w.sealed = true
	w.mu.Unlock()
}

// ReadFrom implements net.PacketConn.
func (w *wire) ReadFrom(b []byte) (int, net.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.waiting) == 0 && !w.closed && !w.expired {
		w.arrived.Wait()
	}
	switch {
	case w.closed:
		return 0, nil, net.ErrClosed
	case w.expired:
		return 0, nil, os.ErrDeadlineExceeded
	}
	datagram := w.waiting[0]
	n := copy(b, datagram)
	slots.Put((*[maxDatagram]byte)(datagram[:maxDatagram]))
	if w.waiting[0] = nil; len(w.waiting) == 1 {
		w.waiting = w.waiting[:0]
		if cap(w.waiting) > 64 {
			w.waiting = nil
		}
	} else {
		w.waiting = w.waiting[1:]
	}
	return n, peerAddr, nil
}

// WriteTo implements net.PacketConn.
func (w *wire) WriteTo(b []byte, _ net.Addr) (int, error) {
	w.stack.leave(b)
	return len(b), nil
}

// Close implements net.PacketConn.
func (w *wire) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for i, datagram := range w.waiting {
		slots.Put((*[maxDatagram]byte)(datagram[:maxDatagram]))
		w.waiting[i] = nil
	}
	w.waiting = nil
	w.arrived.Broadcast()
	return nil
}

// LocalAddr implements net.PacketConn.
func (w *wire) LocalAddr() net.Addr { return peerAddr }

// SetDeadline implements net.PacketConn.
func (w *wire) SetDeadline(t time.Time) error { return w.SetReadDeadline(t) }

// SetReadDeadline implements net.PacketConn. DTLS uses it to end a read: a later deadline is none.
func (w *wire) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expired = !t.IsZero() && !t.After(time.Now())
	w.arrived.Broadcast()
	return nil
}

// SetWriteDeadline implements net.PacketConn. Writes do not wait.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// peerAddr stands for both ends: only the loop knows their addresses.
var peerAddr net.Addr = &net.UDPAddr{IP: net.IPv4zero}
