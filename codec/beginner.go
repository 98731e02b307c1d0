package codec

// Beginner is a Protocol that knows how its clients' datagrams begin, so that others can be dropped before anything is
// known of a session: by the kernel, if it helps.
type Beginner interface {
	Protocol
	// Begins reports whether a client's datagram can begin with a byte, at any time of its session. No datagram
	// of its is empty.
	Begins(first byte) bool
	// Opens reports whether what begins with a byte is only said by clients who have no session yet, so that one who has can do
	// without it: in a flood it is anybody's, whoever's name it bears.
	Opens(first byte) bool
}
