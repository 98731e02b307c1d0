package demo

import (
	"time"

	"tidegate/codec"
)

// keyCount is how many keys R-Type's document knows, pressed and released. docs/protocols/rtype.md#messages
const keyCount = 12

// keyboard is a player who can only press keys, and is answered by updates: the entity is the player's number at the
// server, and the data is the key.
type keyboard struct {
	player  uint16 // our number, once known
	known   bool
	pressed [keyCount]time.Duration // when each key last was; 0: never
}

// press notes that a key goes down.
func (k *keyboard) press(p *probe) { k.pressed[p.key()] = p.sent }

// answered returns when the key of an answer was pressed, 0 for the one that is also a hello, and whether there is such
// an answer.
func (k *keyboard) answered(player uint16, data []byte) (sent time.Duration, ok bool) {
	if k.known && player != k.player || len(data) != 1 || data[0] >= keyCount {
		return 0, false
	}
	k.player, k.known = player, true
	sent = k.pressed[data[0]]
	return sent, sent > 0 || data[0] == helloKey
}

// helloKey opens a session of R-Type's document, and so is pressed once by nobody.
const helloKey = 1

// key is the key that stands for a probe.
func (p *probe) key() byte { return byte(p.number % keyCount) }

// answer is what a server says to a key of a player, if it is one.
func (f form) answer(player uint16, key []byte, mode codec.Mode) (m codec.Message, ok bool) {
	if len(key) != 1 || key[0] >= keyCount {
		return m, false
	}
	return f.wrap(append(appendUpdate(nil, uint32(player)), key...), player, mode), true
}

// replies gives send what a server says to a player's message: the message itself, or the answers to its keys.
func (f form) replies(m *codec.Message, player uint16, mode codec.Mode, send func(codec.Message)) {
	if !f.keys {
		send(codec.Message{Payload: m.Payload, Pad: m.Pad, Mode: mode, ID: m.ID, HasID: m.HasID})
		return
	}
	_ = f.probes(m, func(_ uint16, key []byte) { // what was changed gets no answer
		if reply, ok := f.answer(player, key, mode); ok {
			send(reply)
		}
	})
}
