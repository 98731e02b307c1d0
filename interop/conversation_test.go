//go:build interop

package interop_test

import (
	"encoding/hex"
	"slices"
	"testing"
)

// language is the message format of a client.
type language struct {
	ids        bool // the ID is a field of its own; otherwise a bridged message has its ID in the payload
	bridged    bool // the other side uses another language
	bare       bool // ENet: no packet byte
	unnumbered bool // RakNet, bridged to ENet: the packet byte says that there is no ID
	unreliable bool // the client can send unreliable messages
	largest    int  // most bytes of payload
}

// message returns message i, different from all others. The IDs take one, two and three bytes on Riptide's wire.
func (l language) message(i int, reliable bool) order {
	id := uint16(i * 997)
	var payload []byte
	switch {
	case l.unnumbered:
		payload = append(payload, packetByte+1)
	case !l.ids && !l.bare:
		payload = append(payload, packetByte)
	}
	if !l.ids && l.bridged {
		payload = append(payload, byte(id), byte(id>>8))
	}
	payload = append(payload, byte(i))
	size := 1 + i*i*(l.largest-1)/(messages*messages) // the last one is the largest
	for len(payload) < size {
		payload = append(payload, byte(i+len(payload)))
	}
	o := order{Do: "send", Reliable: reliable, Payload: hex.EncodeToString(payload)}
	if l.ids {
		o.ID = id
	}
	return o
}

// messages is the length of a conversation before its last message. pytide closes a connection after 30 to 150 reliable
// messages, since it adds up the attempts of all messages.
const messages = 40

// talk makes a client send messages to an echo server and checks the echoes: each reliable message comes back exactly
// once, each unreliable one at most once, and at least one of these comes back.
func talk(t *testing.T, client *peer, l language) {
	t.Helper()
	var sent, reliable []order
	for i := range messages {
		o := l.message(i, !l.unreliable || i%4 != 0)
		sent = append(sent, o)
		if o.Reliable {
			reliable = append(reliable, o)
		}
	}
	for _, o := range sent {
		client.order(t, o)
	}
	last := l.message(messages, true) // a duplicate would have arrived by then
	heard := make([]int, len(sent))
	for missing := len(reliable); ; {
		e := client.await(t, "received")
		if l.matches(last, e) {
			break
		}
		i := slices.IndexFunc(sent, func(o order) bool { return l.matches(o, e) })
		if i < 0 {
			t.Fatalf("%s: message %d of %d bytes came back unlike any that was sent", client.name, e.ID, len(e.Payload)/2)
		}
		heard[i]++
		if sent[i].Reliable && heard[i] == 1 {
			if missing--; missing == 0 {
				client.order(t, last)
			}
		}
	}
	unreliable := 0
	for i, n := range heard {
		if n > 1 {
			t.Errorf("%s: message %d (reliable: %t) came back %d times", client.name, i, sent[i].Reliable, n)
		}
		if !sent[i].Reliable {
			unreliable += n
		}
	}
	if l.unreliable && unreliable == 0 {
		t.Errorf("%s: no unreliable message came back", client.name)
	}
}

// matches reports whether an event is a message's echo. An unreliable message may come back reliably, since some
// servers send only reliable ones.
func (l language) matches(o order, e event) bool {
	return e.Payload == o.Payload && e.ID == o.ID && (e.Reliable || !o.Reliable || !l.ids)
}
