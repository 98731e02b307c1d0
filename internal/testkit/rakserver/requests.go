package rakserver

import (
	_ "unsafe" // for go:linkname

	_ "github.com/sandertv/go-raknet" // its variables begin before ours
)

// requests has the first datagrams of go-raknet's clients by their MTU. Version 1.15.0 adds them as they are sent,
// without a lock: two clients of one process that dial side by side race, and may end it by "concurrent map writes".
//
//go:linkname requests github.com/sandertv/go-raknet/internal/message.cachedOCR1
var requests map[uint16][]byte

// mtus are the ones that a client tries.
var mtus = [...]uint16{1492, 1200, 576}

// init adds the requests before any client dials, so that clients only read them.
func init() {
	const headers, unconnected, version = 20 + 8, "\x00\xff\xff\x00\xfe\xfe\xfe\xfe\xfd\xfd\xfd\xfd\x12\x34\x56\x78", 11
	for _, mtu := range mtus {
		request := make([]byte, mtu-headers)
		request[0] = 0x05 // Open Connection Request 1
		copy(request[1:], unconnected)
		request[17] = version
		requests[mtu] = request
	}
}
