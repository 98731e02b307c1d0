//go:build interop

package interop_test

import (
	"encoding/hex"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/sandertv/go-raknet"
)

// startGoServer runs a go-raknet server that echoes every message.
func startGoServer(t *testing.T) *peer { return startGoServerAt(t, "127.0.0.1") }

func startGoServerAt(t *testing.T, host string) *peer {
	t.Helper()
	// go-raknet blocks an IP address after one bad datagram; here all clients share the proxy's address.
	return listenGo(t, host, raknet.ListenConfig{BlockDuration: -1})
}

// listenGo is startGoServerAt with a configuration.
func listenGo(t *testing.T, host string, config raknet.ListenConfig) *peer {
	t.Helper()
	listener, err := config.Listen(net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	listener.PongData([]byte("go-raknet"))
	t.Cleanup(func() { listener.Close() })
	p := &peer{name: "go-raknet server", port: portOf(t, listener.Addr().String()), events: make(chan event, 10000)}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go p.echo(conn.(*raknet.Conn))
		}
	}()
	return p
}

func (p *peer) echo(conn *raknet.Conn) {
	p.events <- event{Event: "joined"}
	defer func() { p.events <- event{Event: "left"} }()
	for {
		payload, err := conn.ReadPacket()
		if err != nil {
			return
		}
		p.events <- event{Event: "received", Payload: hex.EncodeToString(payload)}
		if _, err := conn.Write(payload); err != nil {
			return
		}
	}
}

// at returns the address of a port of 127.0.0.1, or the address that port is already.
func at(port string) string {
	if strings.Contains(port, ":") {
		return port
	}
	return net.JoinHostPort("127.0.0.1", port)
}

// startGoClient connects a go-raknet client, which sends only reliable ordered messages.
func startGoClient(t *testing.T, port string) *peer {
	t.Helper()
	conn, err := raknet.DialTimeout(at(port), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	p := &peer{name: "go-raknet client", events: make(chan event, 10000)}
	p.events <- event{Event: "connected"}
	go func() {
		for {
			payload, err := conn.ReadPacket()
			if err != nil {
				p.events <- event{Event: "disconnected"}
				return
			}
			p.events <- event{Event: "received", Payload: hex.EncodeToString(payload)}
		}
	}()
	p.do = func(o order) error {
		switch o.Do {
		case "send":
			payload, err := hex.DecodeString(o.Payload)
			if err != nil {
				return err
			}
			_, err = conn.Write(payload)
			return err
		case "leave":
			return conn.Close()
		}
		return fmt.Errorf("unknown order %q", o.Do)
	}
	return p
}
