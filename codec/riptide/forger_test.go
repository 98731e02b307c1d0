package riptide

import (
	"encoding/binary"
	"math/rand/v2"

	"tidegate/codec"
)

// forge returns a function that makes the datagrams of a forger who guesses the numbers of a session: goodbyes,
// messages in the place of the peer's own, notify messages far ahead, and acknowledgements.
func forge(v Version) func(rng *rand.Rand, toServer bool) []byte {
	return forgeWith(v, func(rng *rand.Rand) seq {
		if rng.IntN(2) == 0 {
			return seq(rng.IntN(600))
		}
		return seq(rng.Uint32())
	})
}

// forgeNear is forge with numbers of a session of 10 messages a second in each mode.
func forgeNear(v Version) func(rng *rand.Rand, toServer bool) []byte {
	return forgeWith(v, func(rng *rand.Rand) seq { return seq(rng.IntN(1000)) })
}

// mostForgedLoss bounds the losses by a forger. A forged notify message may cost the next one of the peer's.
func mostForgedLoss(m codec.Mode, rate float64) float64 {
	if m == codec.Notify {
		return min(.12, .004+.0002*rate)
	}
	return 0
}

func forgeWith(v Version, number func(*rand.Rand) seq) func(rng *rand.Rand, toServer bool) []byte {
	w := &dialects[v]
	return func(rng *rand.Rand, toServer bool) []byte {
		guess := func() seq { return number(rng) }
		switch rng.IntN(4) {
		case 0:
			if toServer {
				return w.append(nil, kindDisconnect, nil, nil, 0)
			}
			f := goodbye{kind: kindDisconnect, reason: disconnectKicked}
			return f.append(w, nil, 1000, nil, 0)
		case 1:
			a := ack{last: guess(), forSeq: guess(), bits: uint16(rng.Uint32())}
			return a.append(w, nil)
		case 2:
			if v != V20 { // which has no notify messages
				h := notifyHeader{last: guess(), seq: guess(), bits: uint8(rng.Uint32())}
				return w.append(nil, kindNotify, h.append(nil), []byte{1, 2, 3}, 0)
			}
		}
		h := userHeader{reliable: true, seq: guess(), id: 1}
		return w.append(nil, kindReliable, h.append(w, nil), binary.BigEndian.AppendUint64(nil, rng.Uint64()), 0)
	}
}
