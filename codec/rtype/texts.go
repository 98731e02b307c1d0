package rtype

import "bytes"

// The game's texts. No instruction begins with their first bytes. docs/protocols/rtype.md#session
var (
	ping    = []byte("ping")
	pong    = []byte("pong")
	goodbye = []byte("You have been disconnected :(")
)

// isGoodbye reports whether d is the server's goodbye; some versions send the zero that ends it in memory.
func isGoodbye(d []byte) bool { return bytes.Equal(bytes.TrimSuffix(d, []byte{0}), goodbye) }
