//go:build interop

package interop_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"tidegate/internal/lossylink"
)

// Hosts of the two families.
const (
	four = "127.0.0.1"
	six  = "::1"
)

// Families of IPv6 addresses in RakNet's messages, as a platform has them in memory. The libraries in Go, Java and Rust
// write Windows' everywhere.
const (
	familyLinux   = 10
	familyWindows = 23
)

// anyFamily is a RakNet library that speaks IPv4 and IPv6.
type anyFamily struct {
	contender
	family uint16
	// serve runs a server at a host.
	serve func(t *testing.T, host string) *peer
}

var (
	stockFamilies = anyFamily{stock11Client, familyLinux, func(t *testing.T, host string) *peer {
		return startServerAt(t, stock11, "stock_server.py", net.JoinHostPort(host, freePort(t)))
	}}
	goFamilies         = anyFamily{goClient, familyWindows, startGoServerAt}
	cloudburstFamilies = anyFamily{cloudburstClient, familyWindows, func(t *testing.T, host string) *peer {
		return startServerAt(t, java, "Cloudburst.java", net.JoinHostPort(host, freePort(t)), "server")
	}}
	rustFamilies = anyFamily{rustClient, familyWindows, func(t *testing.T, host string) *peer {
		return startServerAt(t, rustRaknet, "rust-raknet", net.JoinHostPort(host, freePort(t)), "server")
	}}
)

// TestIPv6: real libraries play over IPv6 through Tidegate, also opposite IPv4. Each message to them that holds IPv6
// addresses has them in the family that the library itself writes, as the datagrams on both sides show.
func TestIPv6(t *testing.T) {
	for _, c := range []struct {
		from   anyFamily
		client string
		to     anyFamily
		server string
	}{
		{stockFamilies, six, goFamilies, four},
		{goFamilies, six, stockFamilies, four},
		{cloudburstFamilies, six, goFamilies, four},
		{goFamilies, four, stockFamilies, six},
		{stockFamilies, four, goFamilies, six},
		{goFamilies, four, cloudburstFamilies, six},
		{goFamilies, four, rustFamilies, six},
		{rustFamilies, six, stockFamilies, four},
		{stockFamilies, six, stockFamilies, six},
		{stockFamilies, six, goFamilies, six},
		{goFamilies, six, stockFamilies, six},
	} {
		t.Run(fmt.Sprintf("%s at %s to %s at %s", c.from.name, c.client, c.to.name, c.server), func(t *testing.T) {
			server := c.to.serve(t, c.server)
			behind := startTap(t, c.server, server.port)
			between := startTidegate(t, route{
				protocol: "bedrock", transport: udp, host: c.server, server: behind.port, listen: c.client,
				upstream: "max_packets = 90", noCookies: c.from.noCookies,
			})
			before := startTap(t, c.client, between.ports[udp])
			client := c.from.client(t, net.JoinHostPort(c.client, before.port))
			connected := client.awaitWithin(t, "connected", 3*patience)
			joined := server.await(t, "joined")
			language := c.from.language
			language.largest = largestRakNet
			talk(t, client, language)
			if c.from.family == familyLinux {
				wantExternal(t, connected, c.client)
			}
			if c.to.family == familyLinux {
				wantExternal(t, joined, c.server)
			}
			sayGoodbye(t, between, client, server)
			before.wantFamilies(t, c.client, c.from.family, reply2, requestAccepted)
			behind.wantFamilies(t, c.server, c.to.family, newConnection)
		})
	}
}

// wantExternal checks the address of itself that a stock library has been told. It prints an IPv6 address of another
// platform's family without the address.
func wantExternal(t *testing.T, e event, host string) {
	t.Helper()
	if !strings.HasPrefix(e.Payload, host+"|") {
		t.Errorf("%s: its own address is %q to the library, want one of %s", e.Event, e.Payload, host)
	}
}

// Messages of the handshake that hold addresses.
const (
	request2        = 0x07
	reply2          = 0x08
	requestAccepted = 0x10
	newConnection   = 0x13
)

// tap carries datagrams between one side of Tidegate and a peer, and keeps them.
type tap struct {
	port string
	mu   sync.Mutex
	seen []tapped
}

type tapped struct {
	toServer bool
	datagram []byte
}

