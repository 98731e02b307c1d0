package proxy

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/internal/netio"
)

// porter is the poller of a loop whose listeners a test counts.
type porter struct {
	turner
	opened, closed int // in this turn
}

func (p *porter) Listen(addr netip.AddrPort, _ netio.SocketOptions) (netio.Socket, error) {
	p.opened++
	return &ported{simSocket{addr: addr}, p}, nil
}

// ported is a socket of a porter.
type ported struct {
	simSocket
	poller *porter
}

func (s *ported) Close() { s.poller.closed++ }

// TestReloadOfManyPortsTakesManyTurns adds and removes more listeners than a turn may open or close. The same settings
// once more open none.
func TestReloadOfManyPortsTakesManyTurns(t *testing.T) {
	const ports = 5*turnListeners + 3
	m := newMass(t, 1, riptide22(), ModeTerminate, func(*Settings) {})
	p := &porter{turner: turner{mass: m}}
	l := newLoop(m.relay, p, nil)
	l.clock = newClock(func() time.Time { return m.now })
	l.clock.start()
	m.server.loops, m.relay.retired.deserted = []*loop{l}, func() {} // as if the Server swept later
	m.server.keep(m.settings, nil)
	m.server.options.Loops = 1
	few, many := *m.settings, *m.settings
	many.Listeners = slices.Clone(few.Listeners)
	for i := range ports {
		more := few.Listeners[0]
		more.Name, more.Addr = fmt.Sprint("port", i), netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), uint16(1000+i))
		many.Listeners = append(many.Listeners, more)
	}
	again := many
	for _, step := range []struct {
		name           string
		do             func() error
		opened, closed int
	}{
		{"more", func() error { return m.server.Reload(&many) }, ports, 0},
		{"the same", func() error { return m.server.Reload(&again) }, 0, 0},
		{"fewer", func() error { return m.server.Reload(&few) }, 0, 0},
		{"their sockets", func() error { m.server.closeDeserted(); return nil }, 0, ports},
	} {
		done := make(chan error, 1)
		go func() { done <- step.do() }()
		opened, closed, ended := 0, 0, false
		for !ended {
			select {
			case err := <-done:
				if ended = true; err != nil {
					t.Fatal(step.name, err)
				}
			default:
			}
			p.opened, p.closed = 0, 0
			if err := l.turn(); err != nil {
				t.Fatal(err)
			}
			if p.opened > turnListeners || p.closed > turnListeners {
				t.Errorf("%s: a turn opens %d listeners and closes %d", step.name, p.opened, p.closed)
			}
			opened, closed = opened+p.opened, closed+p.closed
		}
		if opened != step.opened || closed != step.closed {
			t.Errorf("%s: %d opened, %d closed, want %d and %d", step.name, opened, closed, step.opened, step.closed)
		}
	}
}

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
	m := newMass(b, 1, riptide22(), ModeTerminate, func(*Settings) {})
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
