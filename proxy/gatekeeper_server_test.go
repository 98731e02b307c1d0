package proxy_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/codec"
	"tidegate/codec/raknet"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/proxy/relay"
)

// TestStrangersOfARelayHarmNoPlayer relays players to a go-raknet server with its defaults. It blocks the address of a
// client that opens a connection wrongly, and all players have the proxy's. Such datagrams of strangers go no further.
func TestStrangersOfARelayHarmNoPlayer(t *testing.T) {
	server, _ := gorkServer(t)
	servers := raknet.New(raknet.Options{Name: "bedrock", DialVersion: 11, SizedPong: true, Blocks: true, OnlyVersion: 11})
	r := startWith(t, netio.Auto, 1, bedrock(), servers, server, func(s *relay.Settings) {
		s.Listeners[0].Route.Mode = policy.ModeRelay
	})
	others := []*gork.Conn{dialGork(t, r.addr)}
	const magic = "\x00\xff\xff\x00\xfe\xfe\xfe\xfe\xfd\xfd\xfd\xfd\x12\x34\x56\x78"
	request2 := "\x07" + magic + "\x01\x02\x03\x04\x00\x04\x80\xff\xff\xfe\x1e\x61\x05\xd4\x81\x02\x03\x04\x05\x06\x07\x08"
	request1 := "\x05" + magic + "\x0b" + string(make([]byte, 500))
	attacked := make(chan struct{})
	go func() {
		defer close(attacked)
		for _, story := range [][]string{
			{"\x05" + magic + "\x06" + string(make([]byte, 500))}, // another version
			{request2},           // without a first request
			{request1, request2}, // with a cookie that the server never gave
			{"\x01\x00\x00\x00\x00\x00\x00\x00\x01" + magic}, // a ping without GUID
			{request1, "\x84\x00\x00\x00\x00"},               // a datagram of a connection, too soon
			{request1, "\x40"},                               // an acknowledgement of nothing
			{"\x0d\x00\x00\x00\x00\x00\x00\x00\x01" + magic + "abcdefgh"},
		} {
			stranger, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(r.addr))
			if err != nil {
				t.Error(err)
				return
			}
			for _, datagram := range story {
				_, _ = stranger.Write([]byte(datagram))
				_ = stranger.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
				_, _ = stranger.Read(make([]byte, 1500)) // the server's answer, if there is one
			}
			_ = stranger.Close()
		}
	}()
	longest := converse(t, others, attacked)
	begun := time.Now()
	longest = max(longest, time.Since(begun), converse(t, append(others, dialGork(t, r.addr)), attacked))
	t.Logf("longest wait of a player: %v", longest)
	if longest > unnoticed {
		t.Errorf("a player waited for %v, want at most %v", longest, unnoticed)
	}
}

// TestGate: a server that blocks addresses gets only what opens a connection, until it has let the client in.
func TestGate(t *testing.T) {
	at := netip.MustParseAddrPort("192.0.2.1:19132")
	keeper := raknet.New(raknet.Options{DialVersion: 11, Blocks: true})
	client := raknet.New(raknet.Options{DialVersion: 11, MaxMTU: 1400})
	now := time.Unix(1_700_000_000, 0)
	conn, server := client.Dial(now, at, codec.Hello{Identity: 7}), codec.Conn(nil)
	var gate codec.Gate
	for gate != codec.GateOpen {
		d, ok := conn.Transmit(now, nil)
		if !ok {
			break
		}
		if err := keeper.PassUp(now, &gate, at, d); err != nil {
			t.Fatalf("%x: %v", d, err)
		}
		made, reply, err := keeper.Accept(now, at, d, nil)
		if err != nil {
			t.Fatal(err)
		}
		if server = made; made != nil {
			reply, _ = made.Transmit(now, nil)
		}
		keeper.PassDown(now, &gate, at, reply)
		_ = conn.Receive(now, reply)
	}
	if server == nil || gate != codec.GateOpen {
		t.Fatalf("gate %x after the handshake, want it open", uint64(gate))
	}
	refusal := "\x19\x08\x00\xff\xff\x00\xfe\xfe\xfe\xfe\xfd\xfd\xfd\xfd\x12\x34\x56\x78abcdefgh"
	first, _ := client.Dial(now, at, codec.Hello{}).Transmit(now, nil)
	for server, granted := range map[netip.AddrPort]bool{at: true, netip.MustParseAddrPort("192.0.2.2:19132"): false} {
		gate = 0
		keeper.PassDown(now, &gate, server, []byte(refusal))
		if err := keeper.PassUp(now, &gate, server, first); (err == nil) != granted {
			t.Errorf("version 11 to a server that names version 8, and has granted 11: %v: %v", granted, err)
		}
	}
	stock := raknet.New(raknet.Options{})
	if err := stock.PassUp(now, &gate, at, []byte{0x84}); err != nil || gate != codec.GateOpen {
		t.Errorf("a server that blocks no address: %v, gate %x", err, uint64(gate))
	}
}
