package demo

import (
	"net"
	"net/netip"
	"sync"

	"github.com/sandertv/go-raknet"

	"tidegate/codec"
)

// gameServer is a small game server on go-raknet: it sends every message back to whom it came from. go-raknet writes
// nothing but reliable ordered messages, so the echo of an unreliable message is reliable.
type gameServer struct {
	form     form
	listener *raknet.Listener
	serving  sync.WaitGroup
}

func startGameServer(at netip.AddrPort, f form) (*gameServer, error) {
	// go-raknet blocks an IP address after one bad datagram from it; here all players have the proxy's.
	listener, err := raknet.ListenConfig{BlockDuration: -1}.Listen(at.String())
	if err != nil {
		return nil, err
	}
	g := &gameServer{form: f, listener: listener}
	g.serving.Go(g.accept)
	return g, nil
}

func (g *gameServer) addr() netip.AddrPort { return g.listener.Addr().(*net.UDPAddr).AddrPort() }

// stop closes the socket. Connections that are left end by themselves. There are no books.
func (g *gameServer) stop() arrivals {
	_ = g.listener.Close() // nothing is left to be lost
	g.serving.Wait()
	return nil
}

func (g *gameServer) accept() {
	for player := uint16(1); ; player++ {
		conn, err := g.listener.Accept()
		if err != nil {
			return // stopped
		}
		go g.serve(conn.(*raknet.Conn), player)
	}
}

// serve serves one player until it leaves.
func (g *gameServer) serve(conn *raknet.Conn, player uint16) {
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
		// A player who is gone is noticed by the next read.
		g.form.replies(&codec.Message{Payload: message}, player, codec.ReliableOrdered, func(reply codec.Message) {
			_, _ = conn.Write(reply.Payload)
		})
	}
}
