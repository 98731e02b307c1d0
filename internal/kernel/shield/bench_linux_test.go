package shield

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
)

// BenchmarkInterface measures the XDP program by the kernel's own clock, without the driver and without making a
// buffer.
func BenchmarkInterface(b *testing.B) {
	good := frame("192.0.2.1:5000", "203.0.113.1:7777", []byte("letter"))
	for _, test := range []struct {
		what  string
		rate  int
		bans  int
		frame []byte
	}{
		{"other port", 1e6, 0, frame("192.0.2.1:5000", "203.0.113.1:7778", []byte("letter"))},
		{"first byte", 1e6, 0, frame("192.0.2.1:5000", "203.0.113.1:7777", []byte("Other"))},
		{"passed without rate", 0, 0, good},
		{"passed", 1e9, 0, good},
		{"over the rate", 1, 0, good},
		{"passed by 10000 bans", 1e9, 10_000, good},
		{"banned by one of 10000", 1e9, 10_000, frame("10.0.19.136:5000", "203.0.113.1:7777", []byte("letter"))},
	} {
		b.Run(test.what, func(b *testing.B) {
			s := newShield(b, Options{PacketRate: test.rate, Burst: 1, Bans: 10_000})
			var prefixes []netip.Prefix
			for i := range test.bans {
				var ip [4]byte
				binary.BigEndian.PutUint32(ip[:], 10<<24|uint32(i))
				prefixes = append(prefixes, netip.PrefixFrom(netip.AddrFrom4(ip), 32))
			}
			if _, err := s.SetBans(prefixes); err != nil {
				b.Fatal(err)
			}
			var letters FirstBytes
			letters.Add('a', 'z')
			program, err := s.interfaceProgram(&guarded{meter: s.sockets}, []Listener{
				{Addr: netip.MustParseAddrPort("203.0.113.1:7777"), First: letters},
			})
			if err != nil {
				b.Fatal(err)
			}
			defer program.Close()
			measure(b, program, test.frame)
		})
	}
}

// BenchmarkSocket measures the socket filter. The test packet starts with the IP header, so the filter takes the time
// to live, 64, for the payload's first byte.
func BenchmarkSocket(b *testing.B) {
	for _, test := range []struct {
		what     string
		rate     int
		possible byte
	}{{"first byte", 1e9, 65}, {"passed without rate", 0, 64}, {"passed", 1e9, 64}, {"over the rate", 1, 64}} {
		b.Run(test.what, func(b *testing.B) {
			s := newShield(b, Options{PacketRate: test.rate, Burst: 1})
			var possible FirstBytes
			possible.Add(test.possible, test.possible)
			program, err := s.socketProgram(possible, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer program.Close()
			measure(b, program, frame("192.0.2.1:5000", "203.0.113.1:7777", []byte("letter")))
		})
	}
}

func measure(b *testing.B, program *ebpf.Program, frame []byte) {
	b.Helper()
	_, perRun, err := program.Benchmark(frame, b.N, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(perRun.Nanoseconds()), "ns/op")
}
