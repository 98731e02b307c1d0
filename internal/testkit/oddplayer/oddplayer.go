// Package oddplayer plays players whose messages are valid but odd: bits, no bytes, unused channels, unknown IDs,
// split messages of one part, goodbyes with data. No honest game sends them, but any player can. They must harm neither
// a server nor another player. It is for tests.
//
// Start with Run.
package oddplayer

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"tidegate/codec"
)

// Bounds of one visit.
const (
	joinTime   = 3 * time.Second
	playTime   = 300 * time.Millisecond
	leaveTime  = 200 * time.Millisecond
	breath     = 2 * time.Millisecond // between two turns
	perTurn    = 8                    // messages
	perVisit   = 64                   // messages
	mostData   = 1100                 // bytes of a hello or a goodbye
	largest    = 20_000               // bytes of a message
	mangledOne = 4                    // Mangle changes one of so many datagrams
	hugeOne    = 256                  // one of so many messages has a size of huge
)

// huge are sizes around the bounds of servers: 69 to 71 parts, 127 and 128, 500, and more than 512.
var huge = [...]int{96_000, 99_000, 176_000, 181_000, 700_000, 740_000}

// Options say who plays.
type Options struct {
	Protocol codec.Protocol
	At       netip.AddrPort // the proxy
	Seed     uint64
	Prefix   int // bytes of each frame's length over TCP; 0: UDP
	// Mangle changes the form of a datagram of the client's, or returns it as it is. Nil: no datagram is changed.
	Mangle func(rng *rand.Rand, datagram []byte) []byte
	Calm   bool // its data, messages and leaves are those of an honest player
}

// Run lets one player after another visit, until done is closed. It returns the number of visits, and how often the
// player got in. A refusal by the proxy is no failure.
func Run(t testing.TB, o Options, done <-chan struct{}) (visits, joined int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	for {
		select {
		case <-done:
			return visits, joined
		default:
		}
		visits++
		if Visit(t, o, rng) {
			joined++
		}
	}
}

// Visit joins with odd data, sends odd messages and leaves oddly. It reports whether the player got in.
func Visit(t testing.TB, o Options, rng *rand.Rand) bool {
	t.Helper()
	socket, err := o.dial(rng)
	if err != nil {
		t.Error(err)
		return false
	}
	defer func() { _ = socket.Close() }()
	hello, goodbye := codec.Hello{Identity: rng.Uint64()}, codec.Goodbye{Reason: codec.Closed}
	if !o.Calm {
		hello.Data, hello.Pad, goodbye.Data, goodbye.Pad = data(rng), pad(rng), data(rng), pad(rng)
	}
	v := &visit{o: o, rng: rng, socket: socket, conn: o.Protocol.Dial(time.Now(), o.At, hello)}
	v.play(joinTime, func() bool { return v.joined })
	if !v.joined {
		return false
	}
	sent := 0
	v.play(playTime, func() bool {
		for range perTurn {
			sent++
			// The codec refuses what its wire cannot carry.
			_ = v.conn.Send(time.Now(), o.message(rng))
		}
		return sent >= perVisit
	})
	if o.Calm || rng.IntN(3) > 0 {
		v.conn.Close(time.Now(), goodbye)
	}
	v.play(leaveTime, func() bool { return v.gone })
	return true
}

func (o Options) dial(rng *rand.Rand) (net.Conn, error) {
	if o.Prefix == 0 {
		return net.Dial("udp", o.At.String())
	}
	conn, err := net.Dial("tcp", o.At.String())
	return &stream{Conn: conn, prefix: o.Prefix, rng: rng}, err
}

// visit is one player's connection.
type visit struct {
	o      Options
	rng    *rand.Rand
	socket net.Conn
	conn   codec.Conn
	joined bool
	gone   bool
	in     [codec.MaxDatagram]byte
	out    [codec.MaxDatagram]byte
}

