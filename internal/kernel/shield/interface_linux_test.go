package shield

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"

	"tidegate/internal/testkit/netlab"
)

// frame builds an Ethernet frame with a UDP datagram, padded as a network card does.
func frame(from, to string, payload []byte) []byte {
	source, target := netip.MustParseAddrPort(from), netip.MustParseAddrPort(to)
	f := make([]byte, 12)
	length := uint16(udpHeader + len(payload))
	if source.Addr().Is4() {
		f = binary.BigEndian.AppendUint16(f, etherIPv4)
		f = append(f, 0x45, 0)
		f = binary.BigEndian.AppendUint16(f, 20+length)
		f = append(f, 0, 0, 0, 0, 64, protocolUDP, 0, 0)
	} else {
		f = binary.BigEndian.AppendUint16(f, etherIPv6)
		f = append(f, 0x60, 0, 0, 0)
		f = binary.BigEndian.AppendUint16(f, length)
		f = append(f, protocolUDP, 64)
	}
	f = append(f, source.Addr().AsSlice()...)
	f = append(f, target.Addr().AsSlice()...)
	f = binary.BigEndian.AppendUint16(f, source.Port())
	f = binary.BigEndian.AppendUint16(f, target.Port())
	f = binary.BigEndian.AppendUint16(f, length)
	f = append(append(f, 0, 0), payload...)
	return append(f, make([]byte, max(0, 60-len(f)))...)
}

// with returns a copy of a frame that differs in one place.
func with(f []byte, at int, bytes ...byte) []byte {
	f = slices.Clone(f)
	copy(f[at:], bytes)
	return f
}

