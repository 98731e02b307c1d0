package enet

import (
	"bytes"
	"hash/crc32"
	"slices"
	"time"

	"tidegate/codec"
)

// holds reports whether a message of the channel waits or is unfinished.
func (c *inChannel) holds() bool { return c.earlyCount+len(c.waiting)+len(c.unfinished) > 0 }

// begins notes that a message of the channel will wait.
func (in *inbox) begins(c *inChannel) {
	if !c.holds() {
		c.stillAt = in.now
	}
}

// unfinishedPatience is how long a channel may stand still while messages wait, beside twice the timeout. A live peer
// repeats a missing command all the time, and gives up the connection much earlier.
const unfinishedPatience = time.Minute

// expire gives up the messages of channels that have stood still for too long. It returns their number. The connection
// goes on, since the cause may be a forged command.
func (in *inbox) expire(now, patience time.Duration) (given int) {
	for i := range in.channels {
		c := &in.channels[i]
		given += in.expireRivals(c, now-patience)
		if !c.holds() || now-c.stillAt < patience {
			continue
		}
		given += c.earlyCount + len(c.waiting) + len(c.unfinished)
		in.giveUp(c)
	}
	return given
}

// expireRivals gives up the rivals that got no part since a time. Nothing waits for them.
func (in *inbox) expireRivals(c *inChannel, since time.Duration) (given int) {
	c.rivals = slices.DeleteFunc(c.rivals, func(r rival) bool {
		isOld := r.assembly != nil && r.assembly.fedAt <= since
		if isOld {
			in.discard(&r)
			given++
		}
		return isOld
	})
	return given
}

// giveUp gives up all messages of a channel that wait or are unfinished.
func (in *inbox) giveUp(c *inChannel) {
	in.forgetEarly(c)
	for len(c.waiting) > 0 {
		in.takeWaiting(c, len(c.waiting)-1)
	}
	for len(c.unfinished) > 0 {
		in.forget(c, len(c.unfinished)-1)
	}
}

// forgetEarly gives up all early messages of a channel.
func (in *inbox) forgetEarly(c *inChannel) {
	for i := range c.early {
		s := &c.early[i]
		switch {
		case s.whole:
			in.held -= len(s.payload)
		case s.assembly != nil:
			in.uncount(s.assembly)
		default:
			continue
		}
		*s = earlyMessage{}
		in.early--
		c.earlyCount--
	}
	for i := range c.rivals {
		in.discard(&c.rivals[i])
	}
	c.rivals = nil
	in.shrink(c)
}

// clear gives up all messages.
func (in *inbox) clear() {
	in.channels, in.held, in.heldNext, in.early, in.waiting = nil, 0, 0, 0, 0
}

var _ codec.Holder = (*Conn)(nil)

// Release implements codec.Holder. Messages that would have to wait are refused from now on.
func (c *Conn) Release() {
	for i := range c.in.channels {
		c.in.giveUp(&c.in.channels[i])
	}
	c.in.full = true
}

// maxRivals bounds the rivals of a channel.
const maxRivals = 32

// rival is a second message under the number of another one, with other content. One of the two is forged. Nothing
// tells which, so both are delivered. A rival that is unfinished stays, also when the number counts as delivered: a
// forged message may have been faster than the peer's.
type rival struct {
	number   uint16    `cbor:"1,keyasint"`           // of its first part
	payload  []byte    `cbor:"2,keyasint,omitempty"` // of a message in one command
	assembly *assembly `cbor:"3,keyasint,omitempty"` // of a message in parts
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
