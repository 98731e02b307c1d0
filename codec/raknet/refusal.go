package raknet

import (
	"slices"

	"tidegate/codec"
)

// refusals pairs the reasons of a refusal with their messages (docs/protocols/raknet/join.md#refusals).
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

// refusalID returns the message for a reason, if there is one.
func refusalID(reason codec.Reason) (id byte, ok bool) {
	for _, r := range refusals {
		if r.reason == reason {
			return r.id, true
		}
	}
	return 0, false
}

// refusalReason returns the reason of a message, if it is a refusal.
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

// serverIdentity is the server in whose name our server side answers a client. A zero version means our newest.
type serverIdentity struct {
	guid    uint64
	version uint8
}

// self returns our own identity, for answers without another server.
func (p *Protocol) self() serverIdentity { return serverIdentity{guid: p.o.GUID} }

// appendRefusal appends a refusal in a server's name.
func (p *Protocol) appendRefusal(b []byte, id byte, by serverIdentity) []byte {
	if id == idIncompatibleVersion {
		m := incompatible{version: by.version, guid: by.guid}
		setDefault(&m.version, slices.Max(p.o.Versions))
		return m.append(b)
	}
	m := refusal{id: id, guid: by.guid}
	return m.append(b)
}
