package raknet

import (
	"fmt"

	"tidegate/codec/explain"
	"tidegate/internal/words"
)

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
