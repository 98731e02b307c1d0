package fleet

import "time"

// Status is the state of a Fleet.
type Status struct {
	Connected bool          // to a NATS server
	Current   bool          // the bans and drains in force are those of the buckets
	Server    string        // the NATS server
	Error     string        // of the last attempt to share; empty: none
	Records   int           // networks with a ban or a removal
	Drained   int           // game servers
	Waiting   int           // changes of this node that the buckets do not have yet
	Beyond    int           // bans and drains of this node for which the fleet has no room
	Received  uint64        // records of other nodes
	Sent      uint64        // records of this node
	Invalid   uint64        // records that were ignored because they are not valid
	Conflicts uint64        // changes of this node that met another change of the same network or server
	Lag       time.Duration // from the last change at another node until it was in force here, by both clocks

	Nodes   int // other nodes whose counts are known
	Reports Reports
	Players PlayerStatus
	Budgets BudgetStatus
	// MessagesIn and MessagesOut are the messages of NATS, of all kinds, with their bytes.
	MessagesIn, MessagesOut, BytesIn, BytesOut uint64
}

// Exchange counts reports of one kind.
type Exchange struct {
	Sent     uint64 // by this node
	Received uint64 // from other nodes
	Invalid  uint64 // that were ignored because they are not valid
	NoRoom   uint64 // of other nodes that were ignored, whole or in part, because there are too many
}

// Reports counts the reports of sessions.
type Reports struct {
	Exchange
	Beyond int           // servers of this node for which its reports have no room
	Lag    time.Duration // of the last report with other counts than before, by both clocks
}

// BudgetStatus counts what a node shares of its limits.
type BudgetStatus struct {
	Exchange
	On      bool
	Told    uint64 // amounts of sources in this node's reports
	Charged uint64 // amounts of sources that were charged for other nodes
}

// PlayerStatus is the state of the players that a Fleet follows.
type PlayerStatus struct {
	On      bool
	Known   int    // players of other nodes
	Nodes   int    // other nodes that have told their players
	Passed  uint64 // datagrams passed on to other nodes
	Taken   uint64 // datagrams that other nodes have passed on
	Answers uint64 // other nodes' answers that were sent to their players
	Late    uint64 // datagrams that were dropped because too many waited for a node, or NATS was away
	TooMany uint64 // datagrams that were dropped because of the budgets
	Invalid uint64 // messages that were ignored because they are not valid
	NoRoom  uint64 // messages that were ignored, whole or in part, because there are too many players
	Beyond  uint64 // players of this node for which its messages have no room
	Left    uint64 // sessions that have moved to other nodes
	Came    uint64 // sessions that other nodes have moved here
}
