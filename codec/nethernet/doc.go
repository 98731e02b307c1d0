// Package nethernet reads and writes what Minecraft Bedrock's NetherNet says in the open: WebRTC without a WebRTC
// library. It has no sockets, clocks or goroutines. docs/protocols/nethernet.md describes the wire, and says which part
// of Tidegate uses this package.
//
// A join exchanges two session descriptions over HTTP (description.go, rewrite.go), each signed by an identity
// (identity.go, token.go). Datagrams follow on one UDP port: kind.go tells them apart, and binding.go reads the STUN
// requests that prove who sends. Inside the encrypted connection, messages travel in fragments (fragment.go). status.go
// translates server lists. conn.go and call.go have connections above a Stack, to clients and to servers, and agent.go
// the checks of a path to a server. Start with Description and Binding.
package nethernet
