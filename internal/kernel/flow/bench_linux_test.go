package flow

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"
)

// hops is the number of times that a packet can be forwarded before its time to live ends.
const hops = 60

// BenchmarkForward measures the program by the kernel's own clock, for a packet that arrives by the loopback and stays
// there: sending is not included. A packet without a flow shows the cost for other users of the interface. The kernel
// runs the program on one packet again and again, so the flows lead back to themselves.
func BenchmarkForward(b *testing.B) {
	to := netip.MustParseAddrPort
	client4, listener4 := to("192.0.2.1:5000"), to("203.0.113.1:7777")
	client6, listener6 := to("[2001:db8::1]:5000"), to("[2001:db8:1::1]:7777")
	flows := append(strangers(10_000),
		Flow{client4, listener4, client4, listener4}, Flow{client6, listener6, client6, listener6})
	records4 := to("192.0.2.2:5000")
	records := Flow{records4, listener4, records4, listener4}
	table := newTable(b, append(flows, records)...)
	payload := make([]byte, 200)
	payload[0] = 23
	table.addLocal(b, records, 1)
	tcp := frame(client4, listener4, payload)
	tcp[network+9] = 6
	for _, test := range []struct {
		what  string
		frame []byte
	}{
		{"IPv4", frame(client4, listener4, payload)},
		{"IPv6", frame(client6, listener6, payload)},
		{"DTLS", frame(records4, listener4, payload)},
		{"no flow", frame(client4, to("203.0.113.1:7778"), payload)},
		{"TCP", tcp},
	} {
		b.Run(test.what, func(b *testing.B) {
			var total time.Duration
			rounds := 0
			for b.Loop() {
				_, perRun, err := table.program.Benchmark(test.frame, hops, nil)
				if err != nil {
					b.Fatal(err)
				}
				total += perRun
				rounds++
			}
			b.ReportMetric(float64(total.Nanoseconds())/float64(rounds), "ns/packet")
		})
	}
}

// strangers returns n other flows for the map.
func strangers(n int) (flows []Flow) {
	for i := range n {
		var ip [4]byte
		binary.BigEndian.PutUint32(ip[:], 10<<24|uint32(i))
		addr := netip.AddrPortFrom(netip.AddrFrom4(ip), 5000)
		listener, server := netip.MustParseAddrPort("203.0.113.1:7777"), netip.MustParseAddrPort("10.0.0.9:1")
		flows = append(flows, Flow{addr, listener, addr, server})
	}
	return flows
}

// BenchmarkAdd measures the cost in user space of a session's start and end, with its memory.
func BenchmarkAdd(b *testing.B) {
	table := newTable(b, Flow{})
	f := Flow{netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2"),
		netip.MustParseAddrPort("127.0.0.1:3"), netip.MustParseAddrPort("127.0.0.1:4")}
	table.Delete(Flow{})
	b.ReportAllocs()
	for b.Loop() {
		if err := table.Add(f, Rate{}); err != nil {
			b.Fatal(err)
		}
		if _, ok := table.Usage(f); !ok {
			b.Fatal("the flow is not there")
		}
		table.Delete(f)
	}
}
