package bench

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tidegate/netio"
)

const (
	maxSessions = 15_000 // a descriptor each, here and in the subject
	// flight is how many datagrams are under way at once where there is no timetable.
	flight = 256
	// lostAfter is when a datagram under way is given up.
	lostAfter = 250 * time.Millisecond
)

// home is where everything listens. Clients have addresses of their own in 127.0.0.0/8, a network each, so that what a
// subject allows an address or a network is allowed to each client.
var home = netip.AddrFrom4([4]byte{127, 0, 0, 1})

func clientAddr(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(100 + i>>16), byte(i >> 8), byte(i)})
}

// load is the clients of one subject.
type load struct {
	poller  netio.Poller
	clients []netio.Socket
	size    int
	next    int       // client that sends next
	begun   time.Time // of the clock that stamps are of
	now     time.Time

	sent, back uint64
	since      time.Time // datagrams stamped earlier do not count
	delays     *hdrhistogram.Histogram

	// What is under way, by sequence number modulo the length: those from tail up to head that have a stamp.
	under      [8192]time.Time
	head, tail uint64
	inFlight   int
}

// newLoad opens clients of a subject at an address.
func newLoad(clients, size int, to netip.AddrPort) (*load, error) {
	poller, err := netio.New(netio.Options{})
	if err != nil {
		return nil, err
	}
	l := &load{poller: poller, size: size, begun: time.Now(), delays: newDelays()}
	for i := range clients {
		s, err := poller.Dial(to, netio.SocketOptions{Local: clientAddr(i)})
		if err != nil {
			_ = poller.Close() // the error that matters is the one before
			return nil, fmt.Errorf("client %d: %w", i, err)
		}
		l.clients = append(l.clients, s)
	}
	return l, nil
}

// newDelays counts delays from 1 µs to 10 s, in µs, to three digits.
func newDelays() *hdrhistogram.Histogram { return hdrhistogram.New(1, 10_000_000, 3) }

func (l *load) close() { _ = l.poller.Close() }

// Datagram implements netio.Handler: one has come back.
func (l *load) Datagram(_ netio.Socket, _ netip.AddrPort, datagram []byte) {
	if len(datagram) < minSize {
		return
	}
	stamp := l.begun.Add(time.Duration(binary.LittleEndian.Uint64(datagram)))
	if seq := binary.LittleEndian.Uint64(datagram[8:]); seq >= l.tail && seq < l.head {
		l.settle(seq)
	}
	if stamp.Before(l.since) {
		return
	}
	l.back++
	_ = l.delays.RecordValue(max(1, l.now.Sub(stamp).Microseconds())) // beyond 10 s nothing comes back
}

// Failed implements netio.Handler.
func (l *load) Failed(netio.Socket, error) {}

// send has the next client send a datagram that is stamped with the time it should have left at.
func (l *load) send(stamp time.Time) {
	b := l.poller.Buffer()[:l.size]
	clear(b)
	binary.LittleEndian.PutUint64(b, uint64(stamp.Sub(l.begun)))
	binary.LittleEndian.PutUint64(b[8:], l.head)
	if l.head-l.tail == uint64(len(l.under)) {
		l.settle(l.tail)
		l.tail++
	}
	l.under[l.head%uint64(len(l.under))] = stamp
	l.head++
	l.inFlight++
	s := l.clients[l.next]
	l.next = (l.next + 1) % len(l.clients)
	l.poller.Send(s, s.Peer(), b)
	l.sent++
}

// settle takes a datagram off what is under way.
func (l *load) settle(seq uint64) {
	if at := &l.under[seq%uint64(len(l.under))]; !at.IsZero() {
		*at = time.Time{}
		l.inFlight--
	}
}

// giveUp takes what has been under way for too long for lost.
func (l *load) giveUp() {
	for ; l.tail < l.head; l.tail++ {
		if at := l.under[l.tail%uint64(len(l.under))]; !at.IsZero() && l.now.Sub(at) < lostAfter {
			return
		}
		l.settle(l.tail)
	}
}

// turn waits until a time for what comes back.
func (l *load) turn(until time.Time) error {
	l.poller.Flush()
	if err := l.poller.Wait(until); err != nil {
		return err
	}
	l.now = time.Now()
	l.poller.Receive(l)
	return nil
}

// reset forgets what was counted. Datagrams that are under way do not count.
func (l *load) reset() {
	l.sent, l.back, l.since = 0, 0, time.Now()
	l.delays.Reset()
}

// saturate keeps flight datagrams under way for a time.
func (l *load) saturate(d time.Duration) error {
	l.now = time.Now()
	for end := l.now.Add(d); l.now.Before(end); {
		for l.inFlight < flight {
			l.send(l.now)
		}
		if err := l.turn(l.now.Add(lostAfter / 5)); err != nil {
			return err
		}
		l.giveUp()
	}
	return nil
}

// pace sends so many a second on a fixed timetable, whatever comes back, and then waits for the last.
func (l *load) pace(rate int, d time.Duration) error {
	l.now = time.Now()
	begin, every := l.now, time.Second/time.Duration(rate)
	end := begin.Add(d)
	for n := time.Duration(0); ; {
		for due := begin.Add(n * every); !due.After(l.now) && due.Before(end); due = begin.Add(n * every) {
			l.send(due)
			n++
		}
		due := begin.Add(n * every)
		if !due.Before(end) {
			break
		}
		if err := l.turn(due); err != nil {
			return err
		}
	}
	for last := end.Add(lostAfter); l.now.Before(last) && l.back < l.sent; {
		if err := l.turn(last); err != nil {
			return err
		}
	}
	return nil
}

// greet has every client speak and be answered, three times over, so that the subject has its sessions and none is new.
func (l *load) greet() error {
	for range 3 {
		for i := range l.clients {
			l.send(l.begun) // which counts as of long ago
			if i%listenBatch != 0 {
				continue
			}
			if err := l.turn(time.Now().Add(time.Millisecond)); err != nil {
				return err
			}
		}
		for quiet := time.Now().Add(200 * time.Millisecond); time.Now().Before(quiet); {
			if err := l.turn(quiet); err != nil {
				return err
			}
		}
	}
	return nil
}

// listenBatch is how many newcomers come at once: a subject that accepts them one by one shall not lose them.
const listenBatch = 32
