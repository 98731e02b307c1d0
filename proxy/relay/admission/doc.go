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
//   - guard.go, limits.go, filter.go: the questions, the limits that answer them, and the rules about sources and
//     messages
//   - meter.go, spending.go: what sessions use of limits, and what their sources use at the other nodes of a fleet
//   - backlog.go: how far a loop is behind with reading
//
// Bounds of a client:
//
//   - trust.go, allowance.go: the proof of its address, and the bytes to it until then
//   - held.go: the memory that is held for it
package admission
