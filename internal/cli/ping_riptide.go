package cli

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/codec/riptide"
	"tidegate/internal/endpoint"
	"tidegate/internal/netio"
)

// decisionTime is how long a Riptide server may take to decide about a client.
const decisionTime = 500 * time.Millisecond

// riptidePing is one attempt to join a Riptide server, the only request that such a server answers.
type riptidePing struct {
	*endpoint.Endpoint[struct{}]
	sent     time.Time // of the latest datagram
	decision *codec.Event
	refused  bool // the server's machine says that no program has the port
}

// pingRiptide asks to join a server, and leaves at once. A server that decides about clients first answers that it is
// deciding. pingRiptide then waits for the decision.
func pingRiptide(ctx context.Context, to netip.AddrPort, answers chan<- answer) {
	p := new(riptidePing)
	var err error
	p.Endpoint, err = endpoint.New(endpoint.Options[struct{}]{Event: p.event, Sent: p.note, Failed: p.fail})
	if err != nil {
		return // the caller reports that no answer came
	}
	defer func() { _ = p.Close() }()
	defer context.AfterFunc(ctx, p.Wake)()
	c, err := p.Dial(riptide.New(riptide.Options{}), to, 0, netio.SocketOptions{})
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

// run waits for the first datagram of the server, and then for its decision. It reports false without an answer.
func (p *riptidePing) run(ctx context.Context, c *endpoint.Conn[struct{}]) (found answer, ok bool) {
	found = answer{Protocol: "riptide-2.2", Text: "online, decision pending"}
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

func (p *riptidePing) event(_ *endpoint.Conn[struct{}], e *codec.Event) {
	if p.decision == nil {
		p.decision = &codec.Event{Kind: e.Kind, Reason: e.Reason}
	}
}

func (p *riptidePing) note(*endpoint.Conn[struct{}], []byte) { p.sent = time.Now() }

func (p *riptidePing) fail(_ *endpoint.Conn[struct{}], err error) {
	p.refused = p.refused || errors.Is(err, netio.ErrRefused)
}

// verdict describes a Riptide server's decision.
func verdict(e *codec.Event) string {
	if e.Kind == codec.Disconnected {
		return "online, refuses clients: " + e.Reason.String()
	}
	return "online, accepts clients"
}
