// Package proxy runs a proxy: it gives the machine in package relay its sockets, its clock and the requests of
// operators. It joins clients to game servers.
//
// Start with Server (run.go). It runs loops. A loop (loop.go) has one Relay, a poller and a mailbox. Other
// goroutines ask a loop by its mailbox, and the Relay answers between two batches of datagrams. Server.Ask passes the
// requests of operators on: each is a value of package relay, and the Server does not know what it asks. The root's
// TestWall bounds the names by which the Server reaches a Relay.
//
// # Files
//
//   - run.go: life of a Server
//   - loop.go, clock.go, mailbox.go, thin.go: loops, their time, commands for them, and requests of operators
//   - listen.go, inherit.go: listening sockets, those of a predecessor, and new settings
//   - kernel.go: kernel offload
//   - handover.go, stacked.go: the sessions go to a successor, but for stacked ones
//   - upstreams.go: servers
package proxy
