package bench

import (
	"net/netip"
	"runtime"
)

// arena is the network between those who play and flood, and the subjects.
type arena struct {
	name   string                    // for the result
	server netip.Addr                // where subjects listen
	device string                    // interface that everything comes by, on which a subject may have filters of its own; "" is none
	worker int                       // process of the kernel that receives from it; 0 is none: the sender's core receives
	line   func() uint64             // packets so far that found no room on the way here
	within func(func())              // runs something where players are, on a thread that ends with it
	forger func(*flood) (gun, error) // to be called within
	close  func()

	players [2]byte // the first bytes of the addresses of players, a network of 24 bits each
	sources [2]byte // and of those who flood
}

// openLoopback is the arena that there is everywhere. The flood pays for what receiving it costs.
func openLoopback() *arena {
	return &arena{
		name: "loopback", server: home, within: onThread, forger: newRawGun, close: func() {},
		line:    func() uint64 { return 0 },
		players: [2]byte{127, 100}, sources: [2]byte{127, 200},
	}
}

// player is the address of a player. No two share what a subject allows a network.
func (a *arena) player(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{a.players[0], a.players[1], byte(i), 1})
}

// source is one of 32,768 addresses of those who flood, in 128 networks of 24 bits, which are banned or not.
func (a *arena) source(i uint32, banned bool) [4]byte {
	network := byte(i>>8) &^ 128
	if banned {
		network |= 128
	}
	return [4]byte{a.sources[0], a.sources[1], network, byte(i)}
}

// banned is the network of the sources that subjects are told to keep out.
func (a *arena) banned() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{a.sources[0], a.sources[1], 128, 0}), 17)
}

// onThread runs f on a thread that ends with it.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlock
		f()
	}()
	<-done
}
