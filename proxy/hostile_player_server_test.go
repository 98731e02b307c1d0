package proxy_test

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/lossylink"
	"tidegate/internal/netio"
)

// unnoticed is the longest time that other players' messages may take during an attack. go-raknet blocks an address
// for 10 s.
const unnoticed = 4 * time.Second

// TestHostilePlayerHarmsNoOther lets one player send datagrams that make a go-raknet server block the proxy's
// address. Present players and new clients notice nothing.
func TestHostilePlayerHarmsNoOther(t *testing.T) {
	for _, attack := range []struct {
		name string
		loss float64 // on the way to the server
		run  func(t *testing.T, addr netip.AddrPort)
	}{
		{"message of 600 parts", 0, sendManyParts},
		{"password of 600 parts", 0, sendLongPassword},
		{"20000 messages behind a lost one", 0.03, sendTinyMessages},
	} {
		t.Run(attack.name, func(t *testing.T) {
			server, _ := gorkServer(t)
			link, err := lossylink.StartAt(anyPort, server, 20, lossylink.Loss{ToServer: attack.loss, Spared: 100})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { link.Stop() })
			r := start(t, netio.Auto, 1, bedrock(), bedrock(), link.Addr())
			others := []*gork.Conn{dialGork(t, r.addr), dialGork(t, r.addr)}
			attacked := make(chan struct{})
			go func() {
				defer close(attacked)
				attack.run(t, r.addr)
			}()
			longest := converse(t, others, attacked)
			begun := time.Now()
			newcomer := dialGork(t, r.addr)
			longest = max(longest, time.Since(begun), converse(t, append(others, newcomer), attacked))
			t.Logf("longest wait of another player: %v", longest)
			if longest > unnoticed {
				t.Errorf("another player waited for %v, want at most %v", longest, unnoticed)
			}
		})
	}
}

func dialGork(t *testing.T, addr netip.AddrPort) *gork.Conn {
	t.Helper()
	conn, err := gork.DialTimeout(addr.String(), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// converse lets players exchange messages with the server until the attack is over, and 40 times more. It returns the
// longest wait for an answer.
func converse(t *testing.T, players []*gork.Conn, attacked chan struct{}) (longest time.Duration) {
	t.Helper()
	for after := 0; after < 40; {
		for _, p := range players {
			sent := time.Now()
			if _, err := p.Write([]byte{0xfe, byte(after)}); err != nil {
				t.Fatalf("another player: %v", err)
			}
			if _, err := readWithin(p, patience); err != nil {
				t.Fatalf("another player: %v", err)
			}
			longest = max(longest, time.Since(sent))
		}
		select {
		case <-attacked:
			after++
		default:
		}
	}
	return longest
}

const (
	manyParts = 600
	partRoom  = 1400
)

// sendManyParts sends a message of more than 512 parts as a player.
func sendManyParts(t *testing.T, addr netip.AddrPort) {
	conn, err := gork.DialTimeout(addr.String(), patience)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close() }()
	message := make([]byte, manyParts*partRoom)
	message[0] = 0xfe
	if _, err := conn.Write(message); err != nil {
		t.Error(err)
	}
	_, _ = readWithin(conn, patience) // the proxy ends the session, or the server answers
}

// sendTinyMessages sends far more messages than a server keeps behind a lost datagram.
func sendTinyMessages(t *testing.T, addr netip.AddrPort) {
	conn, err := gork.DialTimeout(addr.String(), patience)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close() }()
	const count = 20_000
	for i := range count {
		if _, err := conn.Write([]byte{0xfe, byte(i)}); err != nil {
			t.Error(err)
			return
		}
	}
	// The lost datagram is repaired meanwhile. A slow machine need not wait for all echoes.
	for i, end := 0, time.Now().Add(patience); i < count && time.Now().Before(end); i++ {
		if _, err := readWithin(conn, patience); err != nil {
			t.Errorf("message %d of the hostile player: %v", i, err)
			return
		}
	}
}

// sendLongPassword asks for a connection with a password of more than 512 parts. go-raknet's client cannot send one.
func sendLongPassword(t *testing.T, addr netip.AddrPort) {
	socket, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(addr))
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = socket.Close() }()
	const magic = "\x00\xff\xff\x00\xfe\xfe\xfe\xfe\xfd\xfd\xfd\xfd\x12\x34\x56\x78"
	var room [2048]byte
	ask := func(request []byte) []byte {
		_ = socket.SetReadDeadline(time.Now().Add(patience))
		_, _ = socket.Write(request)
		n, err := socket.Read(room[:])
		if err != nil {
			t.Error(err)
		}
		return room[:n]
	}
	reply := ask(append([]byte("\x05"+magic+"\x0b"), make([]byte, 1446)...))
	if t.Failed() || len(reply) < 30 || reply[0] != 0x06 {
		t.Errorf("reply 1: %x", reply)
		return
	}
	request := append([]byte("\x07"+magic), reply[26:30]...)
	request = append(request, 0, 4, 0x80, 0xff, 0xff, 0xfe, 0x1e, 0x61, 1492>>8, 1492&0xff)
	request = append(request, 1, 2, 3, 4, 5, 6, 7, 8)
	if reply = ask(request); t.Failed() || len(reply) == 0 || reply[0] != 0x08 {
		t.Errorf("reply 2: %x", reply)
		return
	}
	for i := range uint32(manyParts) {
		_, _ = socket.Write(connectPart(i)) // an error appears as a refusal
		if i%16 == 15 {
			_ = socket.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) // gives the proxy time to read
			_, _ = socket.Read(room[:])
		}
	}
}

// connectPart returns one datagram of a connection request of many parts.
func connectPart(i uint32) []byte {
	b := []byte{0x84, byte(i), byte(i >> 8), byte(i >> 16), 2<<5 | 1<<4}
	b = binary.BigEndian.AppendUint16(b, partRoom*8)
	b = append(b, byte(i), byte(i>>8), byte(i>>16))
	b = binary.BigEndian.AppendUint32(b, manyParts)
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint32(b, i)
	payload := make([]byte, partRoom)
	if i == 0 {
		payload[0] = 0x09
	}
	return append(b, payload...)
}
