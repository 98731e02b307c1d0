package raknet

import (
	"fmt"

	"tidegate/internal/words"
)

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
