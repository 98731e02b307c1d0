package demo

import (
	"testing"
	"time"

	"tidegate/codec"
)

func TestKeyboardBelievesOnlyWhatWasPressed(t *testing.T) {
	var k keyboard
	k.press(&probe{number: 2, sent: time.Second})
	k.press(&probe{number: 2 + keyCount, sent: 2 * time.Second})
	for _, step := range []struct {
		what   string
		number uint16
		data   []byte
		sent   time.Duration
		ok     bool
	}{
		{"the hello", 7, []byte{helloKey}, 0, true},
		{"a key that was pressed twice", 7, []byte{2}, 2 * time.Second, true},
		{"a key that was not", 7, []byte{3}, 0, false},
		{"no key", 7, []byte{keyCount}, 0, false},
		{"too much", 7, []byte{2, 2}, 0, false},
		{"another player's", 8, []byte{2}, 0, false},
	} {
		if sent, ok := k.answered(step.number, step.data); sent != step.sent || ok != step.ok {
			t.Errorf("%s: %v, %v; want %v, %v", step.what, sent, ok, step.sent, step.ok)
		}
	}
}

// TestReplies returns a message unchanged, and answers a key with an update of its client's entity.
func TestReplies(t *testing.T) {
	for _, c := range []struct {
		to   string
		said []byte
		want string
	}{
		{"rtype", []byte{3, 0, 0, 0, 9, 0, 0, 1}, "\x03\x00\x00\x00\x09\x00\x00\x01"},
		{"rtype-0.0.1", []byte{5}, "\x03\x00\x00\x02\x01\x00\x00\x05"},
		{"rtype-0.0.1", []byte{keyCount}, ""},
	} {
		pair, err := NewPair("riptide-2.2", c.to)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		said := codec.Message{Payload: c.said}
		formOf(pair, pair.to).replies(&said, 0x0201, codec.Unreliable, func(m codec.Message) { got += string(m.Payload) })
		if got != c.want {
			t.Errorf("%s server replies %x to %x, want %x", c.to, got, c.said, c.want)
		}
	}
}
