package bench

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"tidegate/internal/netio"
)

const (
	maxSessions = 100_000
	// datagramsInFlight is how many datagrams are under way at once where there is no timetable.
	datagramsInFlight = 256
)

// clientNet is where clients are, at an address each, by one socket: so there may be more of them than descriptors,
// and what the kernel keeps for them is not taken for what it keeps for a subject.
var clientNet = netip.MustParsePrefix("127.128.0.0/9")

// clientSocket returns the options of a client's socket. Clients with different keys have different addresses.
func clientSocket(key uint64) netio.SocketOptions {
	return netio.SocketOptions{Sources: clientNet, SourceKey: key, ReceiveBuffer: 8 << 20, SendBuffer: 8 << 20}
}

// datagramLoad is clients that send datagrams as they are.
type datagramLoad struct {
	*traffic
	poller  netio.Poller
	clients []netio.Socket
	size    int
	next    int        // client that sends next
	greeted []greeting // of each client, while they greet
}

// newDatagramLoad opens clients of a subject at an address.
func newDatagramLoad(clients, size int, to netip.AddrPort) (*datagramLoad, error) {
	poller, err := netio.New(netio.Options{})
	if err != nil {
		return nil, err
	}
	l := &datagramLoad{traffic: newTraffic(datagramsInFlight), poller: poller, size: size}
	for i := range clients {
		s, err := poller.Dial(to, clientSocket(uint64(i)))
		if err != nil {
			_ = poller.Close() // the error that matters is the one before
			return nil, fmt.Errorf("client %d: %w", i, err)
		}
		s.SetOwner(i)
		l.clients = append(l.clients, s)
	}
	return l, nil
}

func (l *datagramLoad) books() *traffic { return l.traffic }

func (l *datagramLoad) close() { _ = l.poller.Close() }

// Datagram implements netio.Handler: one has come back.
func (l *datagramLoad) Datagram(s netio.Socket, _ netip.AddrPort, datagram []byte) {
	if l.greeted != nil && len(datagram) >= minStamp {
		l.greeted[s.Owner().(int)].answer(number(datagram))
	}
	l.read(datagram)
}

// Failed implements netio.Handler.
func (l *datagramLoad) Failed(netio.Socket, error) {}

func (l *datagramLoad) send(at time.Time) {
	b := l.poller.Buffer()[:l.size]
	l.stamp(b, at)
	s := l.clients[l.next]
	l.next = (l.next + 1) % len(l.clients)
	l.poller.Send(s, s.Peer(), b)
}

func (l *datagramLoad) turn(until time.Time) error {
	l.poller.Flush()
	if err := l.poller.Wait(until); err != nil {
		return err
	}
	l.now = time.Now()
	l.poller.Receive(l)
	return context.Cause(l.ctx)
}

const (
	// greetings is how often a client must have been answered: with the second the subject has its session, and at the
	// third none is new.
	greetings = 3
	// mostGreetings is how often it may try.
	mostGreetings = 4 * greetings
	// listenBatch is how many newcomers come at once.
	listenBatch = 32
	// mostLost is how many greetings may get lost, beside one of a hundred clients'.
	mostLost = 1000
)

// greeting is how far a client has come with its greetings.
type greeting struct {
	last    uint64 // number of the latest
	answers int
}

// answer takes an answer to the greeting of a number. Only one to the latest counts: those of earlier ones may all
// have waited with it, when the subject had not been answered yet.
func (g *greeting) answer(number uint64) {
	if number == g.last {
		g.answers++
		g.last = ^uint64(0) // another of the same number is a duplicate
	}
}

// greet has every client speak and be answered, each time before it speaks again. A few clients at a time do all of
// it: a subject that takes newcomers one by one shall not lose them, and a session whose client does not speak again
// in time is given up (limits.handshake_timeout). A figure is of all clients, or there is none.
func (l *datagramLoad) greet() error {
	l.greeted = make([]greeting, len(l.clients))
	defer func() { l.greeted = nil }()
	strange := 0
	for first := 0; first < len(l.clients); first += listenBatch {
		n, err := l.greetSome(first, min(first+listenBatch, len(l.clients)))
		if err != nil {
			return err
		}
		strange += n
	}
	l.next = 0
	if strange > 0 {
		return fmt.Errorf("%d of %d clients were not answered %d times", strange, len(l.clients), greetings)
	}
	return nil
}

// greetSome has the clients from first to before end do all their greetings. It returns how many were answered too
// seldom.
func (l *datagramLoad) greetSome(first, end int) (strange int, err error) {
	for range mostGreetings {
		strange = 0
		for i := first; i < end; i++ {
			if g := &l.greeted[i]; g.answers < greetings {
				strange++
				l.next, g.last = i, l.head
				l.send(time.Now())
			}
		}
		if strange == 0 {
			return 0, nil
		}
		for l.inFlight > 0 {
			if err := l.turn(time.Now().Add(time.Millisecond)); err != nil {
				return strange, err
			}
			l.giveUp()
		}
		if lost := l.sent - l.back; lost > mostLost+uint64(len(l.clients)/100) {
			return strange, fmt.Errorf("%d of %d greetings were not answered", lost, l.sent)
		}
	}
	return strange, nil
}
