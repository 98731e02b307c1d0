package raknet

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

func TestConformance(t *testing.T) { codectest.Run(t, conformance()) }

// TestRecords restores sessions as earlier releases have saved them.
func TestRecords(t *testing.T) { codectest.TestRecords(t, "raknet", conformance()) }

// FuzzRestore restores records of connections, damaged in all ways.
func FuzzRestore(f *testing.F) { codectest.FuzzRestore(f, conformance()) }

func conformance() codectest.Config {
	options := func(seed uint64) Options {
		o := Options{MaxMessage: 64 << 10, MaxQueued: 1 << 20, Bits: true}
		binary.BigEndian.PutUint64(o.Seed[:], seed)
		return o
	}
	sides := func(seed uint64) (server, client codec.Protocol) {
		return New(options(seed)), New(options(seed))
	}
	wrapped := func(seed uint64) (server, client codec.Protocol) {
		o := options(seed)
		return nearWrap{New(o)}, nearWrap{New(o)}
	}
	both := func(reason codec.Reason) codectest.GoodbyeCase {
		return codectest.GoodbyeCase{Sent: codec.Goodbye{Reason: reason}, Received: codec.Goodbye{Reason: reason}}
	}
	return codectest.Config{
		MaxHeld:       13 << 20,
		MaxMemory:     8 << 20, // each side holds early messages of up to 4 MiB
		New:           sides,
		NearWrap:      wrapped,
		MaxSpare:      2*keptBytes + 1<<20,
		ForgedAnswer:  "the replies of a handshake hold nothing but addresses and the client's clock",
		Prefix:        []byte{0x86},
		MinPayload:    1,
		MaxPayload:    func(codec.Mode) int { return 64 << 10 },
		Sizes:         []int{1431, 1432, 1433, 2863, 2864, 2865, 8191, 8192, 20_000},
		Pads:          []uint8{0, 1, 7},
		PadsLow:       true,
		Channels:      maxChannels,
		HelloData:     true,
		HelloIdentity: true,
		ClientIDs:     true,
		Refusals: []codectest.GoodbyeCase{
			both(codec.InvalidPassword), both(codec.ServerFull), both(codec.Banned), both(codec.AlreadyConnected),
			both(codec.TooSoon), both(codec.Incompatible), both(codec.Rejected),
		},
		Deferred: []codectest.GoodbyeCase{
			both(codec.ServerFull), both(codec.Banned), both(codec.AlreadyConnected), both(codec.TooSoon),
			both(codec.NoConnection), codectest.ReasonOnly(codec.Rejected, codec.NoConnection),
			{Sent: codec.Goodbye{Reason: codec.Incompatible, Version: 8}, Received: codec.Goodbye{Reason: codec.Incompatible}},
		},
		Kicks: []codectest.GoodbyeCase{
			{Sent: codec.Goodbye{Reason: codec.Kicked}, Received: codec.Goodbye{Reason: codec.Closed}},
		},
		// An attacker that guesses a number near the newest can send anything in the peer's name, because RakNet without
		// libcat authenticates nothing. An attacker that has seen a cookie can replace the client.
		Forgeable: func(datagram []byte) bool {
			return len(datagram) > 0 && (datagram[0]&bitValid != 0 || datagram[0] == idOpenConnectionRequest2)
		},
		Forge:      forge,
		ForgeNear:  forgeNear,
		ForgedLoss: mostForgedLoss,
		Derived: []string{
			"workspace", "p", "peer", "receiver.ackDelay", "receiver.heldBudget", "sender.orderedOnly",
			"receiver.channels", "receiver.fresh", "receiver.anchor", "receiver.loose",
			"receiver.scope", "receiver.reliable.prints", "receiver.reliable.far", "receiver.reliable.hasty",
			"receiver.receiving.acks", "receiver.receiving.nacks", "receiver.receiving.recent", "receiver.receiving.repeat",
			"receiver.receiving.holes", "receiver.splits", "wrote", "quirks.rated",
			"sender.bits", "sender.bytes", "sender.count", "sender.openSplits", "sender.toClient", "sender.named",
			"sender.senderState.Congestion.segment", "sender.flight.unacked",
			"sender.sending", "sender.flight.flying.stuck",
		},
		StatelessRefusal: codec.ServerFull,
		Timeout:          15 * time.Second,
	}
}

// nearWrap is RakNet with every counter of its connections starting a little below where it wraps. Both sides must use
// it.
type nearWrap struct{ *Protocol }

const wrapStart = Seq24(seq24Mask - 8)

func (p nearWrap) Accept(now time.Time, from netip.AddrPort, datagram, reply []byte) (codec.Conn, []byte, error) {
	conn, reply, err := p.Protocol.Accept(now, from, datagram, reply)
	if c, ok := conn.(*Conn); ok {
		c.startAt(wrapStart)
	}
	return conn, reply, err
}

func (p nearWrap) Dial(now time.Time, to netip.AddrPort, hello codec.Hello) codec.Conn {
	c := p.Protocol.Dial(now, to, hello).(*Conn)
	c.startAt(wrapStart)
	return c
}

// startAt sets all numbers of a connection that has not used one yet.
func (c *Conn) startAt(n Seq24) {
	f := &c.sender.flight
	f.Base, f.Due, f.next, f.Reliable = n, n, n, n
	c.sender.SplitID = uint16(n)
	c.receiver.datagrams.next, c.receiver.anchor.next = n, n
	c.receiver.reliable.base, c.receiver.reliable.next = n, n
	for range maxChannels {
		c.sender.Channels = append(c.sender.Channels, sendChannel{Order: n, Sequence: n})
		c.receiver.channels.list = append(c.receiver.channels.list, channel{Order: n, Sequence: n})
	}
}

// BenchmarkSave measures saved connections.
func BenchmarkSave(b *testing.B) { codectest.BenchmarkSave(b, conformance()) }
