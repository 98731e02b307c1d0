package fleet

import "encoding/json"

// maxChanges bounds the records of each kind that a successor gets.
const maxChanges = 10_000

// Pending is what a successor has to know of the buckets while NATS is away. It has the bans in force of its node. From
// these it does not know which bans have been removed, and which drains an operator may end.
type Pending struct {
	Bans   []Change `json:"bans,omitempty"`   // that the bucket does not have yet
	Drains []Change `json:"drains,omitempty"` // all
	// Players are those of other nodes.
	Players []NodePlayers `json:"players,omitempty"`
}

// Change is a record of a bucket, or one that it will have.
type Change struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
	Known bool            `json:"known,omitempty"` // the bucket has it
}
