package cli

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/codec/endpoint"
	"tidegate/internal/netio"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
)

// decisionTime is how long a server may take to decide about a client.
const decisionTime = 2 * time.Second

// joinPing is one attempt to join a server, the only request that servers without server lists answer.
type joinPing struct {
	*endpoint.Endpoint[struct{}]
	protocol string
	sent     time.Time // of the latest datagram
	decision *codec.Event
	refused  bool // the server's machine says that no program has the port
}

// joining returns the probe that asks a server of a protocol for a place. Without join it never takes the place, so
// that no game sees it. A server that decides about clients first answers that it is deciding. The probe then waits
// for the decision. With stream it goes over TCP.
func joining(d *registry.Descriptor, stream, join bool) probe {
	return func(ctx context.Context, to netip.AddrPort, answers chan<- answer) {
		pingByJoining(ctx, d, stream, join, to, answers)
	}
}

func pingByJoining(
	ctx context.Context, d *registry.Descriptor, stream, join bool, to netip.AddrPort, answers chan<- answer,
) {
	p := &joinPing{protocol: d.Name}
	var err error
	p.Endpoint, err = endpoint.New(endpoint.Options[struct{}]{Event: p.event, Sent: p.note, Failed: p.fail})
	if err != nil {
		return // the caller reports that no answer came
	}
	defer func() { _ = p.Close() }()
	defer context.AfterFunc(ctx, p.Wake)()
	c, err := p.dial(d, stream, join, to)
	if err != nil {
		return
	}
	found, ok := p.run(ctx, c)
	if ok {
		answers <- found
	}
	if p.refused && !ok {
		answers <- answer{refused: true}
		return
	}
	if p.decision == nil || p.decision.Kind != codec.Connected || !join && d.Table == protocols.Riptide22.Table {
		return // the server has no connection to end; Riptide's hears no goodbye of a client that is not in yet
	}
	c.Close(p.Now(), codec.Goodbye{Reason: codec.Closed})
	p.Touch(c)
	p.Flush()
}

// dial opens the connection.
func (p *joinPing) dial(d *registry.Descriptor, stream, join bool, to netip.AddrPort,
) (*endpoint.Conn[struct{}], error) {
	protocol := d.New(d.Options(), registry.Use{Stream: stream})
	hello := codec.Hello{Tentative: !join}
	if stream {
		return p.DialStream(protocol, to, hello, endpoint.StreamOptions{Prefix: d.Stream.Prefix})
	}
	return p.Dial(protocol, to, hello, endpoint.SocketOptions{})
}

// run waits for the first datagram of the server, and then for its decision. It reports false without an answer.
func (p *joinPing) run(ctx context.Context, c *endpoint.Conn[struct{}]) (found answer, ok bool) {
	found = answer{Protocol: p.protocol, Text: "but has not decided about a client", Refuses: true}
	last, _ := ctx.Deadline()
	var until time.Time // zero before the first datagram
	for ctx.Err() == nil && !p.refused && (until.IsZero() || p.Now().Before(until)) {
		if err := p.Turn(until); err != nil {
			return found, false
		}
		if until.IsZero() && c.Stats().Received > 0 {
			until, found.RTT = earlier(p.Now().Add(decisionTime), last.Add(-pingMargin)), milliseconds(p.Now().Sub(p.sent))
		}
		if p.decision != nil {
			found.Text, found.Refuses = verdict(p.decision)
			return found, !until.IsZero() // without a datagram from the server, the connection has given up
		}
	}
	return found, !until.IsZero() && ctx.Err() == nil
}

func (p *joinPing) event(_ *endpoint.Conn[struct{}], e *codec.Event) {
	if p.decision == nil {
		p.decision = &codec.Event{Kind: e.Kind, Reason: e.Reason}
	}
}

func (p *joinPing) note(*endpoint.Conn[struct{}], []byte) { p.sent = time.Now() }

func (p *joinPing) fail(_ *endpoint.Conn[struct{}], err error) {
	p.refused = p.refused || errors.Is(err, netio.ErrRefused)
}

// verdict describes a server's decision.
func verdict(e *codec.Event) (text string, refuses bool) {
	if e.Kind == codec.Disconnected {
		return "refuses clients: " + e.Reason.String(), true
	}
	return "accepts clients", false
}

// pingMargin is the time before the end of a ping in which an undecided server is reported.
const pingMargin = 50 * time.Millisecond

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
