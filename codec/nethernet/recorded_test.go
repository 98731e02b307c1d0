package nethernet

import (
	"embed"
	"encoding/hex"
	"encoding/json"
	"testing"
)

//go:embed testdata/*.json
var recordings embed.FS

// stacks are the clients whose joins were recorded. libwebrtc has a server of its own kind, as Minecraft's library. The
// others have pion as the server; the last one as an ICE-lite peer.
var stacks = []string{"libwebrtc", "pion", "libdatachannel", "aiortc", "werift", "libdatachannel-lite"}

// recorded is a join, as testdata/README.md describes it.
type recorded struct {
	Offer, Answer string
	Datagrams     []struct {
		FromServer bool
		Hex        string
	}
}

func recording(t testing.TB, stack string) (r recorded) {
	t.Helper()
	text, err := recordings.ReadFile("testdata/" + stack + ".json")
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
