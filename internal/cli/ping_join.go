package cli

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/endpoint"
	"tidegate/internal/netio"
	"tidegate/internal/registry"
)

// decisionTime is how long a server may take to decide about a client.
const decisionTime = 500 * time.Millisecond

// joinPing is one attempt to join a server, the only request that servers without server lists answer.
type joinPing struct {
	*endpoint.Endpoint[struct{}]
	protocol string
	sent     time.Time // of the latest datagram
	decision *codec.Event
	refused  bool // the server's machine says that no program has the port
}

// joining returns the probe that asks to join a server of a protocol, and leaves at once. A server that decides about
// clients first answers that it is deciding. The probe then waits for the decision. With stream it goes over TCP.
func joining(d *registry.Descriptor, stream bool) probe {
	return func(ctx context.Context, to netip.AddrPort, answers chan<- answer) {
		pingByJoining(ctx, d, stream, to, answers)
	}
}

func pingByJoining(
	ctx context.Context, d *registry.Descriptor, stream bool, to netip.AddrPort, answers chan<- answer,
) {
	p := &joinPing{protocol: d.Name}
	var err error
	p.Endpoint, err = endpoint.New(endpoint.Options[struct{}]{Event: p.event, Sent: p.note, Failed: p.fail})
	if err != nil {
		return // the caller reports that no answer came
	}
	defer func() { _ = p.Close() }()
	defer context.AfterFunc(ctx, p.Wake)()
	c, err := p.dial(d, stream, to)
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
	c.Close(p.Now(), codec.Goodbye{Reason: codec.Closed})
	p.Touch(c)
	p.Flush()
}

// dial opens the connection.
func (p *joinPing) dial(d *registry.Descriptor, stream bool, to netip.AddrPort) (*endpoint.Conn[struct{}], error) {
	protocol := d.New(d.Options(), registry.Use{Stream: stream})
	if stream {
		return p.DialStream(protocol, to, 0, netio.StreamOptions{Prefix: netio.PrefixOf(d.Stream.Prefix)})
	}
	return p.Dial(protocol, to, 0, netio.SocketOptions{})
}

// run waits for the first datagram of the server, and then for its decision. It reports false without an answer.
func (p *joinPing) run(ctx context.Context, c *endpoint.Conn[struct{}]) (found answer, ok bool) {
	found = answer{Protocol: p.protocol, Text: "online, decision pending"}
	var until time.Time // zero before the first datagram
	for ctx.Err() == nil && !p.refused && (until.IsZero() || p.Now().Before(until)) {
		if err := p.Turn(until); err != nil {
			return found, false
		}
		if until.IsZero() && c.Stats().Received > 0 {
			until, found.RTT = p.Now().Add(decisionTime), milliseconds(p.Now().Sub(p.sent))
		}
		if p.decision != nil {
			found.Text = verdict(p.decision)
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
func verdict(e *codec.Event) string {
	if e.Kind == codec.Disconnected {
		return "online, refuses clients: " + e.Reason.String()
	}
	return "online, accepts clients"
}
