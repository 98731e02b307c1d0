// Package netlab builds small networks inside the kernel, for tests: namespaces joined by virtual Ethernet cables. It
// needs root; without root, the test is skipped.
//
// A socket opened within Namespace.Do stays in that namespace and can be used from any goroutine.
package netlab
