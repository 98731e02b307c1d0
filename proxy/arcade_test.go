package proxy_test

import (
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"tidegate/codec"
)

// ledger records the numbered messages that all servers receive.
type ledger struct {
	mu    sync.Mutex
	times map[uint64]int           // number of arrivals of each message
	last  map[uint32]time.Time     // time of a player's last message
	gap   map[uint32]time.Duration // longest time between two messages of a player
}

func newLedger() *ledger {
	return &ledger{times: make(map[uint64]int), last: make(map[uint32]time.Time), gap: make(map[uint32]time.Duration)}
}

func (l *ledger) note(player, number uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if last, ok := l.last[player]; ok {
		l.gap[player] = max(l.gap[player], now.Sub(last))
	}
	l.last[player] = now
	l.times[uint64(player)<<32|uint64(number)]++
}

// sum returns the number of messages, the number of repeated ones, and the longest gap of all players.
func (l *ledger) sum() (came, twice int, longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.times {
		came++
		if n > 1 {
			twice++
		}
	}
	for _, d := range l.gap {
		longest = max(longest, d)
	}
	return came, twice, longest
}

// idle returns the time since the last message.
func (l *ledger) idle() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	least := time.Hour
	for _, last := range l.last {
		least = min(least, time.Since(last))
	}
	return least
}

// arcade is a game server over UDP for many players. Tests can kill it.
type arcade struct {
	protocol codec.Protocol
	socket   *net.UDPConn
	ledger   *ledger
	conns    map[netip.AddrPort]codec.Conn
	next     uint16
	stop     chan bool // true: with goodbyes
	done     chan struct{}
}

func startArcade(t *testing.T, p codec.Protocol, at netip.AddrPort, l *ledger) *arcade {
	t.Helper()
	socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	a := &arcade{
		protocol: p, socket: socket, ledger: l, conns: make(map[netip.AddrPort]codec.Conn),
		stop: make(chan bool, 1), done: make(chan struct{}),
	}
	go a.run()
	t.Cleanup(func() { a.end(false) })
	return a
}

func (a *arcade) addr() netip.AddrPort { return a.socket.LocalAddr().(*net.UDPAddr).AddrPort() }

// end stops the server, with goodbyes if politely is true.
func (a *arcade) end(politely bool) {
	select {
	case a.stop <- politely:
	default:
	}
	<-a.done
}

func (a *arcade) run() {
	defer close(a.done)
	defer func() { _ = a.socket.Close() }()
	var b [codec.MaxDatagram]byte
	for {
		select {
		case politely := <-a.stop:
			for from, conn := range a.conns {
				if politely {
					conn.Close(time.Now(), codec.Goodbye{Reason: codec.ServerStopped})
					a.serve(from, conn)
				}
			}
			return
		default:
		}
		_ = a.socket.SetReadDeadline(time.Now().Add(2 * time.Millisecond))
		n, from, err := a.socket.ReadFromUDPAddrPort(b[:])
		if err == nil {
			a.receive(from, b[:n])
			continue
		}
		for from, conn := range a.conns {
			conn.Advance(time.Now())
			a.serve(from, conn)
		}
	}
}

func (a *arcade) receive(from netip.AddrPort, datagram []byte) {
	conn := a.conns[from]
	if conn != nil {
		_ = conn.Receive(time.Now(), datagram)
	} else {
		made, reply, err := a.protocol.Accept(time.Now(), from, datagram, nil)
		_, _ = a.socket.WriteToUDPAddrPort(reply, from)
		if err != nil || made == nil {
			return
		}
		conn, a.conns[from] = made, made
	}
	a.serve(from, conn)
}

// serve handles a connection's events and writes its datagrams.
func (a *arcade) serve(from netip.AddrPort, conn codec.Conn) {
	for ev, ok := conn.Poll(); ok; ev, ok = conn.Poll() {
		switch ev.Kind {
		case codec.Asked:
			a.next++
			conn.Admit(time.Now(), a.next)
		case codec.Received:
			a.ledger.note(binary.BigEndian.Uint32(ev.Payload[1:]), binary.BigEndian.Uint32(ev.Payload[5:]))
		case codec.Disconnected:
			delete(a.conns, from)
		}
	}
	for d, ok := conn.Transmit(time.Now(), nil); ok; d, ok = conn.Transmit(time.Now(), nil) {
		_, _ = a.socket.WriteToUDPAddrPort(d, from)
	}
}
