// Package view has the state of a fleet as its operators see it. A field and its JSON are one.
package view

import "fmt"

// Fleet is a node's part in a fleet.
type Fleet struct {
	On        bool    `json:"on"` // false: the configuration has no fleet, and the rest has no meaning
	Name      string  `json:"name,omitempty"`
	Node      string  `json:"node,omitempty"`
	Server    string  `json:"server,omitempty"` // NATS server of the connection
	Connected bool    `json:"connected"`
	Current   bool    `json:"current"`         // the bans and drains in force are those of the fleet
	Error     string  `json:"error,omitempty"` // of the last attempt to share
	Bans      int     `json:"bans"`            // networks that the fleet knows, banned or just freed
	Drained   int     `json:"drained"`         // game servers that the fleet drains
	Waiting   int     `json:"waiting"`         // changes of this node that the fleet does not have yet
	Beyond    int     `json:"beyond"`          // bans and drains of this node for which the fleet has no room
	Received  uint64  `json:"received"`        // records of other nodes
	Sent      uint64  `json:"sent"`            // records of this node
	Invalid   uint64  `json:"invalid"`         // records that were ignored because they are not valid
	Conflicts uint64  `json:"conflicts"`       // changes of this node that met another node's change
	Lag       float64 `json:"lag"`             // seconds from the last change at another node until it was in force here

	Nodes    int      `json:"nodes"` // other nodes whose counts are known
	Reports  Reports  `json:"reports"`
	Players  Players  `json:"players"`
	Limits   Limits   `json:"limits"`
	Messages Messages `json:"messages"`
}

// Unshared returns why the fleet does not have this node's bans and drains, or "" if it has them, or there is none.
func (f *Fleet) Unshared() string {
	switch {
	case !f.On || f.Current && f.Waiting == 0:
		return ""
	case f.Error != "":
		return f.Error
	case !f.Current:
		return "the fleet does not answer: it has no majority, or is still starting"
	}
	return fmt.Sprintf("%d changes wait", f.Waiting)
}

// Exchange counts reports of one kind.
type Exchange struct {
	Received uint64 `json:"received"` // from other nodes
	Sent     uint64 `json:"sent"`     // by this node
	Invalid  uint64 `json:"invalid"`  // ignored because they are not valid
	NoRoom   uint64 `json:"no_room"`  // ignored, whole or in part, because there are too many
}

// Reports counts a node's reports of its sessions.
type Reports struct {
	Exchange
	Beyond int     `json:"beyond"` // servers of this node for which its reports have no room
	Lag    float64 `json:"lag"`    // seconds from the last change of counts at another node until it was known here
}

// Players is the state of the players that the fleet follows.
type Players struct {
	On      bool   `json:"on"`       // false: fleet.follow is off, and the rest has no meaning
	Known   int    `json:"known"`    // players of other nodes
	Nodes   int    `json:"nodes"`    // other nodes that have told their players
	Passed  uint64 `json:"passed"`   // datagrams that were passed on to the nodes with the players' sessions
	Taken   uint64 `json:"taken"`    // datagrams of this node's players that other nodes have passed on
	Answers uint64 `json:"answers"`  // other nodes' answers that were sent to their players
	Late    uint64 `json:"late"`     // datagrams that were dropped because too many waited, or NATS was away
	TooMany uint64 `json:"too_many"` // datagrams that were dropped because of the bounds of passing on
	Invalid uint64 `json:"invalid"`  // messages that were ignored because they are not valid
	NoRoom  uint64 `json:"no_room"`  // messages that were ignored, whole or in part, because there are too many players
	Beyond  uint64 `json:"beyond"`   // players of this node for which its messages have no room
	Left    uint64 `json:"left"`     // sessions that have moved to other nodes
	Came    uint64 `json:"came"`     // sessions that other nodes have moved here
}

// Limits is the state of the limits per address and per network that a node shares.
type Limits struct {
	On bool `json:"on"` // false: fleet.limits is off, and the rest has no meaning
	Exchange
	Told    uint64 `json:"told"`    // amounts of addresses and networks in this node's reports
	Charged uint64 `json:"charged"` // amounts of addresses and networks that were charged for other nodes
}

// Messages counts all messages between this node and NATS.
type Messages struct {
	In       uint64 `json:"in"`
	Out      uint64 `json:"out"`
	BytesIn  uint64 `json:"bytes_in"`
	BytesOut uint64 `json:"bytes_out"`
}
