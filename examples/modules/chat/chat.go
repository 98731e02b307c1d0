//go:build wasip1

// A chat filter: it hides a word in messages with the ID 1.
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o chat.wasm ./chat
package main

import (
	"bytes"
	"unsafe"
)

var (
	word   = []byte("badword")
	stars  = bytes.Repeat([]byte("*"), len(word))
	buffer []byte // the collector of garbage must find it
)

const (
	chat   = 1
	hidden = "a word is hidden"
)

//go:wasmimport tidegate_v1 send
func send(to, mode, channel, id int32, at unsafe.Pointer, size int32)

//go:wasmimport tidegate_v1 log
func log(text unsafe.Pointer, size int32)

//go:wasmexport tidegate_v1_buffer
func newBuffer(size int32) unsafe.Pointer {
	buffer = make([]byte, size)
	return unsafe.Pointer(&buffer[0])
}

//go:wasmexport tidegate_v1_message
func message(from, mode, channel, id int32, at unsafe.Pointer, size int32, session int64) int32 {
	text := unsafe.Slice((*byte)(at), size)
	if id != chat {
		return 0
	}
	found := false
	for i := 0; i+len(word) <= len(text); i++ {
		if bytes.EqualFold(text[i:i+len(word)], word) {
			copy(text[i:], stars)
			found = true
		}
	}
	if !found {
		return 0
	}
	log(unsafe.Pointer(unsafe.StringData(hidden)), int32(len(hidden)))
	send(1-from, mode, channel, id, at, size)
	return 1 // the changed message takes its place
}

func main() {}
