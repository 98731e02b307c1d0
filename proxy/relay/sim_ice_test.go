package relay

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/codec/nethernet"
)

// The simulation's NetherNet: real checks of ICE, and a game's datagrams in records with the first byte, the number and
// the authenticity of DTLS's. A record that no peer has written, or that came before, is dropped. So no forger and no
// weather is an excuse for an altered message.

const (
	checkPause   = 250 * time.Millisecond // between the checks of a client that has no path yet
	consentPause = 2500 * time.Millisecond
	iceGivesUp   = 20 * time.Second
	recordHeader = 3 + 4
	recordSum    = 8
	alertRecord  = 21
	dataRecord   = 23
)

// edgeNames are what the two descriptions of a join say.
type edgeNames struct{ serverUfrag, serverPassword, clientUfrag, clientPassword string }

func (n *edgeNames) username() string { return n.serverUfrag + ":" + n.clientUfrag }

// icePath is a datagram and the client's address that sends or receives it, as an index.
type icePath struct {
	at    int
	bytes []byte
}

// iceConn is one end of a connection: ICE, and within it the connection of a game. A client checks from all its
// addresses, and then uses the one that was answered first. A server answers where it is asked.
type iceConn struct {
	codec.Conn // nil until a path works
	names      *edgeNames
	asks       bool // it is the client's end
	begin      func(now time.Time, datagram []byte) codec.Conn
	paths      int // the client's addresses
	chosen     int // counted from 1; 0: none yet
	born       time.Time
	due        time.Time // of the next check
	checks     uint32
	out        []icePath
	sent       uint32
	seen       map[uint32]bool // numbers of the peer's records
	over       bool            // it has given up, or said goodbye
	told       bool            // Poll has said so
	integrity  *nethernet.Integrity
}

// receive takes a datagram that came at one of the addresses.
func (c *iceConn) receive(now time.Time, at int, datagram []byte) error {
	if nethernet.KindOf(datagram) != nethernet.STUN {
		return c.receiveRecord(now, datagram)
	}
	var b nethernet.Binding
	if b.Parse(datagram) != nil || !b.IsWhole() {
		return codec.ErrMalformed
	}
	own, far := c.names.serverPassword, c.names.clientPassword
	if c.asks {
		own, far = far, own
	}
	switch {
	case b.Class == nethernet.Request && c.integrity.Verify(&b, own):
		mapped := netip.MustParseAddrPort("10.0.0.1:7777")
		c.out = append(c.out, icePath{at, c.integrity.AppendSuccess(nil, b.ID, mapped, own)})
	case b.Class == nethernet.Success && c.integrity.Verify(&b, far):
		if c.asks && c.chosen == 0 && !c.over {
			c.chosen = at + 1
			c.check(now, at, true)
			c.Conn = c.begin(now, nil)
		}
	default:
		return codec.ErrMalformed
	}
	return nil
}

func (c *iceConn) receiveRecord(now time.Time, datagram []byte) error {
	n := len(datagram)
	if n < recordHeader+recordSum ||
		c.sum(!c.asks, datagram[:n-recordSum]) != binary.BigEndian.Uint64(datagram[n-recordSum:]) {
		return codec.ErrMalformed
	}
	number := binary.BigEndian.Uint32(datagram[3:])
	if c.seen[number] {
		return codec.ErrDuplicate
	}
	c.seen[number] = true
	inner := datagram[recordHeader : n-recordSum]
	switch {
	case datagram[0] == alertRecord:
		return nil
	case c.Conn == nil && !c.asks:
		c.Conn = c.begin(now, inner)
		return nil
	case c.Conn == nil:
		return codec.ErrMalformed
	}
	return c.Conn.Receive(now, inner)
}

// sum proves that an end has written a record.
func (c *iceConn) sum(ofClient bool, record []byte) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, c.names.clientPassword, c.names.serverPassword, ofClient)
	_, _ = h.Write(record)
	return h.Sum64()
}

// record puts a record around a datagram.
func (c *iceConn) record(kind byte, inner []byte) []byte {
	c.sent++
	b := binary.BigEndian.AppendUint32([]byte{kind, 0xfe, 0xfd}, c.sent)
	b = append(b, inner...)
	return binary.BigEndian.AppendUint64(b, c.sum(c.asks, b))
}

// check asks whether a path works.
func (c *iceConn) check(now time.Time, at int, nominates bool) {
	c.checks++
	ask := nethernet.Check{
		To: c.names.serverUfrag, From: c.names.clientUfrag, Role: nethernet.Controlling, Nominates: nominates,
	}
	password := c.names.serverPassword
	if !c.asks {
		ask.To, ask.From, ask.Role = ask.From, ask.To, nethernet.Controlled
		password = c.names.clientPassword
	}
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, c.names.username(), c.asks, c.checks)
	binary.BigEndian.PutUint64(ask.ID[:], h.Sum64())
	c.out = append(c.out, icePath{at, c.integrity.AppendCheck(nil, ask, password)})
	c.due = now.Add(consentPause)
}

