package demo

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/codec/endpoint"
)

const (
	// settleTime is the longest wait for echoes under way.
	settleTime = 5 * time.Second
	// joinTime is the longest wait for the last client to connect.
	joinTime = 10 * time.Second
	// leaveTime is the longest wait for the acknowledgement of goodbyes.
	leaveTime = 3 * time.Second
)

// clients are all clients and their endpoint. One goroutine at a time uses them.
type clients struct {
	*endpoint.Endpoint[*client]
	pair    Pair
	to      netip.AddrPort
	every   time.Duration // between two turns of a client's sending
	joins   uint64        // connections so far
	all     []*client
	sending bool
	rejoin  bool   // a client that lost its connection joins again
	past    Result // of connections that were lost, if rejoin
	began   time.Time
	times   latencies // from sending to the echo
}

// newClients makes clients that connect to a proxy, or to a link before it, as soon as they run.
func newClients(pair Pair, count, rate int, to netip.AddrPort) (*clients, error) {
	c := &clients{pair: pair, to: to, every: time.Second / time.Duration(rate)}
	var err error
	if c.Endpoint, err = endpoint.New(endpoint.Options[*client]{Event: c.event}); err != nil {
		return nil, err
	}
	c.began = c.Now()
	for i := range count {
		one, err := c.join(uint16(i))
		if err != nil {
			_ = c.Close() // the earlier error matters more
			return nil, fmt.Errorf("client %d: dial %s: %w", i, to, err)
		}
		c.all = append(c.all, one)
	}
	return c, nil
}

// join dials the proxy for the client with an index.
func (c *clients) join(index uint16) (*client, error) {
	c.joins++
	conn, err := dial(c.Endpoint, c.pair.from, c.to, c.joins)
	if err != nil {
		return nil, err
	}
	conn.Value = &client{
		index: index, pair: c.pair, form: formOf(c.pair, c.pair.from), conn: conn, every: c.every, reliable: newLedger(),
	}
	return conn.Value, nil
}

// rejoinTime is the time after which a lost client joins again.
const rejoinTime = 2 * time.Second

// replace lets lost clients join again, and returns the time of the next one; zero means none.
func (c *clients) replace() (next time.Time) {
	if !c.rejoin {
		return next
	}
	for i, one := range c.all {
		switch {
		case !one.gone:
			continue
		case one.again.IsZero():
			one.again = c.Now().Add(rejoinTime)
		case !c.Now().Before(one.again):
			fresh, err := c.join(one.index)
			if err != nil {
				one.again = c.Now().Add(rejoinTime)
				break
			}
			fresh.next = c.Now().Add(c.every)
			c.past.add(one)
			c.all[i] = fresh
			continue
		}
		next = codec.Earliest(next, one.again)
	}
	return next
}

// play connects the clients, lets them send for a time, and then waits for the echoes under way. A time of 0 lasts
// until ctx is done. When ctx is done early, play goes on with the echoes.
func (c *clients) play(ctx context.Context, long time.Duration) error {
	defer context.AfterFunc(ctx, c.Wake)()
	if err := c.run(ctx, joinTime, c.joined); err != nil {
		return err
	}
	for i, one := range c.all { // in turn, not all at once
		one.next = c.Now().Add(one.every * time.Duration(i) / time.Duration(len(c.all)))
	}
	c.sending = true
	never := func() bool { return false }
	err := c.run(ctx, long, never)
	c.sending = false
	if err != nil {
		return err
	}
	return c.run(context.Background(), settleTime, c.settled)
}

// run turns until a time has passed, unless that is 0, or ctx is done, or done returns true.
func (c *clients) run(ctx context.Context, long time.Duration, done func() bool) error {
	var end time.Time
	if long > 0 {
		end = c.Now().Add(long)
	}
	for ctx.Err() == nil && !done() && (end.IsZero() || c.Now().Before(end)) {
		next := codec.Earliest(c.send(), c.replace())
		if err := c.Turn(codec.Earliest(next, end)); err != nil {
			return fmt.Errorf("wait for datagrams: %w", err)
		}
	}
	return nil
}

// send sends the messages that are due, and returns the time of the next ones; zero means never.
func (c *clients) send() (next time.Time) {
	if !c.sending {
		return next
	}
	for _, one := range c.all {
		if one.send(c.Now(), c.since()) {
			c.Touch(one.conn)
		}
		if one.playing() {
			next = codec.Earliest(next, one.next)
		}
	}
	return next
}

// leave says goodbye for every client, waits until acknowledged goodbyes are complete, and closes the sockets.
func (c *clients) leave() error {
	err := c.Turn(c.Now()) // handles datagrams that have come meanwhile
	for _, one := range c.all {
		one.leave(c.Now())
		c.Touch(one.conn)
	}
	if err == nil {
		err = c.run(context.Background(), leaveTime, c.gone)
	}
	if closing := c.Close(); err == nil {
		err = closing
	}
	return err
}

func (c *clients) event(from *endpoint.Conn[*client], e *codec.Event) {
	from.Value.event(e, c.since(), &c.times)
}

// joined reports whether every client has connected or failed.
func (c *clients) joined() bool {
	return !slices.ContainsFunc(c.all, func(one *client) bool { return !one.connected && !one.gone })
}

// settled reports whether no promised echo is missing.
func (c *clients) settled() bool {
	return !slices.ContainsFunc(c.all, func(one *client) bool { return one.playing() && one.waits() })
}

// gone reports whether all connections have ended.
func (c *clients) gone() bool {
	return !slices.ContainsFunc(c.all, func(one *client) bool { return !one.gone })
}

// since returns the time since the clients' start, as probes carry it.
func (c *clients) since() time.Duration { return c.Now().Sub(c.began) }

// result returns the clients' part of the Result.
func (c *clients) result() Result {
	r := c.past
	r.Clients = len(c.all)
	for _, one := range c.all {
		r.add(one)
	}
	r.RTT50, r.RTT99 = c.times.quantile(0.5), c.times.quantile(0.99)
	return r
}
