// Package admission decides about input: who may enter, which traffic may pass, and how much may go to a client that
// has not proved its address. It knows no Relay and no session. The Relay asks, and carries out each verdict. Like the
// Relay, it has no I/O, no clock and no goroutine: the root's TestLayers holds it to that.
//
// Start with Guard (guard.go). The glossary is in docs/architecture.md.
//
// # Files
//
// Questions about input:
//
//   - guard.go, filter.go: the questions, and the rules about sources and messages
//   - meter.go: the limits, what sessions use of them, and what their sources use at the other nodes of a fleet
//
// Bounds of a client:
//
//   - trust.go: the proof of its address, the bytes to it until then, and how far a loop is behind with reading
//   - held.go: the memory that is held for it
package admission
