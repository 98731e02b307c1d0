package relay

import (
	"tidegate/codec"
	"tidegate/internal/policy"
	"tidegate/proxy/stats"
	"tidegate/session"
)

// Bounds of watches.
const (
	maxWatches  = 16  // of a Relay
	maxKinds    = 256 // kinds of messages that a watch counts by themselves
	otherKindID = -2  // the ID of all other kinds
)

// MessageKind is a kind of a session's messages.
type MessageKind struct {
	From policy.Direction
	Mode codec.Mode
	ID   int // -1: the message has none; -2: all kinds beyond a bound
}

// MessageCount is the traffic of a kind.
type MessageCount struct {
	MessageKind
	stats.Traffic
}

// watch counts a session's messages by their kind, while an operator looks at the session.
type watch struct {
	entry *Entry
	kinds map[MessageKind]*stats.Traffic
}

// watches are a Relay's watches. Without one, a message costs one comparison.
type watches map[session.ID]*watch

// count counts a message of a session, if the session is watched.
func (w watches) count(id session.ID, from policy.Direction, m *codec.Message) {
	if len(w) == 0 {
		return
	}
	one := w[id]
	if one == nil {
		return
	}
	kind := MessageKind{from, m.Mode, -1}
	if m.HasID {
		kind.ID = int(m.ID)
	}
	traffic := one.kinds[kind]
	if traffic == nil && len(one.kinds) >= maxKinds {
		kind.ID = otherKindID
		traffic = one.kinds[kind]
	}
	if traffic == nil {
		traffic = new(stats.Traffic)
		one.kinds[kind] = traffic
	}
	traffic.Add(m)
}
