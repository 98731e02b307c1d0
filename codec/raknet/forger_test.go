package raknet

import (
	"encoding/binary"
	"math/rand/v2"

	"tidegate/codec"
)

// forge returns a datagram of a forger who guesses the numbers of a session: goodbyes, jumps of datagram numbers,
// messages in the place of the peer's own, and answers to datagrams that may be lost.
func forge(rng *rand.Rand, _ bool) []byte { return forgeWith(rng, guess) }

// forgeNear is forge by a forger whose numbers are those of a session of 10 messages a second in each mode.
func forgeNear(rng *rand.Rand, _ bool) []byte {
	return forgeWith(rng, func(rng *rand.Rand) Seq24 { return Seq24(rng.IntN(1000)) })
}

// mostForgedLoss bounds the losses by a forger. A forged jump costs the sequenced messages of the next 0.1 s, or 3 s if
// it is reliable.
func mostForgedLoss(m codec.Mode, rate float64) float64 {
	switch {
	case m == codec.Unreliable:
		return .005
	case !isSequenced(m):
		return 0
	}
	return min(.15, .005*rate)
}

func forgeWith(rng *rand.Rand, guess func(*rand.Rand) Seq24) []byte {
	b := appendDataHeader(nil, guess(rng), false, false)
	payload := []byte{0x86, 1, 2, 3}
	switch rng.IntN(8) {
	case 0:
		return b
	case 1:
		payload = []byte{idDisconnectionNotification}
	case 2:
		payload = binary.BigEndian.AppendUint64([]byte{idConnectedPing}, rng.Uint64())
	case 3:
		return forgeAcks(rng, guess)
	}
	modes := []codec.Mode{
		codec.Unreliable, codec.UnreliableSequenced, codec.Reliable, codec.ReliableOrdered, codec.ReliableSequenced,
	}
	c := capsule{
		mode: modes[rng.IntN(len(modes))], channel: uint8(rng.IntN(3)), reliable: guess(rng), order: guess(rng),
		sequence: guess(rng), payload: payload,
	}
	if rng.IntN(8) == 0 {
		c.split, c.splitCount, c.splitID = true, 2+rng.Uint32N(8), uint16(rng.IntN(32))
		c.splitIndex = rng.Uint32N(c.splitCount)
	}
	for range 1 + rng.IntN(4) {
		b = c.append(b)
		c.reliable, c.order, c.sequence = c.reliable.Add(1), c.order.Add(1), c.sequence.Add(1)
	}
	return b
}

// guess is a number as a young session has it, or any.
func guess(rng *rand.Rand) Seq24 {
	if rng.IntN(2) == 0 {
		return Seq24(rng.IntN(600))
	}
	return Seq24(rng.Uint32() & seq24Mask)
}

// forgeAcks returns an acknowledgement, or a request to send again, of any numbers.
func forgeAcks(rng *rand.Rand, guess func(*rand.Rand) Seq24) []byte {
	kind := ackDatagram
	if rng.IntN(2) == 0 {
		kind = nackDatagram
	}
	w := beginAcks(nil, kind, 1400)
	first := guess(rng)
	w.add(ackRange{first, first.Add(rng.IntN(100))})
	return w.end()
}
