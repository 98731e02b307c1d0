package bench

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"
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
	// run sends until it is to stop, and returns how many it were. To stop, its thread is disturbed in what it waits for.
	run(stopping *atomic.Bool) (sent uint64, err error)
	close() error
}

// flooder has a gun fire.
type flooder struct {
	arena    *arena
	thread   atomic.Int64 // that runs the gun
	gun      gun
	sent     uint64
	stopping atomic.Bool
	done     chan error
}

// aim makes a flood ready. It needs the right to forge addresses.
func aim(f *flood) (s *flooder, err error) {
	s = &flooder{arena: f.arena, done: make(chan error, 1)}
	f.arena.within(func() { s.gun, err = f.arena.forger(f) })
	if err != nil {
		return nil, fmt.Errorf("forge addresses: %w", err)
	}
	return s, nil
}

// start begins the flood.
func (s *flooder) start() {
	go s.arena.within(func() {
		thread, err := yieldThread(0)
		s.thread.Store(int64(thread))
		var failed error
		s.sent, failed = s.gun.run(&s.stopping)
		s.done <- errors.Join(err, failed)
	})
}

// close gives up what it took to be ready.
func (s *flooder) close() { _ = s.gun.close() } // there is nothing left to be lost

// stop ends the flood and tells how much it was.
func (s *flooder) stop() (uint64, error) {
	s.stopping.Store(true)
	for {
		select {
		case err := <-s.done:
			return s.sent, err
		case <-time.After(time.Millisecond):
			disturb(int(s.thread.Load()))
		}
	}
}
