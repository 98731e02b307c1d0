//go:build interop && chaos

package interop_test

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
)

// crowd is a peer of our own codec with many connections: players, or an echo server. One goroutine drives all of it.
// It stands where no library can be had in such numbers, or none for the protocol.
type crowd struct {
	protocol codec.Protocol
	stream   *registry.Stream // nil: UDP
	local    netip.Addr       // of players; the zero Addr: any
	names    uint64           // players are named by the numbers behind it
	enter    func(f func())   // runs f where sockets are opened: a network namespace; nil: here
	poller   netio.Poller
	listener netio.Socket // of a server
	ends     []*end
	byAddr   map[netip.AddrPort]*end // of a server
	now      time.Time
	mail     chan func()
	stopped  bool
	done     chan struct{}
}

// end is one connection of a node.
type end struct {
	conn     codec.Conn
	socket   netio.Socket
	addr     netip.AddrPort
	up, gone bool
	reason   codec.Reason
	client   uint16 // Riptide's ID
	dialed   time.Time
	took     time.Duration // from then until it was up or refused
	sent     uint32
	echoes   map[uint32]int // by number
	newest   uint32         // of echoes
	told     [2]int         // receipts: lost, delivered
}

// newCrowd returns a crowd of a protocol that is neither listening nor connected.
func newCrowd(t *testing.T, protocol, by string) *crowd {
	t.Helper()
	d := protocols.Find(protocol)
	n := &crowd{protocol: d.NewCalm(registry.Use{Stream: by == tcp}), byAddr: make(map[netip.AddrPort]*end),
		mail: make(chan func(), 100), done: make(chan struct{}), now: time.Now()}
	if by == tcp {
		n.stream = d.Stream
	}
	var err error
	if n.poller, err = netio.New(netio.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.kill)
	go n.run()
	return n
}

