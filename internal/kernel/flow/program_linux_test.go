package flow

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
)

var be = binary.BigEndian

// frame builds an Ethernet frame with a UDP datagram and valid sums.
func frame(from, to netip.AddrPort, payload []byte) []byte {
	f := make([]byte, 12)
	length := uint16(udpLen + len(payload))
	if from.Addr().Is4() {
		f = be.AppendUint16(f, etherIPv4)
		f = append(f, 0x45, 0)
		f = be.AppendUint16(f, ipv4Len+length)
		f = append(f, 0x12, 0x34, 0, 0, 64, protocolUDP, 0, 0)
	} else {
		f = be.AppendUint16(f, etherIPv6)
		f = append(f, 0x60, 0, 0, 0)
		f = be.AppendUint16(f, length)
		f = append(f, protocolUDP, 64)
	}
	f = append(append(f, from.Addr().AsSlice()...), to.Addr().AsSlice()...)
	f = be.AppendUint16(be.AppendUint16(f, from.Port()), to.Port())
	f = append(be.AppendUint16(f, length), 0, 0)
	return seal(append(f, payload...))
}

// seal writes both sums of a frame.
func seal(f []byte) []byte {
	udp := udpIPv6
	if be.Uint16(f[12:]) == etherIPv4 {
		udp = udpIPv4
		be.PutUint16(f[ipSumAt:], 0)
		be.PutUint16(f[ipSumAt:], ^sum(f[network:udpIPv4], 0))
	}
	be.PutUint16(f[udp+udpSumAt:], 0)
	s := ^udpSum(f, udp)
	if s == 0 {
		s = 0xffff
	}
	be.PutUint16(f[udp+udpSumAt:], s)
	return f
}

func udpSum(f []byte, udp int) uint16 {
	addresses := 8
	if udp == udpIPv6 {
		addresses = 32
	}
	pseudo := uint32(protocolUDP) + uint32(be.Uint16(f[udp+4:]))
	return sum(f[udp-addresses:], pseudo)
}

// sum is the one's complement sum of RFC 1071.
func sum(b []byte, start uint32) uint16 {
	total := start
	for i := 0; i+1 < len(b); i += 2 {
		total += uint32(be.Uint16(b[i:]))
	}
	if len(b)%2 == 1 {
		total += uint32(b[len(b)-1]) << 8
	}
	for total > 0xffff {
		total = total>>16 + total&0xffff
	}
	return uint16(total)
}

// with returns a copy of a frame that differs in one place.
func with(f []byte, at int, bytes ...byte) []byte {
	f = slices.Clone(f)
	copy(f[at:], bytes)
	return f
}

// TestRewrite compares a rewritten frame with one that was built anew, sums included. The frame arrives by the loopback
// and stays there, so that nothing has to be sent.
func TestRewrite(t *testing.T) {
	to := netip.MustParseAddrPort
	for _, a := range []Flow{
		{to("192.0.2.1:5000"), to("203.0.113.1:7777"), to("198.51.100.1:40000"), to("10.0.0.9:19132")},
		{to("255.255.255.254:65535"), to("0.0.0.1:1"), to("1.0.0.0:256"), to("254.255.255.255:65534")},
		{to("[2001:db8::1]:5000"), to("[2001:db8:1::1]:7777"), to("[fd00::1]:40000"), to("[fd00::9]:19132")},
		{to("[ffff:ffff::ffff]:65535"), to("[::1:0]:1"), to("[1::]:256"), to("[fffe:ffff:ffff::ffff]:65534")},
	} {
		table := newTable(t, a)
		for size := 1; size < 70; size++ {
			payload := make([]byte, size)
			for i := range payload {
				payload[i] = byte(i * size * 77)
			}
			got := run(t, table, frame(a.Client, a.Listener, payload), next)
			want := frame(a.Source, a.Server, payload)
			want[map[bool]int{true: ttlIPv4, false: hopsIPv6}[a.Client.Addr().Is4()]]--
			if want = seal(want); !slices.Equal(got, want) {
				t.Fatalf("%v, %d bytes: got\n%x, want\n%x", a, size, got, want)
			}
		}
		usage, ok := table.Usage(a)
		if !ok || usage.FromClient.Packets != 69 || usage.FromClient.Bytes != 69*70/2 {
			t.Errorf("usage is %+v, %t", usage, ok)
		}
	}
}

