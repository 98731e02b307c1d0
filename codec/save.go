package codec

import "time"

// Saver is a Conn whose whole state is data. A proxy so hands its sessions to its successor, or to another machine.
type Saver interface {
	Conn
	// Save appends the connection's state to b as one record (internal/record), for Restorer. It does not change the
	// connection. The caller has polled all events and transmitted all datagrams before. Times are durations from now.
	Save(now time.Time, b []byte) []byte
}

// Restorer is a Protocol that makes a connection from its saved state.
type Restorer interface {
	Protocol
	// Restore makes the connection that Save wrote. The Protocol has the same options as the one before, or others that
	// the session then follows where it can. from is as in Hello. A record is hostile input: an error, which wraps
	// ErrSaved, says that it is not readable or breaks a bound.
	Restore(now time.Time, from Addresser, saved []byte) (Conn, error)
}
