package decode

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

var (
	clientAddr  = netip.MustParseAddrPort("192.0.2.1:50000")
	serverAddr  = netip.MustParseAddrPort("198.51.100.1:7777")
	clientAddr6 = netip.MustParseAddrPort("[2001:db8::1]:50000")
	serverAddr6 = netip.MustParseAddrPort("[2001:db8::2]:7777")
)

// udpPacket returns an IP packet with a datagram.
func udpPacket(from, to netip.AddrPort, datagram []byte) []byte {
	udp := &layers.UDP{SrcPort: layers.UDPPort(from.Port()), DstPort: layers.UDPPort(to.Port())}
	return ipPacket(from.Addr(), to.Addr(), layers.IPProtocolUDP, udp, datagram)
}

// tcpPacket returns an IP packet with a segment. The function change may set its flags.
func tcpPacket(from, to netip.AddrPort, seq uint32, data []byte, change ...func(*layers.TCP)) []byte {
	tcp := &layers.TCP{SrcPort: layers.TCPPort(from.Port()), DstPort: layers.TCPPort(to.Port()), Seq: seq, ACK: true}
	for _, f := range change {
		f(tcp)
	}
	return ipPacket(from.Addr(), to.Addr(), layers.IPProtocolTCP, tcp, data)
}

func ipPacket(from, to netip.Addr, protocol layers.IPProtocol, transport gopacket.SerializableLayer,
	data []byte) []byte {
	var ip gopacket.SerializableLayer = &layers.IPv4{Version: 4, TTL: 64, Protocol: protocol, SrcIP: from.AsSlice(),
		DstIP: to.AsSlice()}
	if from.Is6() {
		ip = &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: protocol, SrcIP: from.AsSlice(), DstIP: to.AsSlice()}
	}
	return serialize(ip, transport, gopacket.Payload(data))
}

func serialize(parts ...gopacket.SerializableLayer) []byte {
	buffer := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true}, parts...); err != nil {
		panic(err)
	}
	return bytes.Clone(buffer.Bytes())
}

// info describes the packet of an index. Packets are a millisecond apart.
func info(i int, packet []byte) gopacket.CaptureInfo {
	at := time.Unix(1_800_000_000, 0).Add(time.Duration(i) * time.Millisecond)
	return gopacket.CaptureInfo{Timestamp: at, CaptureLength: len(packet), Length: len(packet)}
}

// pcapOf returns a capture of raw IP packets.
func pcapOf(t testing.TB, packets ...[]byte) []byte {
	return pcapOfType(t, layers.LinkTypeRaw, packets...)
}

func pcapOfType(t testing.TB, link layers.LinkType, packets ...[]byte) []byte {
	t.Helper()
	var file bytes.Buffer
	w := pcapgo.NewWriter(&file)
	if err := w.WriteFileHeader(65535, link); err != nil {
		t.Fatal(err)
	}
	for i, packet := range packets {
		if err := w.WritePacket(info(i, packet), packet); err != nil {
			t.Fatal(err)
		}
	}
	return file.Bytes()
}

