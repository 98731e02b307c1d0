package endpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"tidegate/codec"
)

// goodbyeTime bounds the time of Run for goodbyes: the patience of most protocols with a silent peer is longer.
const goodbyeTime = 2 * time.Second

// ConnectError says why a dialed connection ended before it was established.
type ConnectError struct {
	Peer   netip.AddrPort
	Reason codec.Reason
}

// Error implements error.
func (e *ConnectError) Error() string { return fmt.Sprintf("connect to %s: %s", e.Peer, e.Reason) }

// Run turns until ctx is done. Then it says goodbye to all peers, for at most 2 s, and returns nil.
func (e *Endpoint[T]) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, e.Wake)()
	for ctx.Err() == nil {
		if err := e.Turn(time.Time{}); err != nil {
			return err
		}
	}
	e.leaving = true
	defer func() { e.leaving = false }()
	for entry := range e.table.All {
		e.Disconnect(entry.Value, codec.Goodbye{Reason: entry.Value.goodbye()})
	}
	for until := time.Now().Add(goodbyeTime); e.Len() > 0 && e.now.Before(until); {
		if err := e.Turn(until); err != nil {
			return err
		}
	}
	return nil
}

// goodbye returns the reason of a connection whose Endpoint ends.
func (c *Conn[T]) goodbye() codec.Reason {
	if c.Listener == nil {
		return codec.Closed
	}
	return codec.ServerStopped
}

// Connect turns until a dialed connection is established, has ended, or ctx is done. It returns a *ConnectError if it
// has ended. The events of all connections come to Options.Event meanwhile.
func (e *Endpoint[T]) Connect(ctx context.Context, c *Conn[T]) error {
	defer context.AfterFunc(ctx, e.Wake)()
	for !c.connected && !c.gone {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("connect to %s: %w", c.Peer(), err)
		}
		if err := e.Turn(time.Time{}); err != nil {
			return err
		}
	}
	e.Flush() // the last datagram of the handshake, which the peer waits for
	if c.gone {
		return &ConnectError{Peer: c.Peer(), Reason: c.reason}
	}
	return nil
}

// Send sends a message with the next turn. codec.ErrFull says that the peer is too slow for the messages: drop this
// one, or send it when Options.Writable is called. The payload is copied.
func (e *Endpoint[T]) Send(c *Conn[T], m codec.Message) error {
	err := c.Send(e.now, m)
	if errors.Is(err, codec.ErrFull) {
		c.full = max(c.Stats().Queued, 1)
	}
	e.Touch(c)
	return err
}

// Disconnect says goodbye to a peer. The event Disconnected follows.
func (e *Endpoint[T]) Disconnect(c *Conn[T], why codec.Goodbye) {
	c.Close(e.now, why)
	e.Touch(c)
}

// Do has the goroutine that turns call f, soon. Any goroutine may call Do, for example to send a message. The calls
// wait in a queue without a bound.
func (e *Endpoint[T]) Do(f func()) {
	e.mu.Lock()
	e.posted = append(e.posted, f)
	e.mu.Unlock()
	e.Wake()
}

// runPosted calls the functions that Do was given.
func (e *Endpoint[T]) runPosted() {
	e.mu.Lock()
	posted := e.posted
	e.posted = nil
	e.mu.Unlock()
	for _, f := range posted {
		f()
	}
}

// pingInterval is the time after which Ping asks again.
const pingInterval = 300 * time.Millisecond

// Ping asks a server for the text of server lists, until it answers, its machine refuses datagrams, or ctx is done. The
// protocol must be a codec.Pinger, as RakNet's is. Ping returns the text and the round-trip time.
func Ping(ctx context.Context, p codec.Protocol, to netip.AddrPort) (text []byte, rtt time.Duration, err error) {
	pinger, ok := p.(codec.Pinger)
	if !ok {
		return nil, 0, fmt.Errorf("ping %s: %s: %w", to, p.Spec().Name, errors.ErrUnsupported)
	}
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return nil, 0, fmt.Errorf("ping: %w", err)
	}
	defer func() { _ = conn.Close() }() // nothing is left to lose
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })()
	b, start := make([]byte, codec.MaxDatagram), time.Now()
	for ctx.Err() == nil {
		asked := time.Now()
		_, _ = conn.Write(pinger.AppendPing(b[:0], uint64(asked.Sub(start)))) // like a lost datagram if it fails
		_ = conn.SetReadDeadline(asked.Add(pingInterval))
		for {
			n, err := conn.Read(b)
			switch now := time.Now(); {
			case errors.Is(err, syscall.ECONNREFUSED):
				return nil, 0, fmt.Errorf("ping %s: %w", to, err)
			case err == nil:
				// A pong repeats the token of its ping. If a server invents one, the latest ping counts.
				token, text, err := pinger.ParsePong(b[:n])
				if rtt = now.Sub(start) - time.Duration(token); rtt < 0 || rtt > now.Sub(start) {
					rtt = now.Sub(asked)
				}
				if err == nil {
					return bytes.Clone(text), rtt, nil
				}
				continue
			case !errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil:
				continue // other errors may pass
			}
			break
		}
	}
	return nil, 0, fmt.Errorf("ping %s: %w", to, ctx.Err())
}
