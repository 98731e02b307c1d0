// Package interop shows Tidegate between peers that others wrote: real libraries of other languages, from public
// registries, talk through the real binary. It has nothing but tests, behind the build tag interop; docs/interop.md
// says who takes part. Start reading at bridge_test.go.
package interop
