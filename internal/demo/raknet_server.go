package demo

import (
	"net"
	"net/netip"
	"sync"

	"github.com/sandertv/go-raknet"

	"tidegate/codec"
)

// gameServer is a small game server on go-raknet. It returns every message. go-raknet sends only reliable ordered
// messages, so the echo of an unreliable message is reliable.
type gameServer struct {
	form     form
	listener *raknet.Listener
	serving  sync.WaitGroup
}

func startGameServer(at netip.AddrPort, f form) (*gameServer, error) {
	// go-raknet blocks an IP address after one bad datagram; here all clients have the proxy's address.
	listener, err := raknet.ListenConfig{BlockDuration: -1}.Listen(at.String())
	if err != nil {
		return nil, err
	}
	g := &gameServer{form: f, listener: listener}
	g.serving.Go(g.accept)
	return g, nil
}

func (g *gameServer) addr() netip.AddrPort { return g.listener.Addr().(*net.UDPAddr).AddrPort() }

// stop closes the socket. Open connections end by themselves. The server records nothing.
func (g *gameServer) stop() arrivals {
	_ = g.listener.Close() // nothing can be lost any more
	g.serving.Wait()
	return nil
}

func (g *gameServer) accept() {
	for number := uint16(1); ; number++ {
		conn, err := g.listener.Accept()
		if err != nil {
			return // stopped
		}
		go g.serve(conn.(*raknet.Conn), number)
	}
}

// serve serves one client until it leaves.
func (g *gameServer) serve(conn *raknet.Conn, number uint16) {
	if g.form.world {
		for _, text := range greetings {
			if _, err := conn.Write(g.form.greeting(text, codec.ReliableOrdered).Payload); err != nil {
				return
			}
		}
	}
	for {
		message, err := conn.ReadPacket()
		if err != nil {
			return
		}
		// The next read detects that a client is gone.
		g.form.replies(&codec.Message{Payload: message}, number, codec.ReliableOrdered, func(reply codec.Message) {
			_, _ = conn.Write(reply.Payload)
		})
	}
}
