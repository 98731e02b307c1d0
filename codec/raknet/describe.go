package raknet

import (
	"fmt"
	"strings"

	"tidegate/codec/explain"
	"tidegate/internal/words"
)

// Explain explains the datagrams of one connection from its first datagram on. It is not safe for concurrent use.
func (*Protocol) Explain(m *explain.Memory) explain.Conversation {
	return (&describer{memory: m}).describe
}

// describer remembers whether the peers agreed to encrypt, and the parts of split messages.
type describer struct {
	encrypted  bool
	fromClient describedDirection
	fromServer describedDirection
	memory     *explain.Memory
}

// describe explains a datagram as a whole, and each message in it. An error wraps codec.ErrMalformed and says that at
// least a part is not RakNet. The explained parts are returned all the same.
func (d *describer) describe(fromServer bool, b []byte) (text string, messages []string, err error) {
	if id, ok := offlineID(b); ok {
		if text, err = d.offline(id, b); err != nil {
			return "", nil, err
		}
		return text, nil, nil
	}
	if isBareGoodbye(b) {
		return "disconnection, outside the session", nil, nil
	}
	if d.encrypted {
		return "ciphertext of " + words.Count(len(b), "byte"), nil, nil
	}
	var got datagram
	if err := got.parse(b); err != nil {
		return "", nil, err
	}
	if got.kind != dataDatagram {
		text, err = describeAcks(got.kind, got.body)
		return text, nil, err
	}
	way := &d.fromClient
	if fromServer {
		way = &d.fromServer
	}
	messages, err = way.capsules(got.body)
	if !d.memory.Hold(d.fromClient.held() + d.fromServer.held()) {
		d.fromClient, d.fromServer = describedDirection{}, describedDirection{}
	}
	return fmt.Sprintf("data #%d", got.number), messages, err
}

// describeAcks names the datagrams that an ACK or NACK lists.
func describeAcks(kind datagramKind, body []byte) (string, error) {
	var list ackReader
	if err := list.parse(body); err != nil {
		return "", err
	}
	var text strings.Builder
	text.WriteString("NACK of")
	if kind == ackDatagram {
		text.Reset()
		text.WriteString("ACK of")
	}
	for separator := " "; ; separator = ", " {
		r, ok := list.next()
		switch {
		case !ok && separator == " ":
			return text.String() + " nothing", nil
		case !ok:
			return text.String(), nil
		case r.first == r.last:
			fmt.Fprintf(&text, "%s#%d", separator, r.first)
		default:
			fmt.Fprintf(&text, "%s#%d-#%d", separator, r.first, r.last)
		}
	}
}
