// Package interop tests Tidegate between independent peers: libraries in other languages, from public registries, talk
// through the real binary. It contains only tests, behind the build tag interop. The peers are listed in
// docs/interop.md. Start with bridge_test.go.
package interop
