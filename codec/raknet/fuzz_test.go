package raknet

import (
	"testing"

	"tidegate/codec/codectest"
)

// FuzzAccept sends datagrams to a server. An answer must not be longer than its question, and without a cookie no
// client is accepted.
func FuzzAccept(f *testing.F) {
	for _, c := range captures(f) {
		for _, d := range c.Lines[:min(len(c.Lines), 4)] {
			f.Add(d.Datagram)
		}
	}
	f.Add(codectest.Unhex(f, "05"+magicHex+"07"+"00000000000000")) // too short for an answer
	door := New(Options{GUID: 8, Pong: []byte("a server")})
	f.Fuzz(func(t *testing.T, b []byte) {
		if !door.Sniff(b) {
			return
		}
		conn, reply, err := door.Accept(replayStart, replayClient, b, nil)
		if conn != nil {
			t.Fatalf("%x came in without a cookie", b)
		}
		if len(reply) > len(b) && reply[0] != idUnconnectedPong {
			t.Fatalf("%d bytes are answered by %d", len(b), len(reply))
		}
		if len(reply) == 0 && err == nil {
			t.Fatal("neither an answer nor an error")
		}
	})
}