// TestInterfaceProgram runs the program on frames without an interface.
func TestInterfaceProgram(t *testing.T) {
	const (
		client4, banned4, listener4 = "192.0.2.1:5000", "198.51.100.7:5000", "203.0.113.1:7777"
		client6, banned6, listener6 = "[2001:db8::1]:5000", "[2001:db8:66::9]:5000", "[2001:db8:1::1]:7777"
	)
	letter, other := []byte("letter"), []byte("Other")
	good4, good6 := frame(client4, listener4, letter), frame(client6, listener6, letter)
	bad4, bad6 := frame(client4, listener4, other), frame(client6, listener6, other)
	vlan := append(with(bad4[:12:12], 0), 0x81, 0, 0, 7)
	for _, test := range []struct {
		what    string
		frame   []byte
		verdict int
		counted Reason
	}{
		{"IPv4", good4, xdpPass, Passed},
		{"IPv6", good6, xdpPass, Passed},
		{"banned IPv4", frame(banned4, listener4, letter), xdpDrop, Banned},
		{"banned IPv6", frame(banned6, listener6, letter), xdpDrop, Banned},
		{"first byte, IPv4", bad4, xdpDrop, FirstByte},
		{"first byte, IPv6", bad6, xdpDrop, FirstByte},
		{"empty, and padded", frame(client4, listener4, nil), xdpDrop, FirstByte},
		{"empty, IPv6", frame(client6, listener6, nil), xdpDrop, FirstByte},
		{"other port", frame(banned4, "203.0.113.1:7778", other), xdpPass, reasons},
		{"other address", frame(banned4, "203.0.113.2:7777", other), xdpPass, reasons},
		{"other IPv6 address", frame(banned6, "[2001:db8:1::2]:7777", other), xdpPass, reasons},
		{"TCP", with(bad4, ipv4+9, 6), xdpPass, reasons},
		{"IPv6 with more headers", with(bad6, ipv6+6, 0), xdpPass, reasons},
		{"first fragment", with(bad4, ipv4+6, 0x20, 0), xdpPass, reasons},
		{"last fragment", with(bad4, ipv4+6, 0, 9), xdpPass, reasons},
		{"not to be fragmented", with(bad4, ipv4+6, 0x40, 0), xdpDrop, FirstByte},
		{"options", with(bad4, ipv4, 0x46), xdpPass, reasons},
		{"VLAN", append(vlan, bad4[12:]...), xdpPass, reasons},
		{"ARP", with(bad4, typeAt, 0x08, 0x06), xdpPass, reasons},
		{"cut in the IP header", bad4[:33], xdpPass, reasons},
		{"cut in the UDP header", bad6[:61], xdpPass, reasons},
	} {
		t.Run(test.what, func(t *testing.T) {
			s := newShield(t, Options{})
			ban(t, s, "198.51.100.0/24", "2001:db8:66::/48")
			var letters FirstBytes
			letters.Add('a', 'z')
			g := &guarded{meter: s.sockets}
			program, err := s.interfaceProgram(g, []Listener{
				{Addr: netip.MustParseAddrPort(listener4), First: letters},
				{Addr: netip.MustParseAddrPort(listener6), First: letters},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer program.Close()
			verdict, _, err := program.Test(test.frame)
			if err != nil || int(verdict) != test.verdict {
				t.Fatalf("verdict %d, %v, want %d", verdict, err, test.verdict)
			}
			var want Tally
			if test.counted < reasons {
				want[test.counted] = 1
			}
			if got := tally(t, s).Sockets; got != want {
				t.Errorf("counters are %v, want %v", got, want)
			}
		})
	}
}

// TestInterface guards one end of a cable, in both modes, and changes the listeners while it does.
func TestInterface(t *testing.T) {
	for _, mode := range []Mode{Native, Generic} {
		t.Run(mode.String(), func(t *testing.T) {
			client, server := netlab.New(t, "client"), netlab.New(t, "server")
			netlab.Cable(client, "eth0", server, "eth0")
			client.Address("eth0", "10.7.0.1/24")
			server.Address("eth0", "10.7.0.2/24")
			if mode == Generic {
				server.SetMTU("eth0", 9000) // too large for veth's own XDP
				client.SetMTU("eth0", 9000)
			}
			var conn *net.UDPConn
			server.Do(func() { conn = listenOrNil("10.7.0.2:7777") })
			var sender net.Conn
			client.Do(func() { sender, _ = net.Dial("udp", "10.7.0.2:7777") })
			if conn == nil || sender == nil {
				t.Fatal("no sockets")
			}
			defer conn.Close()
			defer sender.Close()

			s := newShield(t, Options{})
			var letters, digits FirstBytes
			letters.Add('a', 'z')
			digits.Add('0', '9')
			send := func(want ...string) {
				t.Helper()
				for _, payload := range []string{"letter", "1 digit"} {
					if _, err := sender.Write([]byte(payload)); err != nil {
						t.Fatal(err)
					}
				}
				if got := received(t, conn, len(want)); !slices.Equal(got, want) {
					t.Errorf("received %q, want %q", got, want)
				}
			}
			guard := func(possible FirstBytes) {
				t.Helper()
				listeners := []Listener{{Addr: netip.MustParseAddrPort("10.7.0.2:7777"), First: possible}}
				var got Mode
				var err error
				server.Do(func() { got, err = s.GuardInterface("eth0", listeners) })
				if err != nil || got != mode {
					t.Fatalf("GuardInterface: %v, %v, want %v", got, err, mode)
				}
			}
			send("letter", "1 digit")
			guard(letters)
			send("letter")
			guard(digits)
			send("1 digit")
			ban(t, s, "10.7.0.0/24")
			send()
			if got, want := tally(t, s).Interfaces, (Tally{Passed: 2, FirstByte: 2, Banned: 2}); got != want {
				t.Errorf("counters are %v, want %v", got, want)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			send("letter", "1 digit")
		})
	}
}

func listenOrNil(addr string) *net.UDPConn {
	conn, _ := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(addr)))
	return conn
}

// TestNoSuchInterface checks that the error names the missing interface.
func TestNoSuchInterface(t *testing.T) {
	s := newShield(t, Options{})
	_, err := s.GuardInterface("nonesuch9", nil)
	if want := "XDP on nonesuch9: route ip+net: no such network interface"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
