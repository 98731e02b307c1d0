//go:build interop

package interop_test

import "testing"

// TestServerOfAnotherVersion reaches a server that speaks RakNet 10 alone, which refuses the 11 that it is asked for
// first. This server splits messages wrongly and takes a client's goodbye for its own end, so neither is tried.
func TestServerOfAnotherVersion(t *testing.T) {
	server := startServer(t, node, "jsp_server.js")
	between := startTidegate(t, route{protocol: "bedrock", transport: udp, server: server.port})
	client := startGoClient(t, between.ports[udp])
	client.await(t, "connected")
	server.await(t, "joined")
	talk(t, client, language{largest: largestRiptide})
}
