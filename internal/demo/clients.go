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
	// rejoinTime is the time after which a lost client joins again.
	rejoinTime = 2 * time.Second
	// sendInterval is the time between two turns of a client's sending.
	sendInterval = time.Second / 20
)

// clients are all clients and their endpoint. One goroutine at a time uses them.
type clients struct {
	*endpoint.Endpoint[*client]
	pair    Pair
	to      netip.AddrPort
	joins   uint64 // connections so far
	all     []*client
	sending bool
	rejoin  bool   // a client that lost its connection joins again
	past    Result // of connections that were lost, if rejoin
	began   time.Time
	times   latencies // from sending to the echo
}

// newClients makes clients that connect to a proxy, or to a link before it, as soon as they run.
func newClients(pair Pair, count int, to netip.AddrPort) (*clients, error) {
	c := &clients{pair: pair, to: to}
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
		index: index, pair: c.pair, form: formOf(c.pair, c.pair.from), conn: conn, reliable: newLedger(),
	}
	return conn.Value, nil
}

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
			fresh.next = c.Now().Add(sendInterval)
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
	if err := c.run(ctx, joinTime, (*client).joined); err != nil {
		return err
	}
	for i, one := range c.all { // in turn, not all at once
		one.next = c.Now().Add(sendInterval * time.Duration(i) / time.Duration(len(c.all)))
	}
	c.sending = true
	err := c.run(ctx, long, func(*client) bool { return false })
	c.sending = false
	if err != nil {
		return err
	}
	return c.run(context.Background(), settleTime, (*client).settled)
}

// run turns until a time has passed, unless that is 0, or ctx is done, or all clients are done.
func (c *clients) run(ctx context.Context, long time.Duration, done func(*client) bool) error {
	var end time.Time
	if long > 0 {
		end = c.Now().Add(long)
	}
	waits := func(one *client) bool { return !done(one) }
	for ctx.Err() == nil && slices.ContainsFunc(c.all, waits) && (end.IsZero() || c.Now().Before(end)) {
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
		one.left = one.playing()
		one.conn.Close(c.Now(), codec.Goodbye{Reason: codec.Closed})
		c.Touch(one.conn)
	}
	if err == nil {
		err = c.run(context.Background(), leaveTime, func(c *client) bool { return c.gone })
	}
	if closing := c.Close(); err == nil {
		err = closing
	}
	return err
}

func (c *clients) event(from *endpoint.Conn[*client], e *codec.Event) {
	from.Value.event(e, c.since(), &c.times)
}

// since returns the time since the clients' start, as probes carry it.
func (c *clients) since() time.Duration { return c.Now().Sub(c.began) }

// result returns the clients' part of the Result.
func (c *clients) result() Result {
	r := c.past
	r.Pair, r.Clients = c.pair, len(c.all)
	for _, one := range c.all {
		r.add(one)
	}
	r.RTT50, r.RTT99 = c.times.quantile(0.5), c.times.quantile(0.99)
	return r
}

// client is one client and its ledger of messages.
type client struct {
	index uint16
	pair  Pair
	form  form
	conn  *endpoint.Conn[*client]
	next  time.Time // of the next turn

	connected bool
	gone      bool         // the connection has ended
	again     time.Time    // when the client joins again; zero: not known
	left      bool         // by the client's own goodbye, while it was connected
	reason    codec.Reason // of the end

	reliable   ledger
	unreliable Exchange
	changed    uint64
	scratch    [maxBody]byte
}

// Exchange counts messages that may be lost.
type Exchange struct {
	Sent     uint64 `json:"sent"`
	Returned uint64 `json:"returned"` // echoes that came back
}

// joined reports whether the client has connected or failed.
func (c *client) joined() bool { return c.connected || c.gone }

// playing reports whether messages can flow.
func (c *client) playing() bool { return c.connected && !c.gone }

// send sends the messages of a turn that is due, and reports whether one was due: an unreliable message, and a reliable
// one if the pair promises anything about it.
func (c *client) send(now time.Time, since time.Duration) bool {
	if !c.playing() || now.Before(c.next) {
		return false
	}
	// A late process does not make up for missed turns: it would measure its own burst.
	if c.next = c.next.Add(sendInterval); !now.Before(c.next) {
		c.next = now.Add(sendInterval)
	}
	if c.pair.Promise() != Lossy {
		p := probe{number: c.reliable.Sent, sent: since, client: c.index, reliable: true}
		if c.write(now, &p, mode(c.pair.from)) {
			c.reliable.send()
		}
	}
	p := probe{number: c.unreliable.Sent, sent: since, client: c.index}
	if c.write(now, &p, codec.Unreliable) {
		c.unreliable.Sent++
	}
	return true
}

