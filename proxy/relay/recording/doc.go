// Package recording keeps copies of datagrams for captures and for recordings. Loops write, and other goroutines read.
// A loop never waits: what has no room is left out and counted, or replaces the oldest. Like the Relay, the package has
// no I/O, no clock and no goroutine: the root's TestLayers holds it to that.
//
// # Files
//
//   - blackbox.go: the last datagrams of a loop
//   - search.go: recorded datagrams that a filter selects, in the order of time, and those of a capture
package recording
