package codectest_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/codec/endpoint"
)

// A codec of one's own, beacon: unreliable messages for positions that a game sends again and again. Run tries it on an
// endpoint; beacon_test.go has its test by codectest.Run.
//
// Each datagram is a kind, a token of 8 bytes, and a body. A client chooses the token of its session, so that a
// forger who sees no datagram cannot send one that counts.
func Example_ownCodec() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	game, err := endpoint.New(endpoint.Options[string]{Event: func(_ *endpoint.Conn[string], e *codec.Event) {
		if e.Kind == codec.Received {
			fmt.Printf("%s\n", e.Payload)
			stop()
		}
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer game.Close()
	listener, err := game.Listen(new(beacon), netip.MustParseAddrPort("127.0.0.1:0"), endpoint.SocketOptions{})
	if err != nil {
		log.Fatal(err)
	}
	player, err := game.Dial(new(beacon), listener.Addr(), codec.Hello{}, endpoint.SocketOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if err := game.Connect(ctx, player); err != nil {
		log.Fatal(err)
	}
	if err := game.Send(player, codec.Message{Payload: []byte("x=1 y=2")}); err != nil {
		log.Fatal(err)
	}
	if err := game.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: x=1 y=2
}

// The kinds of datagrams.
const (
	hello   = 'H' // from a client; data
	welcome = 'W' // from a server; the client's number u16
	message = 'M' // payload
	goodbye = 'G' // reason u8, data
	still   = 'S' // nothing: the sender is still there
)

const (
	headerLen  = 9
	maxPayload = 1200
	repeat     = 250 * time.Millisecond // of a hello
	quiet      = time.Second            // without a datagram, before still
	patience   = 5 * time.Second        // with a silent peer
	maxWaiting = 64                     // messages to be sent
)

// beacon is a codec.Protocol.
type beacon struct {
	Seed [32]byte // of the tokens: random, and a secret
}

var spec = codec.Spec{
	Name:       "beacon",
	Modes:      codec.ModesOf(codec.Unreliable),
	FirstBytes: codec.ByteSetOf(hello, message, goodbye, still),
	Openings:   codec.ByteSetOf(hello),
}

// Spec implements codec.Protocol.
func (p *beacon) Spec() *codec.Spec { return &spec }

// Sniff implements codec.Protocol.
func (p *beacon) Sniff(b []byte) bool { return len(b) >= headerLen && b[0] == hello }

// Accept implements codec.Protocol.
func (p *beacon) Accept(now time.Time, _ netip.AddrPort, b, reply []byte) (codec.Conn, []byte, error) {
	if !p.Sniff(b) || len(b) > headerLen+maxPayload {
		return nil, reply, codec.ErrMalformed
	}
	c := &conn{server: true, token: [8]byte(b[1:]), heard: now, due: now.Add(quiet)}
	c.hello = append(c.hello, b[headerLen:]...)
	c.push(codec.Event{Kind: codec.Asked, Message: codec.Message{Payload: c.hello}})
	return c, reply, nil
}

// Refuse implements codec.Protocol.
func (p *beacon) Refuse(b, reply []byte, reason codec.Reason) []byte {
	return append(append(append(reply, goodbye), b[1:headerLen]...), byte(reason))
}

// Dial implements codec.Protocol.
func (p *beacon) Dial(now time.Time, to netip.AddrPort, h codec.Hello) codec.Conn {
	secret := binary.BigEndian.AppendUint64(p.Seed[:], uint64(now.UnixNano()))
	sum := sha256.Sum256(append(secret, to.String()...))
	return &conn{token: [8]byte(sum[:]), hello: append([]byte(nil), h.Data...), heard: now, due: now}
}

// conn is a codec.Conn.
type conn struct {
	server   bool
	up, over bool
	token    [8]byte
	hello    []byte    // data, of a client; what Asked lends, of a server
	number   [2]byte   // of the client, as in a welcome
	heard    time.Time // the peer, the last time
	due      time.Time // the next hello or still
	greets   bool      // hello, welcome or still is to be sent
	bye      []byte    // the body of a goodbye to be sent; nil: none
	waiting  [][]byte  // messages to be sent
	spare    [][]byte  // memory of messages that were sent
	events   []codec.Event
	polled   int
	stats    codec.Stats
}

func (c *conn) push(e codec.Event) { c.events = append(c.events, e) }

// Poll implements codec.Conn.
func (c *conn) Poll() (codec.Event, bool) {
	if c.polled == len(c.events) {
		c.events, c.polled = c.events[:0], 0
		return codec.Event{}, false
	}
	c.polled++
	return c.events[c.polled-1], true
}

// Stats implements codec.Conn.
func (c *conn) Stats() codec.Stats {
	s := c.stats
	for _, m := range c.waiting {
		s.Queued += len(m)
	}
	return s
}

// Announce implements codec.Conn.
func (c *conn) Announce(time.Time, codec.EventKind, uint16) error { return codec.ErrMode }

// Receive implements codec.Conn.
func (c *conn) Receive(now time.Time, b []byte) error {
	switch {
	case len(b) < headerLen:
		return codec.ErrMalformed
	case [8]byte(b[1:]) != c.token || c.over:
		return codec.ErrUnexpected
	}
	body, known := b[headerLen:], true
	switch kind := b[0]; {
	case kind == hello && c.server && c.up:
		c.greets = true // our welcome was lost
	case kind == welcome && !c.server && len(body) == 2:
		c.connect(now, binary.BigEndian.Uint16(body))
	case kind == message && c.up && len(body) <= maxPayload:
		c.push(codec.Event{Kind: codec.Received, Message: codec.Message{Payload: body}})
	case kind == goodbye && len(body) > 0:
		c.end(codec.Reason(body[0]), body[1:])
	default:
		known = kind == still || kind == hello && c.server
	}
	if !known {
		return codec.ErrUnexpected
	}
	c.stats.Received++
	c.heard = now
	return nil
}

// connect makes the connection ready for messages, once.
func (c *conn) connect(now time.Time, number uint16) {
	if c.up {
		return
	}
	c.up, c.due = true, now.Add(quiet)
	binary.BigEndian.PutUint16(c.number[:], number)
	c.push(codec.Event{Kind: codec.Connected, Client: number})
}

// Admit implements codec.Conn.
func (c *conn) Admit(now time.Time, client uint16) {
	if c.over {
		return
	}
	c.greets = true
	c.connect(now, client)
}

// Close implements codec.Conn.
func (c *conn) Close(_ time.Time, why codec.Goodbye) {
	if c.over {
		return
	}
	c.bye = append([]byte{byte(why.Reason)}, why.Data...)
	c.end(why.Reason, nil)
}

func (c *conn) end(reason codec.Reason, data []byte) {
	c.over, c.greets, c.waiting = true, false, nil
	c.push(codec.Event{Kind: codec.Disconnected, Reason: reason, Message: codec.Message{Payload: data}})
}

// Send implements codec.Conn. The fate of a message stays unknown, so a receipt says that it is lost.
func (c *conn) Send(_ time.Time, m codec.Message) error {
	switch {
	case c.over:
		return codec.ErrClosed
	case m.Mode != codec.Unreliable:
		return codec.ErrMode
	case len(m.Payload) > maxPayload:
		return codec.ErrTooLarge
	case len(c.waiting) == maxWaiting:
		return codec.ErrFull
	}
	var b []byte
	if last := len(c.spare) - 1; last >= 0 {
		b, c.spare = c.spare[last], c.spare[:last]
	}
	c.waiting = append(c.waiting, append(b[:0], m.Payload...))
	if m.Receipt != 0 {
		c.push(codec.Event{Kind: codec.Lost, Message: codec.Message{Receipt: m.Receipt}})
	}
	return nil
}

// Advance implements codec.Conn.
func (c *conn) Advance(now time.Time) {
	switch {
	case c.over:
	case !now.Before(c.heard.Add(patience)) && !c.up && !c.server:
		c.end(codec.NoConnection, nil)
	case !now.Before(c.heard.Add(patience)):
		c.end(codec.TimedOut, nil)
	case !now.Before(c.due):
		c.greets, c.due = c.up || !c.server, now.Add(c.pause())
	}
}

// pause is the time between two hellos, or before a still.
func (c *conn) pause() time.Duration {
	if c.up || c.server {
		return quiet
	}
	return repeat
}

// NextTimeout implements codec.Conn.
func (c *conn) NextTimeout() time.Time {
	if c.over {
		return time.Time{}
	}
	return codec.Earliest(c.heard.Add(patience), c.due)
}

// Transmit implements codec.Conn.
func (c *conn) Transmit(now time.Time, b []byte) ([]byte, bool) {
	kind, body := byte(0), []byte(nil)
	switch {
	case c.bye != nil:
		kind, body, c.bye = goodbye, c.bye, nil
	case c.greets && !c.up:
		kind, body, c.greets = hello, c.hello, false
	case c.greets && c.server: // a welcome is a still, too
		kind, body, c.greets = welcome, c.number[:], false
	case c.greets:
		kind, c.greets = still, false
	case c.up && len(c.waiting) > 0:
		kind, body = message, c.waiting[0]
		c.spare = append(c.spare, body)
		c.waiting = c.waiting[:copy(c.waiting, c.waiting[1:])]
	default:
		return b, false
	}
	if c.up && !c.over {
		c.due = now.Add(quiet)
	}
	c.stats.Sent++
	return append(append(append(b, kind), c.token[:]...), body...), true
}

// record is a saved conn. Times are from the moment at which it was saved.
type record struct {
	Server, Up, Over, Greets bool
	Token                    [8]byte
	Hello, Bye               []byte
	Number                   [2]byte
	Heard, Due               time.Duration
	Waiting                  [][]byte
	Stats                    codec.Stats
}

// Save implements codec.Conn.
func (c *conn) Save(now time.Time, b []byte) []byte {
	saved, err := json.Marshal(record{
		c.server, c.up, c.over, c.greets, c.token, c.hello, c.bye, c.number, c.heard.Sub(now), c.due.Sub(now), c.waiting,
		c.stats,
	})
	if err != nil {
		panic(err) // never: a record has no type that JSON lacks
	}
	return append(b, saved...)
}

// Restore implements codec.Protocol.
func (p *beacon) Restore(now time.Time, _ codec.Addresser, saved []byte) (codec.Conn, error) {
	var r record
	if err := json.Unmarshal(saved, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", codec.ErrSaved, err)
	}
	long := len(r.Hello) > maxPayload || len(r.Bye) > maxPayload+1 || len(r.Waiting) > maxWaiting
	for _, m := range r.Waiting {
		long = long || len(m) > maxPayload
	}
	if long || r.Heard > 0 || r.Heard < -time.Minute || r.Due > quiet || r.Due < -time.Minute {
		return nil, codec.ErrSaved
	}
	return &conn{
		server: r.Server, up: r.Up, over: r.Over, greets: r.Greets, token: r.Token, hello: r.Hello, bye: r.Bye,
		number: r.Number, heard: now.Add(r.Heard), due: now.Add(r.Due), waiting: r.Waiting, stats: r.Stats,
	}, nil
}