func (c *iceConn) Receive(now time.Time, datagram []byte) error { return c.receive(now, 0, datagram) }

func (c *iceConn) Advance(now time.Time) {
	if c.Conn != nil {
		c.Conn.Advance(now)
	}
	if c.over || c.due.IsZero() || now.Before(c.due) {
		return
	}
	switch {
	case c.Conn == nil && now.Sub(c.born) >= iceGivesUp:
		c.over, c.due = true, time.Time{}
	case c.asks && c.chosen == 0:
		for at := range c.paths {
			c.check(now, at, false)
		}
		c.due = now.Add(checkPause)
	default:
		c.check(now, max(c.chosen-1, 0), false)
	}
}

func (c *iceConn) NextTimeout() time.Time {
	if c.Conn == nil {
		return c.due
	}
	return codec.Earliest(c.Conn.NextTimeout(), c.due)
}

func (c *iceConn) Send(now time.Time, m codec.Message) error {
	if c.Conn == nil {
		return codec.ErrClosed
	}
	return c.Conn.Send(now, m)
}

func (c *iceConn) Close(now time.Time, why codec.Goodbye) {
	if c.Conn != nil {
		c.Conn.Close(now, why)
	}
}

func (c *iceConn) Stats() codec.Stats {
	if c.Conn == nil {
		return codec.Stats{}
	}
	return c.Conn.Stats()
}

// Poll returns the game's events. The end of a client that found no path is its own. After the game's last event there
// is an alert, as DTLS has.
func (c *iceConn) Poll() (codec.Event, bool) {
	if c.Conn == nil {
		tells := c.over && !c.told && c.asks
		c.told = c.told || tells
		return codec.Event{Kind: codec.Disconnected, Reason: codec.NoConnection}, tells
	}
	ev, ok := c.Conn.Poll()
	if ok && ev.Kind == codec.Disconnected && !c.over {
		c.over, c.due = true, time.Time{}
		c.out = append(c.out, icePath{max(c.chosen-1, 0), c.record(alertRecord, nil)})
	}
	return ev, ok
}

// next returns the next datagram.
func (c *iceConn) next(now time.Time) (p icePath, ok bool) {
	if len(c.out) > 0 {
		p = c.out[0]
		c.out = c.out[1:]
		return p, true
	}
	if c.Conn == nil {
		return icePath{}, false
	}
	inner, ok := c.Conn.Transmit(now, make([]byte, 0, codec.MaxDatagram))
	if !ok {
		return icePath{}, false
	}
	return icePath{max(c.chosen-1, 0), c.record(dataRecord, inner)}, true
}

func (c *iceConn) Transmit(now time.Time, b []byte) ([]byte, bool) {
	p, ok := c.next(now)
	return append(b, p.bytes...), ok
}

// iceServer is a game's protocol within NetherNet, as one server speaks it. It knows the joins that it has answered.
type iceServer struct {
	codec.Protocol
	names   map[string]*edgeNames
	playing map[string]netip.AddrPort // the addresses of sessions: an edge has one for each
	judge   *judge
}

func (s *iceServer) Accept(now time.Time, from netip.AddrPort, datagram, reply []byte) (codec.Conn, []byte, error) {
	var b nethernet.Binding
	if err := b.Parse(datagram); err != nil {
		return nil, reply, err
	}
	names := s.names[string(b.Username)]
	g := nethernet.NewIntegrity()
	if names == nil || !b.IsWhole() || !g.Verify(&b, names.serverPassword) {
		return nil, reply, codec.ErrMalformed
	}
	if at, ok := s.playing[names.username()]; ok && at != from {
		s.judge.Errorf("a server sees the session of %v from %v, too", at, from)
	}
	s.playing[names.username()] = from
	c := &iceConn{names: names, born: now, due: now, seen: make(map[uint32]bool), integrity: g}
	c.begin = func(now time.Time, inner []byte) codec.Conn {
		conn, answer, err := s.Protocol.Accept(now, from, inner, nil)
		if err == nil && len(answer) > 0 {
			c.out = append(c.out, icePath{0, c.record(dataRecord, answer)})
		}
		return conn
	}
	return c, reply, c.receive(now, 0, datagram)
}

// edgePlayer is a NetherNet client with its addresses.
type edgePlayer struct {
	*player
	ice   *iceConn
	addrs []netip.AddrPort
	names *edgeNames
}

func (p *edgePlayer) Receive(now time.Time, _, to netip.AddrPort, datagram []byte) {
	for at, own := range p.addrs {
		if own == to {
			_ = p.ice.receive(now, at, datagram)
		}
	}
	p.drain(now)
}

func (p *edgePlayer) Transmit(now time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	out, ok := p.ice.next(now)
	p.drain(now)
	if !ok {
		return b, netip.AddrPort{}, netip.AddrPort{}, false
	}
	return append(b, out.bytes...), p.addrs[out.at], p.at, true
}
