package bench

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
)

// flood is what a flood's datagrams are made of.
type flood struct {
	arena   *arena
	assault *assault
	shots   []shot
	to      [doors]netip.AddrPort
	players []netip.AddrPort // in whose names some of it is
	rate    int              // datagrams a second; 0: as many as one core can send beside its players
}

// gun sends a flood's datagrams.
type gun interface {
	// run sends until it is to stop, and returns how many it were.
	run(stopping *atomic.Bool) (sent uint64, err error)
	close() error
}

// flooder has a gun fire.
type flooder struct {
	gun      gun
	sent     uint64
	stopping atomic.Bool
	done     chan error
}

// startFlood begins a flood. It needs the right to forge addresses.
func startFlood(f *flood) (s *flooder, err error) {
	s = &flooder{done: make(chan error, 1)}
	f.arena.within(func() { s.gun, err = f.arena.forger(f) })
	if err != nil {
		return nil, fmt.Errorf("forge addresses: %w", err)
	}
	go f.arena.within(func() {
		err := yieldThread(0)
		var failed error
		s.sent, failed = s.gun.run(&s.stopping)
		s.done <- errors.Join(err, failed)
	})
	return s, nil
}

// stop ends the flood and tells how much it was.
func (s *flooder) stop() (uint64, error) {
	s.stopping.Store(true)
	err := <-s.done
	return s.sent, errors.Join(err, s.gun.close())
}
