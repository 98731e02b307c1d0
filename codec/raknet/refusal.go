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

// speaker is the server in whose name our server side answers a client. A zero version is the newest of ours.
type speaker struct {
	guid    uint64
	version uint8
}

// self is our server side when it speaks for no other server.
func (p *Protocol) self() speaker { return speaker{guid: p.o.GUID} }

// appendRefusal appends a refusal as a server says it.
func (p *Protocol) appendRefusal(b []byte, id byte, by speaker) []byte {
	if id == idIncompatibleVersion {
		m := incompatible{version: by.version, guid: by.guid}
		setDefault(&m.version, slices.Max(p.o.Versions))
		return m.append(b)
	}
	m := refusal{id: id, guid: by.guid}
	return m.append(b)
}
