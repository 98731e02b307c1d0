package bench

import (
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

// home is where everything listens.
var home = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// clientNet is where clients are, at an address each, by one socket: so there may be more of them than descriptors, and what
// the kernel keeps for them is not taken for what it keeps for a subject.
var clientNet = netip.MustParsePrefix("127.128.0.0/9")

// dialClient opens the socket of a client. Clients of different keys have different addresses.
func dialClient(p netio.Poller, to netip.AddrPort, key uint64) (netio.Socket, error) {
	return p.Dial(to, netio.SocketOptions{Sources: clientNet, SourceKey: key, ReceiveBuffer: 8 << 20, SendBuffer: 8 << 20})
}

// datagramLoad is clients that send datagrams as they are.
type datagramLoad struct {
	*traffic
	poller  netio.Poller
	clients []netio.Socket
	size    int
	next    int    // client that sends next
	heard   []bool // the clients that were answered, while they greet
}

// newDatagramLoad opens clients of a subject at an address.
func newDatagramLoad(clients, size int, to netip.AddrPort) (*datagramLoad, error) {
	poller, err := netio.New(netio.Options{})
	if err != nil {
		return nil, err
	}
	l := &datagramLoad{traffic: newTraffic(datagramsInFlight), poller: poller, size: size}
	for i := range clients {
		s, err := dialClient(poller, to, uint64(i))
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
	if l.heard != nil {
		l.heard[s.Owner().(int)] = true
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
	return l.interruption.err()
}

// greet has every client speak and be answered, three times over, so that the subject has its sessions and none is new. It
// waits for answers, for a subject that takes newcomers one by one shall not lose them. Who was never answered tries again:
// a figure is of all clients, or there is none.
func (l *datagramLoad) greet() error {
	l.heard = make([]bool, len(l.clients))
	defer func() { l.heard = nil }()
	for range greetings {
		for range l.clients {
			if err := l.greetOne(); err != nil {
				return err
			}
		}
		if err := l.listen(); err != nil {
			return err
		}
	}
	for n := 0; n < greetings && l.unheard() > 0; n++ {
		if err := l.greetAgain(); err != nil {
			return err
		}
	}
	if missing := l.unheard(); missing > 0 {
		return fmt.Errorf("%d of %d clients were never answered", missing, len(l.clients))
	}
	return nil
}

const (
	greetings = 3
	// listenBatch is how many newcomers come at once.
	listenBatch = 32
	// mostLost is how many greetings may get lost, beside one of a hundred clients'.
	mostLost = 1000
)

// greetAgain has those who were never answered greet.
func (l *datagramLoad) greetAgain() error {
	for i, heard := range l.heard {
		if heard {
			continue
		}
		l.next = i
		if err := l.greetOne(); err != nil {
			return err
		}
	}
	return l.listen()
}

// greetOne has the next client say something once few enough others wait for an answer.
func (l *datagramLoad) greetOne() error {
	for l.inFlight >= listenBatch {
		if err := l.turn(time.Now().Add(time.Millisecond)); err != nil {
			return err
		}
		l.giveUp()
	}
	l.send(time.Now())
	if lost := l.sent - l.back - uint64(l.inFlight); lost > mostLost+uint64(len(l.clients)/100) {
		return fmt.Errorf("%d of %d greetings were not answered (a socket for each client takes descriptors: ulimit -n)", lost, l.sent)
	}
	return nil
}

// listen waits for late answers.
func (l *datagramLoad) listen() error {
	for quiet := time.Now().Add(200 * time.Millisecond); time.Now().Before(quiet); {
		if err := l.turn(quiet); err != nil {
			return err
		}
	}
	return nil
}

// unheard is how many clients were never answered.
func (l *datagramLoad) unheard() (n int) {
	for _, heard := range l.heard {
		if !heard {
			n++
		}
	}
	return n
}
