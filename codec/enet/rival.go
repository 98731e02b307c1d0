package enet

import (
	"bytes"
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
