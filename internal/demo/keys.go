package demo

import (
	"time"

	"tidegate/codec"
)

// keyCount is the number of keys in R-Type's document, pressed and released. docs/protocols/rtype/messages.md
const keyCount = 12

// keyboard is a client that can only press keys. The server answers with updates: the entity is the client's number at
// the server, and the data is the key.
type keyboard struct {
	number  uint16 // our number, if known
	known   bool
	pressed [keyCount]time.Duration // time when each key was pressed; 0: never
}

// press records that a key is pressed.
func (k *keyboard) press(p *probe) { k.pressed[p.key()] = p.sent }

// answered returns the time when the key of an answer was pressed, or 0 for the key that is also a hello. It reports
// whether the answer is valid.
func (k *keyboard) answered(number uint16, data []byte) (sent time.Duration, ok bool) {
	if k.known && number != k.number || len(data) != 1 || data[0] >= keyCount {
		return 0, false
	}
	k.number, k.known = number, true
	sent = k.pressed[data[0]]
	return sent, sent > 0 || data[0] == helloKey
}

// helloKey opens a session of R-Type's document, so no client presses it at first.
const helloKey = 1

// key returns the key for a probe.
func (p *probe) key() byte { return byte(p.number % keyCount) }

// answer returns a server's answer to a client's key. It reports whether there is one.
func (f form) answer(number uint16, key []byte, mode codec.Mode) (m codec.Message, ok bool) {
	if len(key) != 1 || key[0] >= keyCount {
		return m, false
	}
	return f.wrap(append(appendUpdate(nil, uint32(number)), key...), number, mode), true
}

// replies gives send the server's replies to a client's message: the message itself, or the answers to its keys.
func (f form) replies(m *codec.Message, number uint16, mode codec.Mode, send func(codec.Message)) {
	if !f.keys {
		send(codec.Message{Payload: m.Payload, Pad: m.Pad, Mode: mode, ID: m.ID, HasID: m.HasID})
		return
	}
	_ = f.probes(m, func(_ uint16, key []byte) { // changed messages get no answer
		if reply, ok := f.answer(number, key, mode); ok {
			send(reply)
		}
	})
}
