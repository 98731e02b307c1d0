package codec

// Message is one message of a game.
type Message struct {
	// Payload holds the message's bytes. Pad (0 to 7) is the number of bits of the last byte that are not part of the
	// message: Riptide 2.1+ and RakNet carry bit strings. The protocol's bit order decides which bits are unused (the
	// high bits in Riptide, the low bits in RakNet). A protocol of whole bytes ignores Pad.
	Payload []byte  `cbor:"5,keyasint,omitempty"`
	Pad     uint8   `cbor:"6,keyasint,omitempty"`
	Mode    Mode    `cbor:"1,keyasint,omitempty"`
	Channel uint8   `cbor:"2,keyasint,omitempty"` // ordering channel; 0 if the protocol has none
	ID      uint16  `cbor:"3,keyasint,omitempty"` // application message ID, if HasID
	HasID   bool    `cbor:"4,keyasint,omitempty"`
	Apart   bool    `cbor:"8,keyasint,omitempty"` // came as a packet of its own: RUDP joins it with no other message
	Receipt Receipt `cbor:"7,keyasint,omitempty"` // non-zero asks for Delivered or Lost
}

// Receipt is the sender's own mark on a message whose fate it wants to know. Each accepted non-zero receipt gets
// exactly one answer, Delivered or Lost.
type Receipt uint32

// Mode is a promise of delivery.
type Mode uint8

// The delivery modes of all protocols.
const (
	Unreliable          Mode = iota // at most once (RakNet and RUDP may repeat a message that the network repeats)
	UnreliableSequenced             // as Unreliable, but never older than the last message delivered on its channel
	Reliable                        // exactly once
	ReliableOrdered                 // exactly once, in the order sent on its channel
	ReliableSequenced               // sent until acknowledged, but never delivered after a later one of its channel
	Notify                          // sequenced, never resent; the sender learns which ones arrive (Riptide 2.1+, RUDP)
	modeCount
)

// ModeCount is the number of modes.
const ModeCount = int(modeCount)

var modeNames = [modeCount]string{
	"unreliable", "unreliable-sequenced", "reliable", "reliable-ordered", "reliable-sequenced", "notify",
}

// String returns the mode's name as in configuration and metrics.
func (m Mode) String() string {
	if m < modeCount {
		return modeNames[m]
	}
	return "unknown"
}

// IsReliable reports whether the mode resends a message until it is acknowledged.
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
