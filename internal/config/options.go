package config

import (
	"fmt"
	"maps"
	"slices"
)

// maxPong is RakNet's own limit for the server list text, which also keeps a pong from amplifying a forged ping much.
const maxPong = 400

func (v *validator) raknet(table string, o *RakNet) {
	once(v.report, child(table, "versions"), o.Versions, "at least one protocol number")
	within(v.report, child(table, "max_mtu"), o.MaxMTU, 576, 1492)
	if len(o.Pong) > maxPong {
		v.fault(child(table, "pong"), o.Pong, fmt.Sprintf("at most %d bytes of text", maxPong))
	}
	v.listenerCookies(table, o)
	within(v.report, child(table, "max_message"), o.MaxMessage, KiB, 64*MiB)
	within(v.report, child(table, "timeout"), o.Timeout, seconds(1), seconds(300))
}

// maxPayload leaves room for Riptide's headers in the largest datagram that any protocol here reads or writes.
const maxPayload = 4090

func (v *validator) riptide() {
	o := v.Riptide
	within(v.report, "riptide.heartbeat", o.Heartbeat, milliseconds(100), seconds(60))
	within(v.report, "riptide.timeout", o.Timeout, seconds(1), seconds(300))
	if o.Timeout <= o.Heartbeat {
		v.fault("riptide.timeout", o.Timeout, fmt.Sprintf("longer than riptide.heartbeat, which is %s", o.Heartbeat))
	}
	within(v.report, "riptide.connect_attempts", o.ConnectAttempts, 1, 100)
	within(v.report, "riptide.max_payload", o.MaxPayload, 1, maxPayload)
}

// What fits into RUDP's datagrams, whose headers and checksum take 16 bytes.
const (
	maxMessageRUDP = 4080 // the most that the library can receive
	maxJoinedRUDP  = 1456 // what fits into a packet of Ethernet
)

func (v *validator) rudp() {
	o := v.RUDP
	within(v.report, "rudp.rate", o.Rate, 1, 255)
	within(v.report, "rudp.max_payload", o.MaxPayload, 1, maxMessageRUDP)
	within(v.report, "rudp.max_joined", o.MaxJoined, 1, maxJoinedRUDP)
	within(v.report, "rudp.connect_timeout", o.ConnectTimeout, milliseconds(100), seconds(60))
}

// Bounds of R-Type's texts and tables.
const (
	maxHello         = 255 // bytes
	maxComponents    = 255
	maxComponentName = 255 // bytes, as the wire writes their number
	maxComponent     = 1024
)

func (v *validator) rtype() {
	o := v.RType
	if len(o.Hello) < 1 || len(o.Hello) > maxHello {
		v.fault("rtype.hello", o.Hello, fmt.Sprintf("1 to %d bytes of text", maxHello))
	}
	v.components(o.Components)
	within(v.report, "rtype.ping_interval", o.PingInterval, 0, seconds(300))
	within(v.report, "rtype.ping_timeout", o.PingTimeout, seconds(1), seconds(300))
	within(v.report, "rtype.idle_timeout", o.IdleTimeout, seconds(1), seconds(3600))
	within(v.report, "rtype.server_timeout", o.ServerTimeout, seconds(1), seconds(3600))
	within(v.report, "rtype.connect_interval", o.ConnectInterval, milliseconds(100), seconds(60))
	within(v.report, "rtype.connect_attempts", o.ConnectAttempts, 1, 100)
	within(v.report, "rtype.refresh", o.Refresh, 0, seconds(3600))
	within(v.report, "rtype.initial_copies", o.InitialCopies, 1, 8)
	within(v.report, "rtype.max_world", o.MaxWorld, KiB, 64*MiB)
	within(v.report, "rtype.max_rate", o.MaxRate, 1, 100_000)
}

func (v *validator) components(sizes map[string]int) {
	const table = "rtype.components"
	if len(sizes) > maxComponents {
		v.fault(table, nil, fmt.Sprintf("at most %d components; these are %d", maxComponents, len(sizes)))
	}
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		key := child(table, name)
		if len(name) < 1 || len(name) > maxComponentName {
			v.fault(key, sizes[name], fmt.Sprintf("a name of 1 to %d bytes", maxComponentName))
		}
		within(v.report, key, sizes[name], 0, maxComponent)
	}
}
