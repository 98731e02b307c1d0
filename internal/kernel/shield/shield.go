// Package shield drops hostile datagrams in the kernel, before they cost a wake-up: those of banned networks, those that
// begin as none of a listener's protocols does, and those of sources that send too many. It does so in a socket filter
// of each listening socket, and on a network interface by XDP where the operator asks for that.
//
// It judges single datagrams by their source and first byte, and knows no session. What it lets pass is judged again in
// user space; where the kernel will not have it, user space does all of it. It is told which sources have sessions,
// and holds the others to what user space can read (Gate), so that a flood of strangers leaves those their room.
//
// Start with New. There is no compiler: the programs are written with the assembler of cilium/ebpf (program_linux.go has
// the part that both kinds share).
package shield

import "net/netip"

// Options are those of a Shield.
type Options struct {
	// PacketRate is how many datagrams a second a source may send; 0 is any number. A source is an IPv4 address or an
	// IPv6 /64. Behind one address there can be hundreds of players, so it is a bound on floods and on nothing else.
	PacketRate int
	// Burst is how many datagrams may come at once; at least 1.
	Burst int
	// Sources is how many places there are for what sources have sent, by a secret of the Shield's; at least 1, and rounded up
	// to a power of two. Sources share a place by chance, which makes the limit stricter, and none can be pushed out of its own.
	Sources int
	// Bans is how many prefixes may be banned; at least 1. Memory is taken for those that are.
	Bans int
	// Known is how many clients may be known to Gates; at least 1. Each takes 16 to 32 bytes, from the start on.
	Known int
	// Loops is how many loops there are, at least 1.
	Loops int
}

// Listener is what XDP is told of a listener: only what comes to its address is judged.
type Listener struct {
	Addr  netip.AddrPort // specified: a wildcard must be replaced by the addresses of the host
	First FirstBytes
}

// Reason is why a datagram was dropped, or that it was not.
type Reason uint8

// The reasons.
const (
	Passed    Reason = iota // not dropped
	Banned                  // its source is in a banned prefix
	FirstByte               // no protocol of the listener has such a datagram
	Rate                    // its source sends too many
	Crowd                   // its source is a stranger, and strangers send too many
	reasons
)

var reasonNames = [reasons]string{"passed", "banned", "first-byte", "rate", "crowd"}

// String is the reason's name as in logs and metrics.
func (r Reason) String() string {
	if r < reasons {
		return reasonNames[r]
	}
	return "unknown"
}

// Tally counts datagrams by Reason. What the network card or the kernel had merged counts as its parts did.
type Tally [reasons]uint64

// Counters are the totals of a Shield. They only grow.
type Counters struct {
	Sockets    Tally // by the filters of sockets; they see only what the interfaces have let pass
	Interfaces Tally // by XDP
}

// Mode is how XDP is run on an interface.
type Mode uint8

// Ways to run XDP.
const (
	Native  Mode = iota + 1 // by the driver, before the kernel has made a buffer of its own of the packet
	Generic                 // by the kernel, for drivers without XDP
)

// String names the mode.
func (m Mode) String() string {
	switch m {
	case Native:
		return "native"
	case Generic:
		return "generic"
	}
	return "none"
}
