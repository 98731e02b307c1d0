//go:build !wasip1

// Package main is a module only for WebAssembly.
package main

func main() {}
