//go:build interop

package interop_test

import (
	"encoding/hex"
	"slices"
	"testing"
)

// language is how a client puts a message.
type language struct {
	ids        bool // beside the payload; else a bridged message carries its ID in the payload
	bridged    bool // the far side has another language
	unreliable bool // the client can send unreliable messages
	largest    int  // payload, in bytes
}

// message makes message i, which is like no other. The ID is spread over one, two and three bytes of Riptide's wire.
func (l language) message(i int, reliable bool) order {
	id := uint16(i * 997)
	var payload []byte
	if !l.ids {
		payload = append(payload, packetByte)
	}
	if !l.ids && l.bridged {
		payload = append(payload, byte(id), byte(id>>8))
	}
	payload = append(payload, byte(i))
	size := 1 + i*i*(l.largest-1)/(messages*messages) // the last is the largest
	for len(payload) < size {
		payload = append(payload, byte(i+len(payload)))
	}
	o := order{Do: "send", Reliable: reliable, Payload: hex.EncodeToString(payload)}
	if l.ids {
		o.ID = id
	}
	return o
}

// messages is how many a conversation has before its last one. pytide gives a connection up after 30 to 150
// reliable messages: it counts the attempts of earlier ones as those of later ones.
const messages = 40

// talk has a client send messages to a server that echoes, and wants each back as it was: a reliable one exactly once,
// an unreliable one at most once, and one of them at all.
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
	last := l.message(messages, true) // what would come twice has come by then
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

// matches reports whether an event is the echo of a message. An unreliable one may come back reliably: some servers
// send nothing else.
func (l language) matches(o order, e event) bool {
	return e.Payload == o.Payload && e.ID == o.ID && (e.Reliable || !o.Reliable || !l.ids)
}