// TestLinkTypes finds the datagram in packets of each link type.
func TestLinkTypes(t *testing.T) {
	v4, v6 := udpPacket(clientAddr, serverAddr, []byte{3}), udpPacket(clientAddr6, serverAddr6, []byte{3})
	ethernet := func(kind layers.EthernetType, packet []byte) []byte {
		header := layers.Ethernet{SrcMAC: make([]byte, 6), DstMAC: make([]byte, 6), EthernetType: kind}
		return serialize(&header, gopacket.Payload(packet))
	}
	for _, c := range []struct {
		what   string
		link   layers.LinkType
		packet []byte
		from   string
	}{
		{"raw, IPv4", layers.LinkTypeRaw, v4, "192.0.2.1:50000"},
		{"raw, IPv6", layers.LinkTypeRaw, v6, "[2001:db8::1]:50000"},
		{"Ethernet, IPv4", layers.LinkTypeEthernet, ethernet(layers.EthernetTypeIPv4, v4), "192.0.2.1:50000"},
		{"Ethernet, IPv6", layers.LinkTypeEthernet, ethernet(layers.EthernetTypeIPv6, v6), "[2001:db8::1]:50000"},
		{"loopback", layers.LinkTypeNull, append([]byte{2, 0, 0, 0}, v4...), "192.0.2.1:50000"},
		{"OpenBSD's loopback", layers.LinkTypeLoop, append([]byte{0, 0, 0, 2}, v4...), "192.0.2.1:50000"},
		{"Linux cooked", layers.LinkTypeLinuxSLL,
			append([]byte{0, 0, 3, 4, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0}, v4...), "192.0.2.1:50000"},
		{"Linux cooked 2", layers.LinkTypeLinuxSLL2,
			append([]byte{8, 0, 0, 0, 0, 0, 0, 1, 3, 4, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0}, v4...), "192.0.2.1:50000"},
	} {
		datagrams, sum := explainAll(t, pcapOfType(t, c.link, c.packet), Options{})
		if sum.Datagrams != 1 || sum.Unknown != 0 || datagrams[0].From != c.from || datagrams[0].Text != "connect" {
			t.Errorf("%s: %+v, %+v", c.what, datagrams, sum)
		}
	}
}

// TestPcapng reads a file as tcpdump and Wireshark write it today, with two links of different types.
func TestPcapng(t *testing.T) {
	var file bytes.Buffer
	w, err := pcapgo.NewNgWriter(&file, layers.LinkTypeRaw)
	if err != nil {
		t.Fatal(err)
	}
	loopback, err := w.AddInterface(pcapgo.NgInterface{Name: "lo", LinkType: layers.LinkTypeNull, SnapLength: 65535})
	if err != nil {
		t.Fatal(err)
	}
	connect, pending := udpPacket(clientAddr, serverAddr, []byte{2}), udpPacket(serverAddr, clientAddr, []byte{2})
	pending = append([]byte{2, 0, 0, 0}, pending...)
	second := info(1, pending)
	second.InterfaceIndex = loopback
	for _, err := range []error{w.WritePacket(info(0, connect), connect), w.WritePacket(second, pending), w.Flush()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	datagrams, sum := explainAll(t, file.Bytes(), Options{})
	if sum.Datagrams != 2 || sum.Protocols["riptide-2.2"] != 2 || datagrams[1].Text != "pending: the game is deciding" {
		t.Errorf("%+v, %+v", datagrams, sum)
	}
	if datagrams[1].Millis != 1 {
		t.Errorf("the second came after %v ms, want 1", datagrams[1].Millis)
	}
}

// TestPortFilter leaves out other traffic. The port also tells the server's side, even if the server sends first.
func TestPortFilter(t *testing.T) {
	capture := pcapOf(t,
		udpPacket(clientAddr, netip.MustParseAddrPort("192.0.2.53:53"), []byte("what is the address?")),
		udpPacket(serverAddr, clientAddr, []byte{0x24, 0x00}),
		udpPacket(clientAddr, serverAddr, []byte{0x34, 0x20, 0x00, 0x00}),
		udpPacket(clientAddr, serverAddr, []byte{0x05}),
	)
	datagrams, sum := explainAll(t, capture, Options{Port: 7777})
	if sum.Datagrams != 3 || sum.Unknown != 0 || datagrams[0].Text != "heartbeat answer 2" ||
		datagrams[2].Text != "disconnect" {
		t.Errorf("%+v, %+v", datagrams, sum)
	}
	if _, sum := explainAll(t, capture, Options{}); sum.Datagrams != 4 || sum.Unknown != 1 {
		t.Errorf("without the filter: %+v", sum)
	}
	if _, sum := explainAll(t, capture, Options{Port: 7778}); sum.Datagrams != 0 {
		t.Errorf("of another port: %+v", sum)
	}
}

// TestServerSpeaksFirst finds the server's side by the bytes in a capture that began in the middle.
func TestServerSpeaksFirst(t *testing.T) {
	datagrams, sum := explainAll(t, pcapOf(t,
		udpPacket(serverAddr, clientAddr, []byte{0x24, 0x00}),
		udpPacket(clientAddr, serverAddr, []byte{0x34, 0x20, 0x00, 0x00}),
		udpPacket(serverAddr, clientAddr, []byte{0x34, 0x00}),
	), Options{})
	if sum.Unknown != 0 || datagrams[0].Text != "heartbeat answer 2" ||
		datagrams[1].Text != "heartbeat 3, round trip 2 ms" {
		t.Errorf("%+v, %+v", datagrams, sum)
	}
}

func TestIgnoredPackets(t *testing.T) {
	echo := ipPacket(clientAddr.Addr(), serverAddr.Addr(), layers.IPProtocolICMPv4,
		&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(layers.ICMPv4TypeEchoRequest, 0)}, nil)
	fragment := udpPacket(clientAddr, serverAddr, []byte{2})
	fragment[6] |= 0x20 // sets "more fragments"
	packets := pcapOf(t, echo, fragment, []byte{0xff}, udpPacket(clientAddr, serverAddr, []byte{2}))
	_, sum := explainAll(t, packets, Options{})
	if sum.Datagrams != 1 || sum.Ignored != 3 {
		t.Errorf("%+v, want 1 datagram and 3 ignored", sum)
	}
}

