package demo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
)

const (
	// settleTime is how long outstanding echoes are waited for.
	settleTime = 5 * time.Second
	// joinTime is how long the game waits for its last client.
	joinTime = 10 * time.Second
	// leaveTime is how long goodbyes may take that want an acknowledgement.
	leaveTime = 3 * time.Second
)

// phase is how far the game has come.
type phase uint8

const (
	connecting phase = iota
	sending
	settling
	leaving
)

// crowd is all clients and what drives them. One goroutine at a time uses it.
type crowd struct {
	poller  netio.Poller
	clients []*client
	phase   phase
	began   time.Time
	now     time.Time // of this turn
	times   latencies // from sending to the echo
}

// newCrowd makes clients that connect to a proxy, or a link before it, as soon as they are driven.
func newCrowd(pair Pair, clients, rate int, door netip.AddrPort, now time.Time) (*crowd, error) {
	poller, err := netio.New(netio.Options{})
	if err != nil {
		return nil, err
	}
	c := &crowd{poller: poller, began: now, now: now}
	every := time.Second / time.Duration(rate)
	for i := range clients {
		socket, err := dial(poller, pair.from, door)
		if err != nil {
			_ = poller.Close() // the error that matters is the one before
			return nil, fmt.Errorf("client %d: dial %s: %w", i, door, err)
		}
		one := &client{
			index:    uint16(i),
			pair:     pair,
			form:     formOf(pair, pair.from),
			conn:     pair.from.Dial(now, door, codec.Hello{Identity: uint64(i) + 1}),
			socket:   socket,
			every:    every,
			reliable: newLedger(),
		}
		socket.SetOwner(one)
		c.clients = append(c.clients, one)
	}
	return c, nil
}

// play connects the clients, lets them send for so long, or until ctx is done if that is 0, and then waits for the
// echoes under way. If ctx is done before, it goes straight to the last.
func (c *crowd) play(ctx context.Context, long time.Duration) error {
	stop := context.AfterFunc(ctx, c.poller.Wake)
	defer stop()
	c.phase = connecting
	if err := c.run(ctx, joinTime, c.joined); err != nil {
		return err
	}
	c.phase = sending
	for i, one := range c.clients { // in turn, not all at once
		one.next = c.now.Add(one.every * time.Duration(i) / time.Duration(len(c.clients)))
	}
	if err := c.run(ctx, long, never); err != nil {
		return err
	}
	c.phase = settling
	return c.run(context.Background(), settleTime, c.settled)
}

// run turns until so much time has passed, if it is not 0, or ctx or the phase is done.
func (c *crowd) run(ctx context.Context, long time.Duration, done func() bool) error {
	var end time.Time
	if long > 0 {
		end = c.now.Add(long)
	}
	// The first turn waits for nothing: a phase may begin by sending.
	for next := c.now; ctx.Err() == nil && !done(); next = c.nextTimeout() {
		if !end.IsZero() {
			if !c.now.Before(end) {
				return nil
			}
			next = codec.Earliest(next, end)
		}
		if err := c.turn(next); err != nil {
			return err
		}
	}
	return nil
}

// leave says goodbye for every client, waits for those goodbyes that are acknowledged, and closes the sockets.
func (c *crowd) leave() error {
	c.now = time.Now()
	c.phase = leaving
	for _, one := range c.clients {
		one.leave(c.now)
		one.settle(c.since(), &c.times)
		c.transmit(one)
	}
	c.poller.Flush()
	return errors.Join(c.run(context.Background(), leaveTime, c.empty), c.poller.Close())
}

// turn waits for datagrams or the deadline, and does what is due.
func (c *crowd) turn(deadline time.Time) error {
	if err := c.poller.Wait(deadline); err != nil {
		return fmt.Errorf("wait for datagrams: %w", err)
	}
	c.now = time.Now()
	c.poller.Receive(c)
	for _, one := range c.clients {
		if t := one.conn.NextTimeout(); !t.IsZero() && !c.now.Before(t) {
			one.conn.Advance(c.now)
			one.settle(c.since(), &c.times)
		}
		if c.phase == sending {
			one.send(c.now, c.since())
		}
		c.transmit(one)
	}
	c.poller.Flush()
	return nil
}

// Datagram implements netio.Handler.
func (c *crowd) Datagram(s netio.Socket, _ netip.AddrPort, datagram []byte) {
	one := s.Owner().(*client)
	// What the connection drops it counts.
	_ = one.conn.Receive(c.now, datagram)
	one.settle(c.since(), &c.times)
}

// Failed implements netio.Handler. A client goes on trying, but for one whose stream has ended.
func (c *crowd) Failed(s netio.Socket, _ error) {
	if one := s.Owner().(*client); one.pair.OverTCP() && !one.gone {
		one.gone, one.reason = true, codec.TransportError
	}
}

func (c *crowd) transmit(one *client) {
	for {
		b, ok := one.conn.Transmit(c.now, c.poller.Buffer())
		if !ok {
			return
		}
		c.poller.Send(one.socket, one.socket.Peer(), b)
	}
}

// nextTimeout is when the next client has something to do; zero means never.
func (c *crowd) nextTimeout() time.Time {
	var next time.Time
	for _, one := range c.clients {
		if t := one.conn.NextTimeout(); !t.IsZero() {
			next = codec.Earliest(next, t)
		}
		if c.phase == sending && one.playing() {
			next = codec.Earliest(next, one.next)
		}
	}
	return next
}

// joined reports whether every client is connected, or never will be.
func (c *crowd) joined() bool {
	for _, one := range c.clients {
		if !one.connected && !one.gone {
			return false
		}
	}
	return true
}

// settled reports whether no more echoes can come that the pair promises, or all have.
func (c *crowd) settled() bool {
	for _, one := range c.clients {
		if one.playing() && one.waits() {
			return false
		}
	}
	return true
}

// empty reports whether all clients are gone.
func (c *crowd) empty() bool {
	return !slices.ContainsFunc(c.clients, func(one *client) bool { return !one.gone })
}

func never() bool { return false }

// since is the time since the crowd's start, as probes carry it.
func (c *crowd) since() time.Duration { return c.now.Sub(c.began) }

// result is the part of the Result that the clients know.
func (c *crowd) result() Result {
	r := Result{Clients: len(c.clients)}
	for _, one := range c.clients {
		r.book(one)
	}
	r.RTT50, r.RTT99 = c.times.quantile(0.5), c.times.quantile(0.99)
	return r
}
