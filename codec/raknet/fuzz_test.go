package raknet

import (
	"encoding/binary"
	"testing"
	"time"

	"tidegate/codec/codectest"
)

// A script is the fuzzer's input for a connection: datagrams, each preceded by its length (2 bytes).

func script(datagrams ...[]byte) (b []byte) {
	for _, d := range datagrams {
		b = binary.BigEndian.AppendUint16(b, uint16(len(d)))
		b = append(b, d...)
	}
	return b
}

func playScript(r *replay, b []byte) {
	at := r.now.Sub(replayStart)
	for len(b) >= 2 && !r.over {
		n := min(int(binary.BigEndian.Uint16(b)), len(b)-2)
		_ = r.receive(b[2 : 2+n])
		b = b[2+n:]
		at += 7 * time.Millisecond
		r.runTo(at)
	}
	r.runTo(at + 30*time.Second)
	if !r.over {
		r.t.Fatal("a connection whose peer is silent does not end")
	}
}

// seedScripts adds scripts of the datagrams after the handshake, from the peers of some captures.
func seedScripts(f *testing.F, from string) {
	for _, c := range captures(f) {
		var sent [][]byte
		for _, d := range c.delivered(1, from) {
			if _, offline := offlineID(d.Datagram); !offline && len(sent) < 30 {
				sent = append(sent, d.Datagram)
			}
		}
		f.Add(script(sent...))
	}
	hugeSplit := "84020000" + "700010020000" + "01000000" + "ffffffff" + "0007" + "00000001" + "aabb"
	wideACK := "c00001" + "00000000ffffff"
	f.Add(script(codectest.Unhex(f, hugeSplit), codectest.Unhex(f, wideACK)))
}

// FuzzReceiveServer plays scripts to a server's side of a connection, and FuzzReceiveClient to a client's. There must
// be no panic and no timer without progress. Events come in order, and the connection ends when the peer stays silent.
func FuzzReceiveServer(f *testing.F) {
	seedScripts(f, "client")
	f.Fuzz(func(t *testing.T, b []byte) {
		_, server := live(t)
		playScript(server, b)
	})
}

func FuzzReceiveClient(f *testing.F) {
	seedScripts(f, "server")
	f.Fuzz(func(t *testing.T, b []byte) {
		client, _ := live(t)
		playScript(client, b)
	})
}

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