// TestTCP reads messages that are cut at random, sent twice and have a gap.
func TestTCP(t *testing.T) {
	syn := func(s *layers.TCP) { s.SYN, s.ACK = true, false }
	fin := func(s *layers.TCP) { s.FIN = true }
	const last = 1<<32 - 1 // sequence numbers wrap within the first message
	datagrams, sum := explainAll(t, pcapOf(t,
		tcpPacket(clientAddr, serverAddr, last-1, nil, syn),
		tcpPacket(clientAddr, serverAddr, last, []byte{1, 0}),
		tcpPacket(serverAddr, clientAddr, 900, nil), // only an acknowledgement
		tcpPacket(clientAddr, serverAddr, last, []byte{1, 0, 3, 1, 0}),
		tcpPacket(clientAddr, serverAddr, last, []byte{1, 0}),
		tcpPacket(clientAddr, serverAddr, 4, []byte{6}, fin),
		tcpPacket(clientAddr, serverAddr, 99, []byte{1, 0, 6}),
	), Options{})
	var texts []string
	for _, d := range datagrams {
		texts = append(texts, strings.Join(append([]string{d.Text}, d.Messages...), " | "))
	}
	want := []string{
		"stream opened or closed",
		"part of a stream, messages completed: 0",
		"part of a stream, messages completed: 1 | connect",
		"part of a stream, messages completed: 1 | disconnect",
		"part of a stream, messages completed: 0, unknown: stream without recognisable messages: malformed datagram",
	}
	if !slices.Equal(texts, want) || sum.Protocols["riptide-2.0"] != 5 || sum.Ignored != 2 || sum.Unknown != 1 {
		t.Errorf("%+v\n%s\nwant\n%s", sum, strings.Join(texts, "\n"), strings.Join(want, "\n"))
	}
}

func TestCutShort(t *testing.T) {
	var file bytes.Buffer
	w := pcapgo.NewWriter(&file)
	packet := udpPacket(clientAddr, serverAddr, []byte{2})
	about := info(0, packet)
	about.Length += 5
	if err := w.WriteFileHeader(65535, layers.LinkTypeRaw); err != nil {
		t.Fatal(err)
	}
	if err := w.WritePacket(about, packet); err != nil {
		t.Fatal(err)
	}
	if datagrams, _ := explainAll(t, file.Bytes(), Options{}); datagrams[0].Note != "truncated in the capture" {
		t.Errorf("%+v", datagrams)
	}
}
