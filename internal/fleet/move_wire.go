package fleet

import (
	"encoding/json"
	"errors"

	"tidegate/internal/stray"
)

// Bounds of a move.
const (
	mostMoving   = 16        // sessions in a message
	maxMoving    = 512 << 10 // bytes of a session; the proxy's bound
	maxMove      = 960 << 10 // bytes of a message; below the 1 MiB that NATS allows by default
	maxMoveBatch = 640 << 10 // bytes of all sessions in a message, of which one may be larger
)

var errMove = errors.New("a move of sessions that no node sends")

// Steps of a move. The node that has the sessions offers copies of them. It takes out the ones that the other node can
// take, and gives them.
const (
	stepOffer = "offer"
	stepGive  = "give"
)

// moveWire is a step of a move.
type moveWire struct {
	Step     string        `json:"step"`
	Node     string        `json:"node"` // that has the sessions
	Move     string        `json:"move"` // names the move
	Sessions []sessionWire `json:"sessions"`
}

// sessionWire is a session, or the copy of one.
type sessionWire struct {
	Client stray.Key `json:"client"`
	At     string    `json:"at,omitempty"` // the node at which the client's datagrams arrive; absent: the sender
	Record []byte    `json:"record"`
}

// movedWire is the answer: which of the sessions the node can take, or has taken.
type movedWire struct {
	Taken []bool `json:"taken"`
}

// parseMove reads a step. Its sender may be hostile: all parts are checked and bounded.
func parseMove(b []byte) (*moveWire, error) {
	m := new(moveWire)
	if len(b) > maxMove || json.Unmarshal(b, m) != nil {
		return nil, errMove
	}
	if m.Step != stepOffer && m.Step != stepGive || !isName(m.Node, maxNode) ||
		!isWord(m.Move) || len(m.Sessions) == 0 || len(m.Sessions) > mostMoving {
		return nil, errMove
	}
	seen := make(map[stray.Key]bool)
	for _, s := range m.Sessions {
		if seen[s.Client] || len(s.Record) > maxMoving || len(s.Record) == 0 || s.At != "" && !isName(s.At, maxNode) {
			return nil, errMove
		}
		seen[s.Client] = true
	}
	return m, nil
}

// parseMoved reads the answer for a number of sessions.
func parseMoved(b []byte, sessions int) ([]bool, error) {
	var m movedWire
	if len(b) > maxMove || json.Unmarshal(b, &m) != nil || len(m.Taken) != sessions {
		return nil, errMove
	}
	return m.Taken, nil
}
