package flood

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"
)

// plan says which datagrams a flood sends.
type plan struct {
	testbed *testbed
	attack  *attack
	packets []packet
	to      [listeners]netip.AddrPort
	clients []netip.AddrPort // whose addresses a replay uses
	rate    int              // datagrams a second; 0: as many as one core can send beside the clients
}

// sender sends a flood's datagrams.
type sender interface {
	// run sends until stopping is set and the thread gets a signal. It returns the number of datagrams sent.
	run(stopping *atomic.Bool) (sent uint64, err error)
	close() error
}

// flood runs a sender on a thread of its own.
type flood struct {
	testbed  *testbed
	thread   atomic.Int64 // of the sender
	sender   sender
	sent     uint64
	stopping atomic.Bool
	done     chan error
}

// newFlood prepares a flood. It needs the right to forge source addresses.
func newFlood(p *plan) (f *flood, err error) {
	f = &flood{testbed: p.testbed, done: make(chan error, 1)}
	p.testbed.inNamespace(func() { f.sender, err = p.testbed.newSender(p) })
	if err != nil {
		return nil, fmt.Errorf("forge addresses: %w", err)
	}
	return f, nil
}

// start begins the flood.
func (f *flood) start() {
	go f.testbed.inNamespace(func() {
		thread, err := setIdleThread(0)
		f.thread.Store(int64(thread))
		var failed error
		f.sent, failed = f.sender.run(&f.stopping)
		f.done <- errors.Join(err, failed)
	})
}

// close releases the sender.
func (f *flood) close() { _ = f.sender.close() } // nothing can be lost any more

// stop ends the flood and returns the number of datagrams sent.
func (f *flood) stop() (uint64, error) {
	f.stopping.Store(true)
	for {
		select {
		case err := <-f.done:
			return f.sent, err
		case <-time.After(time.Millisecond):
			interruptThread(int(f.thread.Load()))
		}
	}
}
