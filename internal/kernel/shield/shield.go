// Package shield drops hostile datagrams in the kernel, before they cost a wake-up: datagrams of banned networks,
// datagrams with an impossible first byte, and datagrams of sources that send too many. It uses a filter on each
// listening socket, and XDP on network interfaces if the operator asks for it.
//
// It judges single datagrams by source and first byte, and knows no sessions. User space judges everything again that
// it lets pass, and does all the work if the kernel cannot help. Loops report their known clients, and a Gate holds all
// other sources to the amount that user space can read. So a flood of strangers leaves room for known clients.
//
// Start with New. There is no compiler: the programs use the assembler of cilium/ebpf. The part that both kinds of
// program share is in program_linux.go.
package shield

import "net/netip"

// Options configure a Shield.
type Options struct {
	// PacketRate is the most datagrams per second of a source; 0 means unlimited. A source is an IPv4 address or an
	// IPv6 /64. Hundreds of players may share one address, so set it against floods only.
	PacketRate int
	// Burst is the most datagrams of a source at once; at least 1.
	Burst int
	// Sources is the number of places for rates, at least 1, rounded up to a power of two. A secret hash assigns
	// sources to places. Sources may share a place, which makes the limit stricter. No source can evict another.
	Sources int
	// Bans is the most prefixes that may be banned; at least 1. Only banned prefixes take memory.
	Bans int
	// Known is the most clients that the Gates know; at least 1. Each takes 16 to 32 bytes, allocated by New.
	Known int
	// Loops is the number of loops, at least 1.
	Loops int
}

// Listener is a listener for XDP: only datagrams to its address are judged.
type Listener struct {
	Addr  netip.AddrPort // a specific address: replace a wildcard by the host's addresses
	First FirstBytes
}

// Reason is the reason for a drop, or Passed.
type Reason uint8

// Reasons.
const (
	Passed        Reason = iota // not dropped
	Banned                      // the source is in a banned prefix
	FirstByte                   // no protocol of the listener has this first byte
	Rate                        // the source sends too many
	StrangerLimit               // the source is a stranger, and strangers send too many
	reasons
)

var reasonNames = [reasons]string{"passed", "banned", "first-byte", "rate", "stranger-limit"}

// String returns the reason's name as in logs and metrics.
func (r Reason) String() string {
	if r < reasons {
		return reasonNames[r]
	}
	return "unknown"
}

// Tally counts datagrams by Reason. A merged packet counts as its parts.
type Tally [reasons]uint64

// Counters are the totals of a Shield. They never decrease.
type Counters struct {
	Sockets    Tally // by the filters of sockets, behind the interfaces
	Interfaces Tally // by XDP
}

// Mode is the way in which XDP runs on an interface.
type Mode uint8

// Modes of XDP.
const (
	Native  Mode = iota + 1 // in the driver, before the kernel allocates a buffer for the packet
	Generic                 // in the kernel, for drivers without XDP
)

// String returns the mode's name.
func (m Mode) String() string {
	switch m {
	case Native:
		return "native"
	case Generic:
		return "generic"
	}
	return "none"
}
