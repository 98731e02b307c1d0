package codec

// Message is what a game sent, or is to be sent.
type Message struct {
	// Payload is the message's bytes. Pad (0 to 7) is how many bits of its last byte are not part of the message:
	// Riptide 2.1+ and RakNet carry bit strings. Which end of the byte is unused is the protocol's own bit order
	// (Riptide's high bits, RakNet's low bits); a protocol of whole bytes ignores Pad.
	Payload []byte
	Pad     uint8
	Mode    Mode
	Channel uint8  // ordering channel; 0 where the protocol has none
	ID      uint16 // application message ID, if HasID
	HasID   bool
	Receipt Receipt // non-zero asks for Delivered or Lost
}

// Receipt is the sender's own mark on a message whose fate it wants to know. Each accepted non-zero receipt is answered
// exactly once, by Delivered or Lost.
type Receipt uint32

// Mode is a promise of delivery.
type Mode uint8

// The delivery modes of all protocols.
const (
	Unreliable          Mode = iota // at most once (RakNet and RUDP may repeat what the network repeats)
	UnreliableSequenced             // as Unreliable, and never one older than the last delivered on its channel
	Reliable                        // exactly once
	ReliableOrdered                 // exactly once, in the order sent on its channel
	ReliableSequenced               // sent until acknowledged, but never one older than the last delivered on its channel
	Notify                          // sequenced, never resent, and the sender learns what arrived (Riptide 2.1+, RUDP)
	modeCount
)

// ModeCount is how many modes there are.
const ModeCount = int(modeCount)

var modeNames = [modeCount]string{
	"unreliable", "unreliable-sequenced", "reliable", "reliable-ordered", "reliable-sequenced", "notify",
}

// String is the mode's name as in configuration and metrics.
func (m Mode) String() string {
	if m < modeCount {
		return modeNames[m]
	}
	return "unknown"
}

// IsReliable reports whether the mode resends until acknowledged.
func (m Mode) IsReliable() bool {
	return m == Reliable || m == ReliableOrdered || m == ReliableSequenced
}

// Modes is a set of modes.
type Modes uint8

// ModesOf returns the set of the given modes.
func ModesOf(modes ...Mode) Modes {
	var set Modes
	for _, m := range modes {
		set |= 1 << m
	}
	return set
}

// Has reports whether m is in the set.
func (s Modes) Has(m Mode) bool { return m < modeCount && s&(1<<m) != 0 }

// AnyReliable reports whether a mode of the set is reliable and delivers every message.
func (s Modes) AnyReliable() bool { return s.Has(Reliable) || s.Has(ReliableOrdered) }
