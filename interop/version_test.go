//go:build interop

package interop_test

import "testing"

// TestServerOfAnotherVersion connects to a server with RakNet 10 only, which refuses the version 11 of the first
// request. This server splits messages wrongly and ends when a client says goodbye, so the test tries neither.
func TestServerOfAnotherVersion(t *testing.T) {
	server := startServer(t, node, "jsp_server.js")
	between := startTidegate(t, route{protocol: "bedrock", transport: udp, server: server.port})
	client := startGoClient(t, between.ports[udp])
	client.await(t, "connected")
	server.await(t, "joined")
	talk(t, client, language{largest: largestRiptide})
}
