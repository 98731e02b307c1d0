package codec

import "time"

// Echoer is a Conn whose client can prove its address at any time, by saying back what only that address was told.
type Echoer interface {
	Conn
	// Proved reports whether the client has.
	Proved() bool
}

// Renewer is a Conn that knows what its client knows of a server's world.
type Renewer interface {
	Conn
	// Renew says that another server, or the same one started again, has the session now: its world is another.
	Renew(now time.Time)
}

// Idler is a Protocol whose clients may say nothing for long.
type Idler interface {
	Protocol
	// IdleTimeout is for how long. The Conn itself ends the session then.
	IdleTimeout() time.Duration
}
