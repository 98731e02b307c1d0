package codec

import "time"

// Excuser is a Conn that gives up a peer for what is lost on the way.
type Excuser interface {
	Conn
	// Excuse has it not do so for what is lost until a time: that is our own fault, who have no time to listen.
	Excuse(until time.Time)
}
