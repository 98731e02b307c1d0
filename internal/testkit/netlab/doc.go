// Package netlab makes small networks of the kernel's own for tests: namespaces joined by virtual Ethernet cables. It
// needs root; without, the test is skipped.
//
// A socket opened within Namespace.Do belongs to that namespace for good and may be used from anywhere.
package netlab
