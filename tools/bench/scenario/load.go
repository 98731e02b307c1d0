package scenario

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"tidegate/internal/netio"
)

const (
	maxSessions = 100_000
	// datagramsInFlight is the number of datagrams in flight where there is no timetable.
	datagramsInFlight = 256
)

// clientNet is the network of the clients' addresses, one for each. All share a socket, so the number of clients is
// not bounded by descriptors, and the kernel's memory for clients does not count as a subject's.
var clientNet = netip.MustParsePrefix("127.128.0.0/9")

// clientSocket returns the options of a client's socket. Clients with different keys have different addresses.
func clientSocket(key uint64) netio.SocketOptions {
	return netio.SocketOptions{Sources: clientNet, SourceKey: key, ReceiveBuffer: 8 << 20, SendBuffer: 8 << 20}
}

// datagramLoad is clients that send plain datagrams.
type datagramLoad struct {
	*traffic
	poller  netio.Poller
	clients []netio.Socket
	size    int
	next    int         // client that sends next
	greeted []greeting  // of each client, during open
	records *recordLoad // nil: plain datagrams
}

// newDatagramLoad opens clients of a subject at an address.
func newDatagramLoad(clients, size int, to netip.AddrPort) (*datagramLoad, error) {
	poller, err := netio.New(netio.Options{})
	if err != nil {
		return nil, err
	}
	l := &datagramLoad{traffic: newTraffic(datagramsInFlight), poller: poller, size: size}
	for i := range clients {
		options := clientSocket(uint64(i))
		if !to.Addr().IsLoopback() { // only loopback has so many addresses
			options.Sources, options.ReceiveBuffer, options.SendBuffer = netip.Prefix{}, 0, 0
		}
		s, err := poller.Dial(to, options)
		if err != nil {
			_ = poller.Close() // the earlier error matters more
			return nil, fmt.Errorf("client %d: %w", i, err)
		}
		s.SetOwner(i)
		l.clients = append(l.clients, s)
	}
	return l, nil
}

func (l *datagramLoad) stats() *traffic { return l.traffic }

func (l *datagramLoad) close() { _ = l.poller.Close() }

// Datagram implements netio.Handler: a datagram has returned.
func (l *datagramLoad) Datagram(s netio.Socket, _ netip.AddrPort, datagram []byte) {
	if l.records != nil {
		if datagram = l.records.unseal(s.Owner().(int), datagram); datagram == nil {
			return
		}
	}
	if l.greeted != nil && len(datagram) >= minStamp {
		l.greeted[s.Owner().(int)].answer(number(datagram))
	}
	l.read(datagram)
}

// Failed implements netio.Handler.
func (l *datagramLoad) Failed(netio.Socket, error) {}

func (l *datagramLoad) send(at time.Time) {
	b := l.poller.Buffer()[:l.size]
	if l.records == nil {
		l.stamp(b, at)
	} else {
		l.stamp(l.records.seal(b), at)
	}
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
	// greetings is the number of answers that a client needs. With the second one the subject has its session. The third
	// one shows that no session is new any more.
	greetings = 3
	// mostGreetings is the largest number of greetings of a client.
	mostGreetings = 4 * greetings
	// greetBatch is the number of clients that greet at once.
	greetBatch = 32
	// mostLost is the largest number of lost greetings, beside one for each hundred clients.
	mostLost = 1000
)

// greeting is a client's progress in opening its session.
type greeting struct {
	last    uint64 // number of the latest greeting
	answers int
}

// answer counts an answer to the greeting of a number. Only an answer to the latest greeting counts: earlier greetings
// may all have waited with it before the subject's first answer.
func (g *greeting) answer(number uint64) {
	if number == g.last {
		g.answers++
		g.last = ^uint64(0) // a further answer with this number is a duplicate
	}
}

// open lets every client send greetings, each one after the answer to the one before. A few clients at a time complete
// all greetings: a subject may accept clients one by one, and it gives up a session whose client does not send again
// in time (limits.handshake_timeout). Without all clients there is no figure.
func (l *datagramLoad) open() error {
	l.greeted = make([]greeting, len(l.clients))
	defer func() { l.greeted = nil }()
	unanswered := 0
	for first := 0; first < len(l.clients); first += greetBatch {
		end := min(first+greetBatch, len(l.clients))
		if l.records != nil {
			if err := l.records.enter(first, end); err != nil {
				return err
			}
		}
		n, err := l.openSome(first, end)
		if err != nil {
			return err
		}
		unanswered += n
	}
	l.next = 0
	if unanswered > 0 {
		return fmt.Errorf("%d of %d clients were not answered %d times", unanswered, len(l.clients), greetings)
	}
	return nil
}

// openSome completes the greetings of the clients from first to before end. It returns the number of clients without
// enough answers.
func (l *datagramLoad) openSome(first, end int) (unanswered int, err error) {
	for range mostGreetings {
		unanswered = 0
		for i := first; i < end; i++ {
			if g := &l.greeted[i]; g.answers < greetings {
				unanswered++
				l.next, g.last = i, l.head
				l.send(time.Now())
			}
		}
		if unanswered == 0 {
			return 0, nil
		}
		for l.inFlight > 0 {
			if err := l.turn(time.Now().Add(time.Millisecond)); err != nil {
				return unanswered, err
			}
			l.giveUp()
		}
		if lost := l.sent - l.back; lost > mostLost+uint64(len(l.clients)/100) {
			return unanswered, fmt.Errorf("%d of %d greetings were not answered", lost, l.sent)
		}
	}
	return unanswered, nil
}