// startTap opens a tap in front of a port.
func startTap(t *testing.T, host, port string) *tap {
	t.Helper()
	tp := &tap{}
	loss := lossylink.Loss{Chosen: func(toServer bool, datagram []byte) bool {
		tp.mu.Lock()
		defer tp.mu.Unlock()
		tp.seen = append(tp.seen, tapped{toServer, append([]byte(nil), datagram...)})
		return false
	}}
	address := func(port string) netip.AddrPort { return netip.MustParseAddrPort(net.JoinHostPort(host, port)) }
	l, err := lossylink.StartAt(address("0"), address(port), 10, loss)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Stop() })
	tp.port = portOf(t, l.Addr().String())
	return tp
}

// wantFamilies checks the addresses in the messages of the handshake: in all messages that the peer wrote, and in the
// messages with the given identifiers that Tidegate wrote to it.
func (tp *tap) wantFamilies(t *testing.T, host string, peers uint16, written ...byte) {
	t.Helper()
	tp.mu.Lock()
	defer tp.mu.Unlock()
	toServer := written[0] == newConnection // Tidegate's datagrams
	for _, id := range written {
		found := false
		for _, d := range tp.seen {
			for _, m := range handshakes(d.datagram) {
				for i, a := range addressesOf(m) {
					switch {
					case a.family != 0 && d.toServer != toServer && a.family != peers:
						t.Errorf("the peer itself writes family %d in message %#x, want %d", a.family, m[0], peers)
					case d.toServer != toServer || m[0] != id:
					case i == 0 && a.host != host:
						t.Errorf("message %#x to the peer names %s, want %s", id, a.host, host)
					case a.family != 0 && a.family != peers:
						t.Errorf("message %#x to the peer has an address of family %d, want %d", id, a.family, peers)
					default:
						found = true
					}
				}
			}
		}
		if !found {
			t.Errorf("no message %#x went to the peer", id)
		}
	}
}

// handshakes returns the messages of a datagram that may hold addresses.
func handshakes(b []byte) (messages [][]byte) {
	if len(b) == 0 || b[0] == request2 || b[0] == reply2 {
		return [][]byte{b}
	}
	if b[0]&0x80 == 0 || b[0]&0x60 != 0 {
		return nil // offline, or an acknowledgement
	}
	for b = b[4:]; len(b) > 3; {
		reliability, split := b[0]>>5, b[0]&0x10 != 0
		size, head := (int(binary.BigEndian.Uint16(b[1:]))+7)/8, 3
		if reliability >= 2 && reliability != 5 {
			head += 3 // its number
		}
		if reliability == 1 || reliability == 4 {
			head += 3 // its place in a sequence
		}
		if reliability == 1 || reliability == 3 || reliability == 4 || reliability == 7 {
			head += 4 // its place on a channel
		}
		if split {
			head += 10
		}
		if len(b) < head+size {
			return messages
		}
		if m := b[head : head+size]; !split && size > 1 && (m[0] == requestAccepted || m[0] == newConnection) {
			messages = append(messages, m)
		}
		b = b[head+size:]
	}
	return messages
}

// wireAddress is an address in a message. Only one of IPv6 has a family.
type wireAddress struct {
	host   string
	family uint16
}

// addressesOf returns the addresses in a message of the handshake.
func addressesOf(m []byte) (found []wireAddress) {
	var rest []byte
	switch m[0] {
	case request2: // the address is followed by 10 bytes, and may follow a cookie
		for _, at := range []int{17, 22} {
			if size := len(m) - at - 10; size == 7 || size == 29 {
				rest = m[at : at+size]
			}
		}
	case reply2:
		rest = m[25 : len(m)-3]
	case requestAccepted: // an index between the first address and the others, and two times
		first, others := wireAddressOf(m[1:])
		found, rest = append(found, first), others[2:len(others)-16]
	case newConnection:
		rest = m[1 : len(m)-16]
	}
	for len(rest) > 0 {
		var a wireAddress
		a, rest = wireAddressOf(rest)
		found = append(found, a)
	}
	return found
}

func wireAddressOf(b []byte) (a wireAddress, rest []byte) {
	if b[0] == 4 {
		return wireAddress{host: netip.AddrFrom4([4]byte{^b[1], ^b[2], ^b[3], ^b[4]}).String()}, b[7:]
	}
	return wireAddress{netip.AddrFrom16([16]byte(b[9:25])).String(), binary.LittleEndian.Uint16(b[1:])}, b[29:]
}