// play exchanges datagrams until enough reports true, the connection ends, or the time is over.
func (v *visit) play(most time.Duration, enough func() bool) {
	for end := time.Now().Add(most); !v.gone && time.Now().Before(end); {
		over := enough()
		v.transmit()
		if over {
			return
		}
		_ = v.socket.SetReadDeadline(time.Now().Add(breath))
		n, err := v.socket.Read(v.in[:])
		now := time.Now()
		switch {
		case err == nil:
			_ = v.conn.Receive(now, v.in[:n])
		case v.o.Prefix > 0 && !errors.Is(err, os.ErrDeadlineExceeded):
			v.gone = true
			return
		default:
			v.conn.Advance(now)
		}
		v.poll()
	}
}

func (v *visit) poll() {
	for e, ok := v.conn.Poll(); ok; e, ok = v.conn.Poll() {
		switch e.Kind {
		case codec.Connected:
			v.joined = true
		case codec.Disconnected:
			v.gone = true
		}
	}
}

func (v *visit) transmit() {
	for b, ok := v.conn.Transmit(time.Now(), v.out[:0]); ok; b, ok = v.conn.Transmit(time.Now(), v.out[:0]) {
		if v.o.Mangle != nil && v.joined && v.rng.IntN(mangledOne) == 0 {
			b = v.o.Mangle(v.rng, b)
		}
		_, _ = v.socket.Write(b) // an ended proxy shows in the witness
	}
}

func (o Options) message(rng *rand.Rand) codec.Message {
	if !o.Calm {
		return Message(rng, o.Protocol.Spec())
	}
	return codec.Message{Payload: make([]byte, 64), Mode: codec.Mode(rng.IntN(codec.ModeCount)), ID: ids[1], HasID: true}
}

// Message returns an odd message of a protocol.
func Message(rng *rand.Rand, s *codec.Spec) codec.Message {
	sizes := [...]int{0, 1, 1, 2, 3, 4, 7, 8, 9, 16, 17, 100, 255, 256, 1000, 1200, 1220, 1392, 1400, 1431, largest}
	size := sizes[rng.IntN(len(sizes))]
	if rng.IntN(hugeOne) == 0 {
		size = huge[rng.IntN(len(huge))]
	}
	m := codec.Message{
		Payload: make([]byte, size), Pad: pad(rng), Mode: codec.Mode(rng.IntN(codec.ModeCount)),
		ID: ids[rng.IntN(len(ids))], HasID: s.IDs == codec.IDBeside || rng.IntN(2) == 0,
		Receipt: codec.Receipt(rng.IntN(2)),
	}
	for i := range m.Payload {
		m.Payload[i] = byte(rng.Uint32())
	}
	if len(m.Payload) > 0 {
		m.Payload[0] = firstBytes[rng.IntN(len(firstBytes))]
	}
	if s.Channels > 0 {
		m.Channel = channels[rng.IntN(len(channels))]
	}
	return m
}

// Odd values: bounds, RakNet's own identifiers, and what games use.
var (
	ids        = [...]uint16{0, 1, 2, 127, 128, 255, 256, 1000, 16383, 16384, 32767, 32768, 65534, 65535}
	firstBytes = [...]byte{0, 3, 4, 9, 0x10, 0x13, 0x15, 0x16, 0x1b, 0x1c, 0x40, 0x80, 0x85, 0x86, 0x86, 0x86, 0x87, 0x87,
		0x90, 0xc0, 0xfe, 0xfe, 0xff}
	channels = [...]uint8{0, 0, 1, 2, 7, 15, 16, 31, 32, 127, 254, 255}
	texts    = []string{"", "\x00", "a", "abc", "\xff\xfe", "\xc3\x28", "a\x00b", "\x80\x81\x82", "\U0001f600"}
)

// data returns odd data of a hello or a goodbye: none, a text that may be no UTF-8, or many bytes.
func data(rng *rand.Rand) []byte {
	switch rng.IntN(3) {
	case 0:
		return nil
	case 1:
		return []byte(texts[rng.IntN(len(texts))])
	}
	b := make([]byte, rng.IntN(mostData))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// pad returns how many bits of the last byte are not part of a message. Riptide's data ends within a byte at 4.
func pad(rng *rand.Rand) uint8 { return [...]uint8{0, 0, 0, 0, 1, 4, 4, 7}[rng.IntN(8)] }
