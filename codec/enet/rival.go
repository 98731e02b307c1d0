package enet

import (
	"bytes"
	"hash/crc32"

	"tidegate/codec"
)

// maxRivals bounds the rivals of a channel.
const maxRivals = 32

// rival is a second message under the number of another one, with other content. One of the two is forged. Nothing
// tells which, so both are delivered. A rival that is unfinished stays, also when the number counts as delivered: a
// forged message may have been faster than the peer's.
type rival struct {
	number   uint16    // of its first part
	payload  []byte    // of a message in one command
	assembly *assembly // of a message in parts
}

func (r *rival) isFinished() bool { return r.assembly == nil || r.assembly.left == 0 }

// under returns the assembly of a rival with a number, or nil.
func (r *rival) under(number uint16) *assembly {
	if r.number != number {
		return nil
	}
	return r.assembly
}

// takeRival keeps a second message in one command under the number of an early one.
func (in *inbox) takeRival(c *inChannel, seq uint16, payload []byte) error {
	for _, known := range c.rivals {
		if known.number == seq && known.assembly == nil && bytes.Equal(known.payload, payload) {
			return codec.ErrDuplicate
		}
	}
	if len(c.rivals) == maxRivals || !in.fits(len(payload)) {
		return codec.ErrLimit
	}
	c.rivals = append(c.rivals, rival{number: seq, payload: in.copyOf(payload)})
	in.held += len(payload)
	return nil
}

// mostRecent is the number of delivered commands of a channel that are remembered: more than a datagram has room for.
const mostRecent = 256

// recent has a sum of each message or part that a channel delivered last, by number; 0: unknown. Another one under such
// a number with another sum is no repetition: one of the two was forged. A forged message is delivered when its turn
// comes, before the peer sends its own.
type recent []uint32

func sumOf(payload []byte) uint32 { return crc32.ChecksumIEEE(payload) | 1 }

// partSum is sumOf for a part of a message. It differs from the sum of the same bytes elsewhere.
func partSum(f *fragment, payload []byte) uint32 {
	return (crc32.ChecksumIEEE(payload) ^ f.total*0x9e3779b1 ^ f.count*0x85ebca6b ^ f.index<<1) | 1
}

// note remembers a message that is delivered. The assembly is nil for a message in one command.
func (in *inbox) note(c *inChannel, number uint16, payload []byte, a *assembly) {
	if !in.guesses {
		return
	}
	if c.recent == nil {
		c.recent = make(recent, mostRecent)
	}
	if a == nil {
		c.recent[number%mostRecent] = sumOf(payload)
		return
	}
	f := fragment{count: a.Count, total: uint32(len(payload))}
	for ; f.index < a.Count; f.index++ {
		c.recent[(number+uint16(f.index))%mostRecent] = partSum(&f, a.part(f.index))
	}
}

// differs reports whether another command was delivered under a number that is behind the last one.
func (r recent) differs(seq uint16, behind int, sum uint32) bool {
	if r == nil || behind >= mostRecent {
		return false
	}
	known := r[seq%mostRecent]
	return known != 0 && known != sum
}
