// Package saved has the records of sessions, and of everything beside them that a successor or another node needs. They
// are values without behaviour. Package relay writes and reads them. Numbers of fields never change their meaning.
//
// A session as a record has two parts. Session is restored at once: it has all facts that lists, counts and limits
// need. Terminated has the connections and the bridge of a terminated session. It is larger, and is restored later.
package saved

import "tidegate/internal/record"

// Kinds of records, and their versions.
const (
	SessionKind   = "session"
	RelayKind     = "relay"
	Version       = 1 // of both
	TravelKind    = "travelling session"
	TravelVersion = 1
)

var (
	_ = record.Register[Session](Version, SessionKind)
	_ = record.Register[Relay](Version, RelayKind)
	_ = record.Register[Travel](TravelVersion, TravelKind)
)