// listen opens an echo server at a port.
func (n *crowd) listen(t *testing.T, port string) {
	t.Helper()
	at := netip.MustParseAddrPort(at(port))
	var err error
	n.open(func() {
		if n.stream != nil {
			n.listener, err = n.poller.ListenStream(at, netio.StreamOptions{Prefix: netio.PrefixOf(n.stream.Prefix)})
		} else {
			n.listener, err = n.poller.Listen(at, netio.SocketOptions{})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// startCrowd runs an echo server.
func startCrowd(t *testing.T, protocol, by, port string) *crowd {
	t.Helper()
	n := newCrowd(t, protocol, by)
	n.listen(t, port)
	return n
}

// do calls f on the crowd's goroutine.
func (n *crowd) do(f func()) {
	ran := make(chan struct{})
	n.mail <- func() { f(); close(ran) }
	n.poller.Wake()
	select {
	case <-ran:
	case <-n.done:
	}
}

// open calls f on the crowd's goroutine, in the crowd's network namespace.
func (n *crowd) open(f func()) {
	if n.enter != nil {
		inside := f
		f = func() { n.enter(inside) }
	}
	n.do(f)
}

// kill ends the crowd without a goodbye.
func (n *crowd) kill() {
	n.do(func() { n.stopped = true })
	<-n.done
}

// pause has the crowd stand still for a time.
func (n *crowd) pause(d time.Duration) {
	over := time.After(d)
	n.do(func() { <-over })
}

// dial connects one more player.
func (n *crowd) dial(port string) {
	n.open(func() {
		to := netip.MustParseAddrPort(at(port))
		var s netio.Socket
		var err error
		if n.stream != nil {
			s, err = n.poller.DialStream(to, netio.StreamOptions{Prefix: netio.PrefixOf(n.stream.Prefix)})
		} else {
			s, err = n.poller.Dial(to, netio.SocketOptions{Local: n.local})
		}
		if err != nil {
			return // missed by the count of players
		}
		e := &end{socket: s, addr: to, dialed: n.now, echoes: make(map[uint32]int)}
		e.conn = n.protocol.Dial(n.now, to, codec.Hello{Identity: n.names + uint64(len(n.ends)+1)})
		s.SetOwner(e)
		n.ends = append(n.ends, e)
		n.transmit(e)
	})
}

// say has every player that is up send a message, to be echoed.
func (n *crowd) say(mode codec.Mode) {
	n.do(func() {
		for _, e := range n.ends {
			if !e.up || e.gone {
				continue
			}
			payload := binary.BigEndian.AppendUint32([]byte{packetByte}, e.sent)
			m := codec.Message{Payload: payload, Mode: mode, ID: 7, HasID: n.protocol.Spec().IDs == codec.IDBeside}
			if mode == codec.Notify {
				m.HasID, m.ID, m.Receipt = false, 0, codec.Receipt(e.sent+1)
			}
			if e.conn.Send(n.now, m) == nil {
				e.sent++
			}
			n.transmit(e)
		}
	})
}

// reliable is the strongest mode of the protocol.
func (n *crowd) reliable() codec.Mode {
	for _, mode := range []codec.Mode{codec.ReliableOrdered, codec.Reliable, codec.Notify} {
		if n.protocol.Spec().Modes.Has(mode) {
			return mode
		}
	}
	return codec.Unreliable
}

// count counts the connections of which something is true.
func (n *crowd) count(is func(e *end) bool) (number int) {
	n.do(func() {
		for _, e := range n.ends {
			if is(e) {
				number++
			}
		}
	})
	return number
}

func (n *crowd) up() int   { return n.count(func(e *end) bool { return e.up && !e.gone }) }
func (n *crowd) gone() int { return n.count(func(e *end) bool { return e.gone }) }

// echoed reports whether all that was said has come back.
func (n *crowd) echoed() bool {
	return n.count(func(e *end) bool { return e.up && !e.gone && len(e.echoes) < int(e.sent) }) == 0
}

func (n *crowd) run() {
	defer close(n.done)
	defer n.poller.Close()
	for !n.stopped {
		if n.poller.Wait(n.nextTimeout()) != nil {
			return
		}
		n.now = time.Now()
		n.poller.Receive(n)
		for len(n.mail) > 0 {
			(<-n.mail)()
			n.now = time.Now()
		}
		for _, e := range n.ends {
			if at := e.conn.NextTimeout(); !at.IsZero() && !n.now.Before(at) {
				e.conn.Advance(n.now)
				n.settle(e)
			}
			n.transmit(e)
		}
		n.poller.Flush()
	}
}

func (n *crowd) nextTimeout() (next time.Time) {
	for _, e := range n.ends {
		next = codec.Earliest(next, e.conn.NextTimeout())
	}
	return next
}

// Datagram implements netio.Handler.
func (n *crowd) Datagram(s netio.Socket, from netip.AddrPort, datagram []byte) {
	e, known := s.Owner().(*end)
	if !known {
		e = n.byAddr[from]
	}
	if e != nil {
		_ = e.conn.Receive(n.now, datagram) // the sender resends dropped datagrams
		n.settle(e)
		return
	}
	if n.listener == nil || !n.protocol.Sniff(datagram) {
		return
	}
	conn, reply, _ := n.protocol.Accept(n.now, from, datagram, n.poller.Buffer())
	if len(reply) > 0 {
		n.poller.Send(s, from, reply)
	}
	if conn == nil {
		return
	}
	e = &end{conn: conn, socket: s, addr: from, echoes: make(map[uint32]int)}
	n.ends = append(n.ends, e)
	n.byAddr[from] = e
	n.settle(e)
}

// Failed implements netio.Handler: a stream has ended.
func (n *crowd) Failed(s netio.Socket, _ error) {
	if e, ok := s.Owner().(*end); ok && n.stream != nil {
		e.gone, e.reason = true, codec.TransportError
	}
}

// settle handles a connection's events.
func (n *crowd) settle(e *end) {
	for ev, ok := e.conn.Poll(); ok; ev, ok = e.conn.Poll() {
		switch ev.Kind {
		case codec.Asked:
			e.conn.Admit(n.now, uint16(len(n.ends)))
		case codec.Connected:
			e.up, e.client, e.took = true, ev.Client, n.now.Sub(e.dialed)
		case codec.Received:
			if n.listener != nil {
				echo := ev.Message
				echo.Receipt = 0
				_ = e.conn.Send(n.now, echo) // a missing echo shows
			} else {
				e.hear(ev.Payload)
			}
		case codec.Delivered:
			e.told[1]++
		case codec.Lost:
			e.told[0]++
		case codec.Disconnected:
			if e.gone, e.reason = true, ev.Reason; !e.up {
				e.took = n.now.Sub(e.dialed)
			}
			delete(n.byAddr, e.addr)
		}
	}
}

// hear counts the echoes in a message. RUDP joins messages.
func (e *end) hear(payload []byte) {
	for ; len(payload) >= 5; payload = payload[5:] {
		number := binary.BigEndian.Uint32(payload[1:])
		e.echoes[number]++
		e.newest = max(e.newest, number)
	}
}

func (n *crowd) transmit(e *end) {
	for b, ok := e.conn.Transmit(n.now, n.poller.Buffer()); ok; b, ok = e.conn.Transmit(n.now, n.poller.Buffer()) {
		n.poller.Send(e.socket, e.addr, b)
	}
}
