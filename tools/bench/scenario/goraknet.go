package scenario

import (
	"errors"
	"net"
	"net/http"
	_ "net/http/pprof" // serves the profiles, which count allocations
	"net/netip"
	"os"
	"sync"

	"github.com/sandertv/go-raknet"

	"tidegate/internal/testkit/freeport"
	"tidegate/tools/bench/process"
)

// GoRakNet is the name of the proxy on go-raknet, and of the program's hidden command that runs it.
const GoRakNet = "go-raknet"

// startGoRakNet runs RunGoRakNet in a process of its own.
func startGoRakNet(_ *Options, server netip.AddrPort, _ string) (*subject, error) {
	addr, err := freeport.Find(process.Loopback)
	if err != nil {
		return nil, err
	}
	admin, err := freeport.Find(process.Loopback)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startWithAdmin(GoRakNet, addr, admin, self, GoRakNet, addr.String(), server.String(), admin.String())
}

// RunGoRakNet runs the obvious proxy written with go-raknet, for comparison: it accepts at listen, dials the server
// for each client, and copies packets both ways. Its profiles are at admin. It returns when it cannot listen any more.
func RunGoRakNet(listen, server, admin string) error {
	go func() { _ = http.ListenAndServe(admin, nil) }() // without profiles fewer figures are known
	l, err := raknet.Listen(listen)
	if err != nil {
		return err
	}
	for {
		client, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err == nil {
			go serveGoRakNet(client.(*raknet.Conn), server)
		}
	}
}

func serveGoRakNet(client *raknet.Conn, server string) {
	defer func() { _ = client.Close() }()
	upstream, err := raknet.Dial(server)
	if err != nil {
		return
	}
	defer func() { _ = upstream.Close() }()
	var both sync.WaitGroup
	both.Go(func() { copyGoRakNet(upstream, client) })
	both.Go(func() { copyGoRakNet(client, upstream) })
	both.Wait()
}

// goRakNetGame is a game server on go-raknet. It reads what its clients send, and says nothing.
type goRakNetGame struct{ *raknet.Listener }

func startGoRakNetGame() (*goRakNetGame, error) {
	l, err := raknet.Listen(netip.AddrPortFrom(process.Loopback, 0).String())
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go readGoRakNet(client.(*raknet.Conn))
		}
	}()
	return &goRakNetGame{l}, nil
}

func readGoRakNet(client *raknet.Conn) {
	for {
		if _, err := client.ReadPacket(); err != nil {
			_ = client.Close()
			return
		}
	}
}

func (g *goRakNetGame) addr() netip.AddrPort { return netip.MustParseAddrPort(g.Addr().String()) }

func (g *goRakNetGame) stop() { _ = g.Close() }

// copyGoRakNet copies packets until one end closes, and then closes the other.
func copyGoRakNet(to, from *raknet.Conn) {
	defer func() { _ = to.Close() }()
	for {
		packet, err := from.ReadPacket()
		if err != nil {
			return
		}
		if _, err := to.Write(packet); err != nil {
			_ = from.Close()
			return
		}
	}
}