// TestNoSum checks that a datagram without a sum, as IPv4 allows, stays without.
func TestNoSum(t *testing.T) {
	to := netip.MustParseAddrPort
	a := Flow{to("192.0.2.1:5000"), to("203.0.113.1:7777"), to("198.51.100.1:40000"), to("10.0.0.9:19132")}
	table := newTable(t, a)
	got := run(t, table, with(frame(a.Client, a.Listener, []byte("x")), udpIPv4+udpSumAt, 0, 0), next)
	want := with(frame(a.Source, a.Server, []byte("x")), ttlIPv4, 63)
	want = with(seal(want), udpIPv4+udpSumAt, 0, 0)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%x, want\n%x", got, want)
	}
}

// TestUntouched runs the program on frames for the sockets that are addressed from the client to the listener.
func TestUntouched(t *testing.T) {
	to := netip.MustParseAddrPort
	v4 := Flow{to("192.0.2.1:5000"), to("203.0.113.1:7777"), to("198.51.100.1:40000"), to("10.0.0.9:19132")}
	v6 := Flow{to("[2001:db8::1]:5000"), to("[2001:db8:1::1]:7777"), to("[fd00::1]:40000"), to("[fd00::9]:19132")}
	table := newTable(t, v4, v6)
	f4, f6 := frame(v4.Client, v4.Listener, []byte("hello")), frame(v6.Client, v6.Listener, []byte("hello"))
	for _, test := range []struct {
		what  string
		frame []byte
	}{
		{"first fragment", with(f4, network+6, 0x20, 0)},
		{"last fragment", with(f4, network+6, 0, 9)},
		{"options", with(f4, network, 0x46)},
		{"TCP", with(f4, network+9, 6)},
		{"no hop left", with(f4, ttlIPv4, 1)},
		{"UDP length differs from IP's", with(f4, udpIPv4+4, 0, 12)},
		{"empty", frame(v4.Client, v4.Listener, nil)},
		{"other port", frame(v4.Client, to("203.0.113.1:7778"), []byte("hello"))},
		{"the way back of the other side", frame(v4.Listener, v4.Client, []byte("hello"))},
		{"for another host", with(f4, 0, 2, 0, 0, 0, 0, 1)},
		{"ARP", with(f4, 12, 0x08, 0x06)},
		{"cut", f4[:udpIPv4+4]},
		{"IPv6, another header between", with(f6, network+6, 44)},
		{"IPv6, no hop left", with(f6, hopsIPv6, 1)},
		{"IPv6, UDP length differs from IP's", with(f6, udpIPv6+4, 0, 12)},
		{"IPv6, empty", frame(v6.Client, v6.Listener, nil)},
		{"IPv6, cut", f6[:udpIPv6+4]},
	} {
		if got := run(t, table, test.frame, next); !slices.Equal(got, test.frame) {
			t.Errorf("%s: got\n%x, want\n%x", test.what, got, test.frame)
		}
	}
	for _, f := range []Flow{v4, v6} {
		if usage, ok := table.Usage(f); !ok || usage.Traffic != (Traffic{}) {
			t.Errorf("usage is %+v, %t, want none", usage, ok)
		}
	}
}

// loopback is the interface on which the kernel runs tests of programs, in every namespace.
const loopback = 1

// newTable creates a table with the client entries of flows, without asking for routes.
func newTable(t testing.TB, flows ...Flow) *Table {
	t.Helper()
	table, err := New(Options{Flows: len(flows)})
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { table.Close() })
	for _, f := range flows {
		table.addLocal(t, f, 0)
	}
	return table
}

// addLocal makes the table forward a flow that arrives by the loopback and stays there.
func (t *Table) addLocal(tb testing.TB, f Flow, records uint64) {
	tb.Helper()
	forth := newEntry(f.Client, f.Listener, f.Source, f.Server)
	back := newEntry(f.Server, f.Source, f.Listener, f.Client)
	forth.Records, back.Records = records, records
	forth.leave(hop{loopback, true})
	back.leave(hop{loopback, true})
	if err := t.put(newKey(f.Client, f.Listener), &forth); err != nil {
		tb.Fatal(err)
	}
	if err := t.put(newKey(f.Server, f.Source), &back); err != nil {
		tb.Fatal(err)
	}
}

func run(t testing.TB, table *Table, frame []byte, want int32) []byte {
	t.Helper()
	verdict, after, err := table.program.Test(frame)
	if err != nil || int32(verdict) != want {
		t.Fatalf("verdict %d, %v, want %d", int32(verdict), err, want)
	}
	return after
}
