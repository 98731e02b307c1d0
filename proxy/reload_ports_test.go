package proxy

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"tidegate/codec/riptide"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/proxy/relay"
)

// porter is the poller of a loop whose listeners a test counts.
type porter struct {
	*crowd
	opened, closed int // in this turn
}

func (p *porter) Listen(addr netip.AddrPort, _ netio.SocketOptions) (netio.Socket, error) {
	p.opened++
	return &ported{fakeSocket{addr: addr}, p}, nil
}

// ported is a socket of a porter.
type ported struct {
	fakeSocket
	poller *porter
}

func (s *ported) Close() { s.poller.closed++ }

// TestReloadOfManyPortsTakesManyTurns adds and removes more listeners than a turn may open or close. The same settings
// once more open none.
func TestReloadOfManyPortsTakesManyTurns(t *testing.T) {
	const ports = 5*turnListeners + 3
	m := newCrowd(t, 1, riptide.New(riptide.Options{}), policy.ModeTerminate, func(*relay.Settings) {})
	p := &porter{crowd: m}
	l := m.run(p)
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
			m.turn(l)
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
