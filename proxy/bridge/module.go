package bridge

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/policy"
)

// Program is a module of an operator: code that sees each message of a route before the message crosses.
type Program interface {
	// Loop returns the instance of a loop, by the loop's number.
	Loop(number int) Module
}

// Module is the instance of a Program in one loop. It is not safe for concurrent use.
type Module interface {
	// Handle gives the module a message. It reports whether the message goes on as it is. An error means that the module
	// has failed, or is not ready. Then it has sent nothing.
	Handle(c *Call) (passes bool, err error)
	// Ended tells the module that a session which it has seen has ended.
	Ended(now time.Time, session uint64)
}

// Call is a message for a Module, and what the module does with it.
type Call struct {
	Now     time.Time
	From    policy.Direction // the sender
	Session uint64
	Message *codec.Message
	State   *[]byte // what the module keeps with the session, at most MaxState bytes
	// Sent has the messages that the module has sent, in order. They are lent until the next Handle.
	Sent []Sent
}

// MaxState bounds the bytes that a module keeps with a session.
const MaxState = 4096

// Sent is a message from a module. It crosses as if From had sent it.
type Sent struct {
	From    policy.Direction
	Message codec.Message
}
