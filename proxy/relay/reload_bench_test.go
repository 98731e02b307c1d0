package relay

import (
	"fmt"
	"net/netip"
	"testing"

	"tidegate/internal/netio"
	"tidegate/internal/policy"
)

// BenchmarkReload replaces the settings of a Relay with 3,000 listeners, and BenchmarkFigures copies its totals. Both
// are one turn of the loop.
func BenchmarkReload(b *testing.B) {
	m, many := manyPorts(b)
	for b.Loop() {
		again := *many
		m.relay.Reload(m.now, &again, make([]netio.Socket, len(many.Listeners)))
	}
}

func BenchmarkFigures(b *testing.B) {
	m, _ := manyPorts(b)
	for b.Loop() {
		if f := m.relay.Figures(); len(f.Drops) < 3000 {
			b.Fatal(len(f.Drops))
		}
	}
}

// BenchmarkSaveOfManyPorts saves the counters of unused listeners, while players wait for a successor.
func BenchmarkSaveOfManyPorts(b *testing.B) {
	m, _ := manyPorts(b)
	for b.Loop() {
		if n := len(m.relay.samples.tallies.Save()); n > 10 {
			b.Fatal(n)
		}
	}
}

// manyPorts has 3,000 listeners.
func manyPorts(b *testing.B) (*mass, *Settings) {
	m := newMass(b, 1, riptide22(), policy.ModeTerminate, func(*Settings) {})
	many := *m.settings
	many.Answers.Overall, many.Answers.Network = 1000, 10
	sockets := make([]netio.Socket, 1, 3001)
	for i := range 3000 {
		more := many.Listeners[0]
		more.Name, more.Addr = fmt.Sprint("port", i), netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), uint16(1000+i))
		many.Listeners = append(many.Listeners, more)
		sockets = append(sockets, &simSocket{addr: more.Addr})
	}
	m.relay.Reload(m.now, &many, sockets)
	return m, &many
}
