package webrtc

import (
	"cmp"
	"context"
	"encoding/binary"
	"net"
	"os"
	"sync"
	"time"

	"github.com/pion/dtls/v4"
)

// maxWaiting bounds the datagrams that wait for DTLS. SCTP's window lets more come only if its datagrams are small.
const maxWaiting = 512

// maxPlain bounds the bytes of a peer's datagrams until the handshake is over. DTLS keeps what it cannot complete.
const maxPlain = 64 << 10

// maxLeaving bounds the bytes of datagrams that wait for the loop.
const maxLeaving = 512 << 10

// wire is the net.Conn below SCTP, which is DTLS. Its datagrams come from the loop, and go to the stack's Delivery.
// DTLS runs in the goroutines of SCTP's that read and write.
type wire struct {
	stack   *stack
	arrived chan struct{} // a datagram waits, or the reads end

	mu      sync.Mutex
	waiting [][]byte
	plain   int   // bytes of datagrams until the handshake was over
	sealed  bool  // the handshake is over
	err     error // why the reads have ended

	driving sync.Mutex // guards what follows
	secure  *dtls.DetachedConn
	inside  [][]byte // decrypted, for SCTP
}

// maxDatagram is the size in bytes of the largest datagram taken. DTLS's peers send at most some 1,500.
const maxDatagram = 1536

// put takes a datagram of the peer's, unless too many wait.
func (w *wire) put(datagram []byte) {
	if len(datagram) > maxDatagram {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || len(w.waiting) >= maxWaiting {
		return
	}
	if !w.sealed {
		if w.plain += len(datagram); w.plain > maxPlain {
			return
		}
	}
	if records := w.appendRecords(nil, datagram); records != nil {
		w.waiting = append(w.waiting, records)
		w.signal()
	}
}

// signal ends a wait of advance.
func (w *wire) signal() {
	select {
	case w.arrived <- struct{}{}:
	default:
	}
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

// handshake runs the handshake. The context ends it early.
func (w *wire) handshake(ctx context.Context) error {
	w.driving.Lock()
	err := w.secure.Start(ctx)
	w.drain()
	w.driving.Unlock()
	for err == nil && !w.sealed { // only this goroutine drains now
		err = w.advance()
	}
	return err
}

// advance waits for a datagram, a signal or a timer of DTLS, and lets DTLS work.
func (w *wire) advance() error {
	datagram, err := w.take()
	if err != nil {
		return err
	}
	if datagram == nil {
		select {
		case <-w.arrived:
		case <-w.secure.EventReady():
		}
	}
	w.driving.Lock()
	defer w.driving.Unlock()
	if datagram != nil {
		_ = w.secure.HandleDatagram(datagram, nil) // an event tells of an end, too
	}
	w.drain()
	return nil
}

// drain takes what DTLS has. The caller has locked driving.
func (w *wire) drain() {
	for {
		switch e := w.secure.NextEvent(); e.Kind {
		case dtls.DetachedNoEvent:
			return
		case dtls.DetachedWriteDatagrams:
			for _, datagram := range e.Datagrams {
				w.stack.leave(datagram)
			}
		case dtls.DetachedApplicationData:
			if len(e.Data) > 0 {
				w.inside = append(w.inside, e.Data)
			}
		case dtls.DetachedHandshakeDone:
			w.mu.Lock()
			w.sealed = true
			w.mu.Unlock()
		case dtls.DetachedClosed:
			w.end(e.Err)
		}
	}
}

// end ends the reads, with the first error that comes.
func (w *wire) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err, w.waiting = cmp.Or(w.err, err), nil
	w.signal()
}

// take returns the next datagram, nil if none waits.
func (w *wire) take() (datagram []byte, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) > 0 {
		datagram, w.waiting[0] = w.waiting[0], nil
		if w.waiting = w.waiting[1:]; len(w.waiting) == 0 {
			w.waiting = nil
		}
	}
	return datagram, w.err
}

// Read implements net.Conn. SCTP calls it when it has put messages together from the packet before. So this is where
// messages pass in both directions.
func (w *wire) Read(b []byte) (int, error) {
	for {
		w.stack.receive()
		w.stack.write()
		if n := w.read(b); n > 0 {
			return n, nil
		}
		if err := w.advance(); err != nil {
			return 0, err
		}
	}
}

// read takes what one record had inside.
func (w *wire) read(b []byte) (n int) {
	w.driving.Lock()
	defer w.driving.Unlock()
	if len(w.inside) > 0 {
		n = copy(b, w.inside[0])
		if w.inside = w.inside[1:]; len(w.inside) == 0 {
			w.inside = nil
		}
	}
	return n
}

// Write implements net.Conn.
func (w *wire) Write(b []byte) (int, error) {
	w.driving.Lock()
	defer w.driving.Unlock()
	n, err := w.secure.Write(b)
	w.drain()
	return n, err
}

// Close implements net.Conn. The peer is told.
func (w *wire) Close() error {
	w.driving.Lock()
	defer w.driving.Unlock()
	if w.secure != nil {
		_ = w.secure.Close()
		w.drain()
	}
	w.end(net.ErrClosed)
	return nil
}

// LocalAddr implements net.Conn.
func (w *wire) LocalAddr() net.Addr { return peerAddr }

// RemoteAddr implements net.Conn.
func (w *wire) RemoteAddr() net.Addr { return peerAddr }

// SetDeadline implements net.Conn.
func (w *wire) SetDeadline(t time.Time) error { return w.SetReadDeadline(t) }

// SetReadDeadline implements net.Conn. SCTP uses it to end the reads.
func (w *wire) SetReadDeadline(time.Time) error {
	w.end(os.ErrDeadlineExceeded)
	return nil
}

// SetWriteDeadline implements net.Conn. Writes do not wait.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// peerAddr stands for both ends: only the loop knows their addresses.
var peerAddr net.Addr = &net.UDPAddr{IP: net.IPv4zero}
