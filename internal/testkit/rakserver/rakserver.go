// Package rakserver is a game server for tests, built on an independent RakNet library.
package rakserver

import (
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/sandertv/go-raknet"
)

// Start returns the address of a loopback server that accepts every client and runs serve for each, until the test
// ends.
func Start(t testing.TB, serve func(*raknet.Conn)) netip.AddrPort {
	t.Helper()
	listener, err := raknet.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// Close races with the goroutine that hands a connection over. The count orders them for the race detector.
	var accepted atomic.Int32
	t.Cleanup(func() {
		accepted.Load()
		_ = listener.Close()
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			go serve(conn.(*raknet.Conn))
		}
	}()
	return netip.MustParseAddrPort(listener.Addr().String())
}

// Echo sends a client's messages back, until the client is gone.
func Echo(conn *raknet.Conn) {
	for {
		message, err := conn.ReadPacket()
		if err != nil {
			return
		}
		_, _ = conn.Write(message) // an error means that the client is gone
	}
}
