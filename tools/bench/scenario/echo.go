package scenario

import (
	"net/netip"
	"sync/atomic"
	"time"

	"tidegate/codec/nethernet"
	"tidegate/internal/netio"
	"tidegate/tools/bench/edge"
	"tidegate/tools/bench/process"
)

// echo is a game server that returns every datagram.
type echo struct {
	poller  netio.Poller
	socket  netio.Socket
	stopped atomic.Bool
	done    chan struct{}
	// integrity answers checks of NetherNet, if it is set.
	integrity atomic.Pointer[nethernet.Integrity]
}

func startEcho() (*echo, error) { return startEchoAt(process.Loopback) }

func startEchoAt(at netip.Addr) (*echo, error) {
	poller, err := netio.New(netio.Options{})
	if err != nil {
		return nil, err
	}
	socket, err := poller.Listen(netip.AddrPortFrom(at, 0), netio.SocketOptions{ReceiveBuffer: 8 << 20})
	if err != nil {
		_ = poller.Close() // the earlier error matters more
		return nil, err
	}
	e := &echo{poller: poller, socket: socket, done: make(chan struct{})}
	go e.run()
	return e, nil
}

func (e *echo) addr() netip.AddrPort { return e.socket.Addr() }

func (e *echo) run() {
	defer close(e.done)
	for !e.stopped.Load() && e.poller.Wait(time.Time{}) == nil {
		e.poller.Receive(e)
		e.poller.Flush()
	}
}

// Datagram implements netio.Handler.
func (e *echo) Datagram(s netio.Socket, from netip.AddrPort, datagram []byte) {
	if g := e.integrity.Load(); g != nil && nethernet.IsSTUN(datagram) {
		var check nethernet.Binding
		if check.Parse(datagram) == nil && check.Class == nethernet.Request {
			e.poller.Send(s, from, edge.AppendAnswer(e.poller.Buffer(), g, &check))
		}
		return
	}
	e.poller.Send(s, from, datagram)
}

// Failed implements netio.Handler.
func (e *echo) Failed(netio.Socket, error) {}

func (e *echo) stop() {
	e.stopped.Store(true)
	e.poller.Wake()
	<-e.done
	_ = e.poller.Close()
}
