package riptide

import (
	"encoding/binary"
	"math/rand/v2"
)

// forge returns a function that makes the datagrams of a forger who guesses the numbers of a session: goodbyes,
// messages in the place of the peer's own, notify messages far ahead, and acknowledgements.
func forge(v Version) func(rng *rand.Rand, toServer bool) []byte {
	w := &dialects[v]
	return func(rng *rand.Rand, toServer bool) []byte {
		guess := func() seq {
			if rng.IntN(2) == 0 {
				return seq(rng.IntN(600))
			}
			return seq(rng.Uint32())
		}
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
