package bench

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
)

// assault is one kind of flood.
type assault struct {
	name string
	// arm makes its datagrams. They are shown to it by what players said so far.
	arm func(t *tape) []shot
	// from chooses the source of a datagram: one of the arena's, or a player's.
	banned, players bool
}

// shot is a datagram for a door.
type shot struct {
	door    int
	payload []byte
}

// assaults are those that there are.
var assaults = []assault{
	{name: "garbage", arm: armGarbage},
	{name: "forged handshakes", arm: armForged},
	{name: "replayed handshakes", players: true, arm: func(t *tape) []shot { return t.first }},
	{name: "pings", arm: armPings},
	{name: "unknown sessions", arm: func(t *tape) []shot { return t.later }},
	{name: "ban evader", banned: true, arm: armForged},
}

// tape is what players have sent, as whoever listens on a line would have it.
type tape struct {
	counts map[*entry]int
	first  []shot // of the handshakes
	later  []shot
}

// A handshake of RakNet begins with two datagrams without a connection, one of Riptide with one.
const (
	firstOnTape = 2
	laterOnTape = 40
	tapeLimit   = 600
)

func (t *tape) record(e *entry, datagram []byte) {
	if t.counts == nil {
		t.counts = make(map[*entry]int)
	}
	n := t.counts[e]
	t.counts[e]++
	one := shot{e.Value.player.door, datagram}
	switch {
	case n < firstOnTape && len(t.first) < tapeLimit:
		one.payload = slices.Clone(datagram)
		t.first = append(t.first, one)
	case n > laterOnTape && len(t.later) < tapeLimit:
		one.payload = slices.Clone(datagram)
		t.later = append(t.later, one)
	}
}

func armGarbage(*tape) (shots []shot) {
	noise := rand.NewChaCha8([32]byte{1})
	for i := range 1024 * doors {
		b := make([]byte, 1+rand.IntN(200))
		_, _ = noise.Read(b) // it never fails
		shots = append(shots, shot{i % doors, b})
	}
	return shots
}

// offlineMagic marks RakNet's datagrams of no connection.
var offlineMagic = []byte("\x00\xff\xff\x00\xfe\xfe\xfe\xfe\xfd\xfd\xfd\xfd\x12\x34\x56\x78")

// armForged makes first datagrams of every protocol, and RakNet's second with cookies that nobody gave.
func armForged(*tape) (shots []shot) {
	now := time.Now()
	for i := range 64 {
		for door, p := range spoken {
			to := netip.AddrPortFrom(home, 1)
			if b, ok := p.Dial(now, to, codec.Hello{Identity: rand.Uint64()}).Transmit(now, make([]byte, 0, codec.MaxDatagram)); ok {
				shots = append(shots, shot{door, b})
			}
		}
		b := append([]byte{7}, offlineMagic...)
		b = binary.BigEndian.AppendUint32(b, rand.Uint32())
		b = append(b, 0, 4, 128, 255, 255, 254, 0, byte(i))
		b = binary.BigEndian.AppendUint16(b, 1492)
		shots = append(shots, shot{doorRakNet, binary.BigEndian.AppendUint64(b, rand.Uint64())})
	}
	return shots
}

func armPings(*tape) []shot {
	b := binary.BigEndian.AppendUint64([]byte{1}, 1)
	b = binary.BigEndian.AppendUint64(append(b, offlineMagic...), 2)
	return []shot{{doorRakNet, b}, {doorRelay, b}}
}
