package codec

import "time"

// Confirmer is a dialling Conn of a protocol whose servers accept a client before they count it as joined.
//
// Dialled with Hello.Tentative, it reports Connected when the server has accepted it, and holds back the step of the
// handshake that makes it join. Until Confirm the server's Conn reports no Connected. The server's messages are
// received meanwhile; messages that are sent wait. A server gives up a client that is not confirmed within seconds.
type Confirmer interface {
	Conn
	// Confirm joins the server. It has no effect on a connection that is not tentative, or has ended.
	Confirm(now time.Time)
}
