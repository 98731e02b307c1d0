package scenario

import (
	"context"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/codec/endpoint"
	"tidegate/internal/lossylink"
	"tidegate/tools/bench/process"
)

// joinLoad is clients that connect and leave. New clients take their places.
type joinLoad struct {
	*traffic
	endpoint *endpoint.Endpoint[joining]
	protocol codec.Protocol
	to       netip.AddrPort
	next     uint64 // key of the next client
	err      error  // of the last Dial
}

// joining is the handshake of one client.
type joining struct {
	number uint64    // in the traffic
	at     time.Time // when it should have started
}

// joinsInFlight is the number of handshakes in flight where there is no timetable.
const joinsInFlight = 64

func newJoinLoad(p codec.Protocol, to netip.AddrPort) (*joinLoad, error) {
	l := &joinLoad{traffic: newTraffic(joinsInFlight), protocol: p, to: to}
	l.patience = 2 * time.Second // a step of a handshake may wait for a timer
	var err error
	l.endpoint, err = endpoint.New(endpoint.Options[joining]{Event: l.event})
	return l, err
}

func (l *joinLoad) close() { _ = l.endpoint.Close() }

func (l *joinLoad) stats() *traffic { return l.traffic }

// open does nothing: every client is new.
func (l *joinLoad) open() error { return nil }

func (l *joinLoad) send(at time.Time) {
	c, err := l.endpoint.Dial(l.protocol, l.to, codec.Hello{Identity: l.next + 1}, clientEndpoint(l.next))
	if err != nil {
		l.err = err
		return
	}
	l.next++
	c.Value = joining{l.depart(at), at}
}

func (l *joinLoad) event(c *endpoint.Conn[joining], e *codec.Event) {
	if e.Kind == codec.Connected {
		l.now = l.endpoint.Now()
		l.arrive(c.Value.number, c.Value.at)
		c.Close(l.now, codec.Goodbye{Reason: codec.Closed})
	}
}

func (l *joinLoad) turn(until time.Time) error {
	err := l.endpoint.Turn(until)
	l.now = l.endpoint.Now()
	if err == nil {
		err = l.err
	}
	if err == nil {
		err = context.Cause(l.ctx)
	}
	return err
}

// pathLoad is a joinLoad whose clients come over a path with a delay and losses.
type pathLoad struct {
	*joinLoad
	link *lossylink.Link
}

// joinPatience is the time after which a join over a path counts as lost. A client asks for some seconds.
const joinPatience = 10 * time.Second

func newPathLoad(o *Options, p codec.Protocol, to netip.AddrPort) (*pathLoad, error) {
	link, err := lossylink.StartAt(netip.AddrPortFrom(process.Loopback, 0), to, maxSessions,
		lossylink.Loss{ToServer: o.Loss, ToClients: o.Loss, Delay: o.Path})
	if err != nil {
		return nil, err
	}
	l, err := newJoinLoad(p, link.Addr())
	if err != nil {
		link.Stop()
		return nil, err
	}
	l.patience = joinPatience
	return &pathLoad{l, link}, nil
}

func (l *pathLoad) close() {
	l.joinLoad.close()
	l.link.Stop()
}
