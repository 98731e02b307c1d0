package enet

import (
	"bytes"
	"hash/crc32"
	"slices"

	"tidegate/codec"
)

// maxRivals bounds the rivals of a channel.
const maxRivals = 32

// rival is a second message under the number of an early one, with other content. One of the two is forged. Nothing
// tells which, so both are delivered.
type rival struct {
	number  uint16
	payload []byte
}

// takeRival keeps a second message under the number of an early one.
func (in *inbox) takeRival(c *inChannel, seq uint16, payload []byte) error {
	for _, known := range c.rivals {
		if known.number == seq && bytes.Equal(known.payload, payload) {
			return codec.ErrDuplicate
		}
	}
	if len(c.rivals) == maxRivals || !in.fits(len(payload)) {
		return codec.ErrLimit
	}
	c.rivals = append(c.rivals, rival{seq, in.copyOf(payload)})
	in.held += len(payload)
	return nil
}

// deliverRivals delivers the rivals of a message that has been delivered.
func (in *inbox) deliverRivals(n uint8, c *inChannel, seq uint16) {
	c.rivals = slices.DeleteFunc(c.rivals, func(r rival) bool {
		if r.number == seq {
			in.held -= len(r.payload)
			in.deliverHeld(codec.ReliableOrdered, n, r.payload)
		}
		return r.number == seq
	})
}

// mostRecent is the number of delivered messages of a channel that are remembered.
const mostRecent = 64

// recent has a sum of each message that a channel delivered last, by number; 0: unknown. A second message under such a
// number with another sum is no repetition: one of the two was forged. A forged message is delivered when its turn
// comes, before the peer sends its own.
type recent []uint32

func sumOf(payload []byte) uint32 { return crc32.ChecksumIEEE(payload) | 1 }

// note remembers the next message, which is about to count as delivered.
func (in *inbox) note(c *inChannel, payload []byte) {
	if !in.guesses {
		return
	}
	if c.recent == nil {
		c.recent = make(recent, mostRecent)
	}
	c.recent[(c.reliable+1)%mostRecent] = sumOf(payload)
}

// differs reports whether another message was delivered under a number that is behind the last one. The second message
// takes the place of the first.
func (r recent) differs(seq uint16, behind int, payload []byte) bool {
	if r == nil || behind >= mostRecent || r[seq%mostRecent] == 0 {
		return false
	}
	sum := sumOf(payload)
	known := &r[seq%mostRecent]
	if *known == sum {
		return false
	}
	*known = sum
	return true
}
