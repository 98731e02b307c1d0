package raknet

import (
	"cmp"
	"errors"
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

// offline explains an offline message and records whether the connection will be encrypted.
func (d *describer) offline(id byte, b []byte) (string, error) {
	switch id {
	case idUnconnectedPing, idUnconnectedPingOpen:
		return describePing(b)
	case idUnconnectedPong:
		pong, err := ParsePong(b)
		return fmt.Sprintf("unconnected pong: time %d, GUID %016x, %q", pong.Time, pong.GUID, pong.Data), err
	case idOpenConnectionRequest1:
		var m openConnectionRequest1
		err := m.parse(b)
		return fmt.Sprintf("open connection request 1: version %d, probing for MTU %d", m.version, m.length+udpOverhead), err
	case idOpenConnectionReply1:
		return describeReply1(b)
	case idOpenConnectionRequest2:
		return describeRequest2(b)
	case idOpenConnectionReply2:
		var m openConnectionReply2
		if err := m.parse(b); err != nil {
			return "", err
		}
		d.restart(m.encrypts)
		text := fmt.Sprintf("open connection reply 2: GUID %016x, client is %s, MTU %d", m.guid, m.client, m.mtu)
		if m.encrypts {
			text += ", encrypted from here on"
		}
		return text, nil
	case idIncompatibleVersion:
		var m incompatible
		err := m.parse(b)
		return fmt.Sprintf("refused, incompatible version: server has %d, GUID %016x", m.version, m.guid), err
	case idOutOfBand:
		return "out of band message of " + words.Count(len(b), "byte"), nil
	}
	var m refusal
	err := m.parse(b)
	reason := "connection attempt failed"
	if r, ok := refusalReason(m.id); ok {
		reason = r.String()
	}
	return fmt.Sprintf("refused, %s: GUID %016x", reason, m.guid), err
}

// restart forgets the previous connection: numbers and split IDs start again with the next one.
func (d *describer) restart(encrypted bool) { *d = describer{encrypted: encrypted, memory: d.memory} }

func describePing(b []byte) (string, error) {
	var m unconnectedPing
	err := m.parse(b)
	text := fmt.Sprintf("unconnected ping: time %d, GUID %016x", m.time, m.guid)
	if m.id == idUnconnectedPingOpen {
		text += ", only if there is a free place"
	}
	return text, err
}

func describeReply1(b []byte) (string, error) {
	var m openConnectionReply1
	err := m.parse(b)
	text := fmt.Sprintf("open connection reply 1: GUID %016x, MTU %d", m.guid, m.mtu)
	if m.hasCookie {
		text += fmt.Sprintf(", cookie %08x", m.cookie)
	}
	if m.encrypts {
		text += ", public key"
	}
	return text, err
}

// describeRequest2 explains a second request. Its length shows whether it has a cookie, because it may be the first
// datagram of a capture.
func describeRequest2(b []byte) (string, error) {
	const plain4, plain6 = 1 + len(magic) + address4Size + 2 + 8, 1 + len(magic) + address6Size + 2 + 8
	var m openConnectionRequest2
	err := m.parse(b, len(b) != plain4 && len(b) != plain6)
	text := fmt.Sprintf("open connection request 2: server is %s, MTU %d, GUID %016x", m.server, m.mtu, m.guid)
	if m.hasCookie {
		text += fmt.Sprintf(", cookie %08x", m.cookie)
	}
	return text, err
}

// describeContent explains a whole online message: RakNet's own with its fields, the game's by its first byte. One of
// RakNet's own that is malformed is unusual: its receiver may be a side that never reads it.
func describeContent(b []byte, pad uint8) (text string, err error) {
	if b[0] >= idFirstUser {
		return fmt.Sprintf("game message 0x%02x, %s: %.16x", b[0], size(b, pad), b), nil
	}
	if text, err = describeOwn(b); err != nil {
		return "malformed library message", fmt.Errorf("%w: %w", explain.ErrUnusual, err)
	}
	return text, nil
}

// describeOwn explains one of RakNet's own messages.
func describeOwn(b []byte) (string, error) {
	switch b[0] {
	case idConnectedPing:
		var m connectedPing
		err := m.parse(b)
		return fmt.Sprintf("connected ping: time %d", m.time), err
	case idConnectedPong:
		var m connectedPong
		err := m.parse(b)
		return fmt.Sprintf("connected pong: time of ping %d, time %d", m.pingTime, m.pongTime), err
	case idConnectionRequest:
		return describeConnectionRequest(b)
	case idConnectionRequestAccepted:
		var m connectionRequestAccepted
		err := m.parse(b)
		return fmt.Sprintf("connection request accepted: client is %s, index %d, %d addresses of the server, "+
			"time of request %d, time %d", m.client, m.index, m.addresses, m.requestTime, m.replyTime), err
	case idNewIncomingConnection:
		var m newIncomingConnection
		err := m.parse(b)
		return fmt.Sprintf("new incoming connection: server is %s, %d addresses of the client, server's time %d, time %d",
			m.server, m.addresses, m.serverTime, m.clientTime), err
	case idDetectLostConnections:
		return "detect lost connections", nil
	case idDisconnectionNotification:
		return "disconnection", nil
	}
	if reason, ok := refusalReason(b[0]); ok {
		return "refused, " + reason.String(), nil
	}
	return fmt.Sprintf("library message 0x%02x, %s: %.16x", b[0], words.Count(len(b), "byte"), b), nil
}

func describeConnectionRequest(b []byte) (string, error) {
	var m connectionRequest
	err := m.parse(b)
	text := fmt.Sprintf("connection request: GUID %016x, time %d", m.guid, m.time)
	switch {
	case m.encrypts:
		text += ", encrypted"
	case len(m.password) > 0:
		text += fmt.Sprintf(", password %q", m.password)
	}
	return text, err
}

// Bounds of a describer's memory of each direction.
const (
	describedSplits = 8 << 20 // bytes of incomplete split messages
	describedRecent = 1024    // reliable numbers: twice the number that a stock peer has in flight
)

// describedDirection is a describer's memory of one direction: the parts of split messages, and the newest reliable
// numbers, to recognize resends.
type describedDirection struct {
	splits *reassembly
	recent []Seq24 // the number plus 1 of the last message at index (number mod describedRecent); 0 for none
}

// capsules explains each message of a data datagram, up to the first that is malformed. Errors that wrap
// explain.ErrUnusual are of content, and end nothing.
func (w *describedDirection) capsules(body []byte) (messages []string, err error) {
	for !isPadding(body) {
		var c capsule
		rest, fault := c.parse(body)
		if fault != nil {
			return messages, fault
		}
		texts, fault := w.capsule(&c)
		messages = append(messages, texts...)
		if fault != nil && !errors.Is(fault, explain.ErrUnusual) {
			return messages, fault
		}
		err, body = cmp.Or(err, fault), rest
	}
	return messages, err
}

// capsule explains one capsule, and the message that its part completes.
func (w *describedDirection) capsule(c *capsule) ([]string, error) {
	again := c.mode.IsReliable() && w.seen(c.reliable)
	text := describeDelivery(c)
	if again {
		text += ", sent again"
	}
	if !c.split {
		content, err := describeContent(c.payload, c.pad)
		return []string{text + ": " + content}, err
	}
	part := fmt.Sprintf("%s: part %d of %d of split message %d, %s",
		text, c.splitIndex+1, c.splitCount, c.splitID, size(c.payload, c.pad))
	if again {
		return []string{part}, nil
	}
	joined, pad, err := w.join(c)
	if joined == nil {
		return []string{part}, err
	}
	content, err := describeContent(joined, pad)
	return []string{part, fmt.Sprintf("split message %d complete: %s", c.splitID, content)}, err
}

// join stores a part and returns the message if that was its last one.
func (w *describedDirection) join(c *capsule) (joined []byte, pad uint8, err error) {
	if w.splits == nil {
		w.splits = &reassembly{budget: describedSplits, partRoom: maxDescribedPart, memory: new(buffers)}
	}
	if judged, err := w.splits.judge(c); judged != fresh {
		return nil, 0, err
	}
	a := w.splits.add(0, c)
	if a == nil {
		return nil, 0, nil
	}
	defer w.splits.forget(a)
	return w.splits.join(a, false), a.pad, nil
}

// maxDescribedPart is the room reserved for a part: no path carries a larger datagram whole.
const maxDescribedPart = 1500

// held returns the size of the memory in bytes.
func (w *describedDirection) held() int {
	n := 4 * len(w.recent)
	if w.splits != nil {
		n += w.splits.held + w.splits.memory.kept + assemblyCost
	}
	return n
}

// seen records a reliable number and reports whether it was seen before.
func (w *describedDirection) seen(n Seq24) bool {
	if w.recent == nil {
		w.recent = make([]Seq24, describedRecent)
	}
	slot := &w.recent[n%describedRecent]
	was := *slot
	*slot = n + 1
	return was == n+1
}

// describeDelivery names the mode and its numbers.
func describeDelivery(c *capsule) string {
	var text strings.Builder
	text.WriteString(c.mode.String())
	if c.mode.IsReliable() {
		fmt.Fprintf(&text, " #%d", c.reliable)
	}
	if isSequenced(c.mode) {
		fmt.Fprintf(&text, " sequence %d", c.sequence)
	}
	if hasChannel(c.mode) {
		fmt.Fprintf(&text, " order %d channel %d", c.order, c.channel)
	}
	return text.String()
}

// size describes the length of a payload with pad unused bits at its end.
func size(payload []byte, pad uint8) string {
	if pad == 0 {
		return words.Count(len(payload), "byte")
	}
	return words.Count(len(payload)*8-int(pad), "bit")
}
