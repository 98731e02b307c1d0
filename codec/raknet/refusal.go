package raknet

import (
	"slices"

	"tidegate/codec"
)

// refusals pairs the reasons of a refusal with the messages that say them (docs/protocols/raknet.md#refusals).
var refusals = []struct {
	reason codec.Reason
	id     byte
}{
	{codec.AlreadyConnected, idAlreadyConnected},
	{codec.ServerFull, idNoFreeConnections},
	{codec.Banned, idConnectionBanned},
	{codec.InvalidPassword, idInvalidPassword},
	{codec.Incompatible, idIncompatibleVersion},
	{codec.TooSoon, idRecentlyConnected},
}

// refusalID is the message that says a reason, if there is one.
func refusalID(reason codec.Reason) (id byte, ok bool) {
	for _, r := range refusals {
		if r.reason == reason {
			return r.id, true
		}
	}
	return 0, false
}

// refusalReason is the reason that a message says, if it is a refusal.
func refusalReason(id byte) (reason codec.Reason, ok bool) {
	switch id {
	case idRequiresPublicKey, idRequiresSecurity:
		return codec.Incompatible, true
	case idConnectionAttemptFailed:
		return codec.NoConnection, true
	}
	for _, r := range refusals {
		if r.id == id {
			return r.reason, true
		}
	}
	return codec.ReasonNone, false
}

// appendRefusal appends a refusal as our server side says it.
func (p *Protocol) appendRefusal(b []byte, id byte) []byte {
	if id == idIncompatibleVersion {
		m := incompatible{version: slices.Max(p.o.Versions), guid: p.o.GUID}
		return m.append(b)
	}
	m := refusal{id: id, guid: p.o.GUID}
	return m.append(b)
}
