package record

import (
	"encoding/json"
	"errors"
	"net/netip"
	"testing"
	"time"
)

type described struct {
	Head
	HeardAt Moment         `cbor:"3,keyasint"`
	RTT     time.Duration  `cbor:"4,keyasint"`
	Peer    netip.AddrPort `cbor:"5,keyasint"`
	Key     uint64         `cbor:"6,keyasint" secret:"true"`
	Payload []byte         `cbor:"7,keyasint"`
	Inner   []byte         `cbor:"8,keyasint"`
	Parts   []part         `cbor:"9,keyasint"`
	Zero    int            `cbor:"10,keyasint"`
	Digest  [4]byte        `cbor:"11,keyasint"`
}

type part struct {
	_     struct{} `cbor:",toarray"`
	Count int
	Open  *bool
}

var _, _ = Register[described](3, "described"), Register[older](1, "inner")

// TestDescribe shows a record to people: with names, in seconds, without secrets and payloads.
func TestDescribe(t *testing.T) {
	open := true
	b := Append(nil, &described{
		Head: Head{"described", 3}, HeardAt: -Moment(1500 * time.Millisecond), RTT: 20 * time.Millisecond,
		Peer: netip.MustParseAddrPort("192.0.2.1:5000"), Key: 77, Payload: []byte("a chat line"),
		Inner: Append(nil, &older{Head{"inner", 1}, "Ann"}), Parts: []part{{Count: 7, Open: &open}},
		Digest: [4]byte{1, 2, 3},
	})
	values, err := Describe(b)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(values)
	const want = `{"digest":{"bytes":4},"heard_at":-1.5,` +
		`"inner":{"kind":"inner","name":"Ann","version":1},"key":"hidden",` +
		`"kind":"described","parts":[{"count":7,"open":true}],"payload":{"bytes":11},"peer":"192.0.2.1:5000",` +
		`"rtt":0.02,"version":3}`
	if err != nil || string(text) != want {
		t.Errorf("%v:\n%s\nwant\n%s", err, text, want)
	}
	for _, bad := range [][]byte{nil, b[:7], Append(nil, &older{Head: Head{"described", 4}}),
		Append(nil, &older{Head: Head{"unknown", 1}})} {
		if _, err := Describe(bad); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%x: %v, want ErrUnreadable", bad, err)
		}
	}
}

// TestReadable compares the versions of two programs.
func TestReadable(t *testing.T) {
	if err := Readable(Versions()); err != nil {
		t.Error(err)
	}
	if err := Readable(map[string]int{"of a protocol that this release lacks": 9}); err != nil {
		t.Error(err)
	}
	for _, version := range []int{2, 4} {
		if err := Readable(map[string]int{"described": version}); !errors.Is(err, ErrUnreadable) {
			t.Errorf("version %d: %v, want ErrUnreadable", version, err)
		}
	}
}
