package codec

// Identified is a Conn of a client that says who it is as it opens the connection, before it asks to join. A proxy may
// know that it is there already, from another address.
type Identified interface {
	Conn
	// Identity is the client's RakNet GUID.
	Identity() uint64
}
