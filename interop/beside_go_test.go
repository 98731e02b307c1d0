//go:build interop

package interop_test

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
	_ "unsafe" // for dialerID

	"github.com/sandertv/go-raknet"
)

// goPeerVariable makes the test's own program a peer, as a process of its own.
const goPeerVariable = "TIDEGATE_PEER"

var goPeers map[string]func(args []string)

func init() { // a variable would refer to itself
	goPeers = map[string]func(args []string){
		"riptide-server": ripServe, "riptide-client": ripPlay,
		"rudp-server": rudpServe, "rudp-client": rudpPlay, "go-raknet-server": goServe, "go-raknet-client": goPlay,
	}
}

// goPeer is the runtime of a peer in Go.
func goPeer(kind string) *runtime {
	return &runtime{name: kind, compiled: true, ready: func() (string, error) { return "", nil },
		line: func(string) (env, line []string) { return []string{goPeerVariable + "=" + kind}, []string{os.Args[0]} }}
}

var telling sync.Mutex

// tell reports an event to the test.
func tell(e event) {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	telling.Lock()
	defer telling.Unlock()
	_, _ = fmt.Fprintf(os.Stdout, "%s\n", line) // without a test there is no peer
}

// ordersIn reads the test's orders.
func ordersIn() <-chan order {
	orders := make(chan order, 100)
	go func() {
		defer close(orders)
		for lines := bufio.NewReader(os.Stdin); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			var o order
			if json.Unmarshal(line, &o) == nil {
				orders <- o
			}
		}
	}()
	return orders
}

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) }

// bound returns a socket at an address.
func bound(address string) *net.UDPConn {
	socket, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(address)))
	if err != nil {
		panic(err)
	}
	return socket
}

// steady is a socket towards an address. As with most games, it does not mind that a datagram cannot be sent.
type steady struct {
	*net.UDPConn
	to netip.AddrPort
}

// towards returns a socket towards an address, at a port of its own; 0: any.
func towards(address string, port int) steady {
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{Port: port})
	if err != nil {
		panic(err)
	}
	roomy(socket)
	return steady{socket, netip.MustParseAddrPort(address)}
}

// Write implements net.Conn.
func (s steady) Write(d []byte) (int, error) {
	_, _ = s.WriteToUDPAddrPort(d, s.to)
	return len(d), nil
}

// RemoteAddr implements net.Conn.
func (s steady) RemoteAddr() net.Addr { return net.UDPAddrFromAddrPort(s.to) }

// roomy gives a socket room for a burst of some megabytes, as root.
func roomy(socket *net.UDPConn) {
	_ = socket.SetReadBuffer(4 << 20)
	if raw, err := socket.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUFFORCE, 16<<20)
		})
	}
}

// head returns what tells a message apart, in hex.
func head(p []byte) string { return hex.EncodeToString(p[:min(len(p), numberedSize)]) }

// goServe is a go-raknet server that echoes: ADDRESS.
func goServe(args []string) {
	// It blocks an address after one bad datagram, and all players share the proxy's address.
	listener, err := raknet.ListenConfig{BlockDuration: -1}.Listen(args[0])
	if err != nil {
		panic(err)
	}
	var mu sync.Mutex
	var conns []*raknet.Conn
	go func() {
		for {
			accepted, err := listener.Accept()
			if err != nil {
				return
			}
			conn := accepted.(*raknet.Conn)
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			go func() {
				tell(event{Event: "joined"})
				defer tell(event{Event: "left"})
				for {
					p, err := conn.ReadPacket()
					if err != nil {
						return
					}
					tell(event{Event: "received", Payload: head(p), Size: len(p)})
					if len(p) <= echoed {
						_, _ = conn.Write(p)
					}
				}
			}()
		}
	}()
	listener.PongData([]byte("MCPE;" + args[0] + ";844;1.21.111;0;100;1;arena;Survival;1;19132;19132;"))
	tell(event{Event: "listening"})
	for o := range ordersIn() {
		mu.Lock()
		for _, conn := range conns {
			goSay(conn, o)
		}
		mu.Unlock()
	}
}

// echoed is the largest message that comes back. Larger ones are the test's way to use one direction.
const echoed = 4000

func goSay(conn *raknet.Conn, o order) {
	for i := range o.Count {
		_, _ = conn.Write(burstMessage(o, i)) // the test misses it
	}
}

//go:linkname dialerID github.com/sandertv/go-raknet.dialerID
var dialerID int64

// localPort opens sockets at a port.
type localPort int

// DialContext implements raknet.UpstreamDialer.
func (p localPort) DialContext(_ context.Context, _, address string) (net.Conn, error) {
	return towards(address, int(p)), nil
}

// goPlay is some go-raknet clients: SERVER PORT GUID. A PORT or GUID other than 0 is the first client's.
func goPlay(args []string) {
	port, _ := strconv.Atoi(args[1])
	if guid, _ := strconv.ParseInt(args[2], 10, 64); guid != 0 {
		dialerID = guid - 1
	}
	var mu sync.Mutex
	conns := make(map[int]*raknet.Conn)
	bursts := make(map[int]chan order) // a Write may wait
	join := func(i int) {
		number := uint16(i)
		tell(event{Event: "begins", Client: number})
		dialer := raknet.Dialer{UpstreamDialer: localPort(port)}
		conn, err := dialer.DialTimeout(args[0], patience)
		if err != nil {
			tell(event{Event: "refused", Client: number})
			return
		}
		mu.Lock()
		conns[i], bursts[i] = conn, make(chan order, 10000)
		todo := bursts[i]
		mu.Unlock()
		go func() {
			for o := range todo {
				goSay(conn, o)
			}
		}()
		tell(event{Event: "connected", Client: number})
		for {
			p, err := conn.ReadPacket()
			if err != nil {
				tell(event{Event: "disconnected", Client: number})
				return
			}
			tell(event{Event: "received", Client: number, Payload: head(p), Size: len(p)})
		}
	}
	for o := range ordersIn() {
		if o.Do == "join" {
			for i := range o.Count {
				go join(i)
			}
			continue
		}
		mu.Lock()
		conn, todo := conns[o.Player], bursts[o.Player]
		mu.Unlock()
		switch {
		case conn == nil:
		case o.Do == "burst":
			todo <- o
		case o.Do == "leave":
			_ = conn.Close()
		case o.Do == "pause":
			time.Sleep(time.Duration(o.Pause) * time.Millisecond)
		}
	}
}
