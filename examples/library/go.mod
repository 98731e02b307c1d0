module example.org/echo

go 1.26.0

require tidegate v0.0.0

require (
	github.com/fxamacker/cbor/v2 v2.10.0 // indirect
	github.com/klauspost/cpuid/v2 v2.2.10 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	github.com/zeebo/xxh3 v1.1.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace tidegate => ../..