// write reports whether the connection took the probe. A connection with a full queue does not.
func (c *client) write(now time.Time, p *probe, mode codec.Mode) bool {
	m := c.form.message(c.scratch[:0], p, mode)
	return c.conn.Send(now, m) == nil
}

// event handles an event of the connection. The round trips of echoes go to times.
func (c *client) event(e *codec.Event, since time.Duration, times *latencies) {
	switch e.Kind {
	case codec.Connected:
		c.connected = true
	case codec.Received:
		c.receive(&e.Message, since, times)
	case codec.Disconnected:
		c.gone, c.reason = true, e.Reason
	}
}

// receive records the echoes in a message.
func (c *client) receive(m *codec.Message, since time.Duration, times *latencies) {
	c.form.learn(m)
	err := c.form.probes(m, func(id uint16, body []byte) { c.record(id, body, since, times) })
	if err != nil {
		c.changed++
	}
}

// record records an echo.
func (c *client) record(id uint16, body []byte, since time.Duration, times *latencies) {
	var p probe
	switch {
	case p.parse(id, body) != nil || p.client != c.index:
		c.changed++
		return
	case !p.reliable && p.number >= c.unreliable.Sent:
		c.changed++
		return
	case !p.reliable:
		c.unreliable.Returned++
	case !c.reliable.receive(p.number):
		c.changed++
		return
	}
	times.add(since - p.sent)
}

// settled reports whether no echo is missing that the pair promises, or that would come without losses.
func (c *client) settled() bool {
	if !c.playing() || c.pair.Promise() != Lossy {
		return !c.playing() || len(c.reliable.underWay) == 0
	}
	return c.unreliable.Returned >= c.unreliable.Sent
}

// Delivery counts the reliable messages of one client or of all clients.
type Delivery struct {
	Sent       uint64 `json:"sent"`
	Returned   uint64 `json:"returned"`   // messages whose echo came back
	Missing    uint64 `json:"missing"`    // messages without an echo
	Duplicated uint64 `json:"duplicated"` // echoes beyond the first
}

// add adds the counts of another client.
func (d *Delivery) add(o Delivery) {
	d.Sent += o.Sent
	d.Returned += o.Returned
	d.Missing += o.Missing
	d.Duplicated += o.Duplicated
}

// ledger records a client's reliable messages by number, from 0. The number of messages under way is bounded by the
// client's send queue and the proxy's.
type ledger struct {
	Delivery // Missing is set by delivery
	underWay map[uint64]struct{}
}

func newLedger() ledger { return ledger{underWay: make(map[uint64]struct{})} }

// send records that the message with the next number was sent.
func (l *ledger) send() {
	l.underWay[l.Sent] = struct{}{}
	l.Sent++
}

// receive records an echo. It reports false for a number that was never sent.
func (l *ledger) receive(number uint64) bool {
	if number >= l.Sent {
		return false
	}
	if _, ok := l.underWay[number]; !ok {
		l.Duplicated++
		return true
	}
	delete(l.underWay, number)
	l.Returned++
	return true
}

// delivery returns the counts if no further echo comes.
func (l *ledger) delivery() Delivery {
	l.Missing = uint64(len(l.underWay))
	return l.Delivery
}

// arrivals counts how often each reliable message of each client has reached a game server, by client and number. A nil
// map records nothing.
type arrivals map[uint16]map[uint64]int

// record counts a message with an ID, if it is a reliable message of a client and unchanged.
func (a arrivals) record(id uint16, body []byte) {
	var p probe
	if a == nil || p.parse(id, body) != nil || !p.reliable {
		return
	}
	if a[p.client] == nil {
		a[p.client] = make(map[uint64]int)
	}
	a[p.client][p.number]++
}

// correct replaces the clients' echoes by the server's arrivals: a protocol without resends may lose an answer.
func (a arrivals) correct(d *Delivery) {
	arrived := uint64(0)
	d.Duplicated = 0
	for _, numbers := range a {
		for _, times := range numbers {
			arrived++
			d.Duplicated += uint64(times - 1)
		}
	}
	d.Missing = d.Sent - min(arrived, d.Sent)
}

// latencies counts durations in steps of 0.1 ms up to 2 s. Longer durations count as 2 s.
type latencies struct {
	counts [20_000]uint64
	total  uint64
}

const latencyStep = 100 * time.Microsecond

func (l *latencies) add(d time.Duration) {
	l.counts[min(max(d/latencyStep, 0), time.Duration(len(l.counts)-1))]++
	l.total++
}

// quantile returns the duration that the share q of all durations does not exceed, rounded up to a step; 0 without
// durations.
func (l *latencies) quantile(q float64) time.Duration {
	rank := uint64(q * float64(l.total))
	var below uint64
	for i, n := range l.counts {
		if below += n; below > rank || below == l.total && n > 0 {
			return time.Duration(i+1) * latencyStep
		}
	}
	return 0
}
