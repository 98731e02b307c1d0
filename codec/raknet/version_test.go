package raknet

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"tidegate/codec"
)

// TestVersionOfTheClient: a server knows the version of its client in every cookie mode, and a client keeps it.
func TestVersionOfTheClient(t *testing.T) {
	for _, mode := range []CookieMode{CookiesPrivate, CookiesNone, CookiesActive} {
		for _, version := range []uint8{6, 8, 10, 11} {
			l := newLinkOf(t, New(Options{DialVersion: 11, KeepVersion: true, Versions: []uint8{11, 10, 8, 6}}))
			l.client = l.p.Dial(l.now, linkServer, codec.Hello{Version: version}).(*Conn)
			l.p = New(Options{Cookies: mode, Versions: []uint8{11, 10, 8, 6}}) // the server's
			connect(t, l)
			if got := l.server.Version(); got != version || l.server.longList != (version >= firstLongList) {
				t.Errorf("cookies %v: a client of version %d counts as one of %d", mode, version, got)
			}
		}
	}
}

// TestVersionOfferedToServers: only a server that takes other versions than its own hears the client's.
func TestVersionOfferedToServers(t *testing.T) {
	for _, test := range []struct {
		library  string
		versions []uint8
		want     bool
		parts    int
	}{
		{"any", nil, false, rakLibParts},
		{"any", bedrockVersions, false, rakLibParts}, {"any", []uint8{8, 9, 10, 11}, true, rakLibParts},
		{"go-raknet", []uint8{8, 11}, false, rakLibParts}, {"cloudburst", bedrockVersions, true, rakLibParts},
		{"raklib", bedrockVersions, true, rakLibParts}, {"stock", bedrockVersions, true, math.MaxInt},
	} {
		o := Bedrock()
		o.Versions = test.versions
		o.Suit(test.library)
		if o.KeepVersion != test.want || o.MaxParts != test.parts {
			t.Errorf("%s, %v: keeps the version %v, %d parts", test.library, test.versions, o.KeepVersion, o.MaxParts)
		}
	}
}

// TestPartsForServers: a server of version 6 is C++ RakNet, and takes messages of any number of parts.
func TestPartsForServers(t *testing.T) {
	o := Options{}
	if o.Suit("raklib"); o.MaxParts != rakLibParts {
		t.Errorf("%d parts to RakLib", o.MaxParts)
	}
	for version, want := range map[uint8]error{6: nil, 11: codec.ErrTooLarge} {
		l := newConnected(t, Options{DialVersion: version, MaxParts: 10})
		m := codec.Message{Mode: codec.ReliableOrdered, Payload: gamePayload(20_000)}
		if err := l.client.Send(l.now, m); !errors.Is(err, want) {
			t.Errorf("version %d: %v, want %v", version, err, want)
		}
		if err := l.server.Send(l.now, m); err != nil {
			t.Errorf("to a client: %v", err)
		}
	}
}

// TestWrongPasswordIsToldOnce: a goodbye behind the refusal is another event for a stock client's game.
func TestWrongPasswordIsToldOnce(t *testing.T) {
	for _, version := range []uint8{6, 11} {
		l := newLink(t, Options{DialVersion: version})
		l.exchange()
		var sent [][]byte
		l.drop = func(toServer bool, b []byte) bool {
			if !toServer {
				sent = append(sent, bytes.Clone(b))
			}
			return false
		}
		l.server.Close(l.now, codec.Goodbye{Reason: codec.InvalidPassword})
		l.exchange()
		l.wait(4e9)
		if firstOnline(sent, idDisconnectionNotification) != nil || firstOnline(sent, idInvalidPassword) == nil {
			t.Errorf("version %d: %x, want the refusal alone", version, sent)
		}
		if got := ending(t, l.toServer); got != codec.InvalidPassword {
			t.Errorf("the server ended as %v", got)
		}
		if got := ending(t, l.toClient); got != codec.InvalidPassword {
			t.Errorf("the client ended as %v", got)
		}
	}
}

// TestMadeGUIDs have the top bit set.
func TestMadeGUIDs(t *testing.T) {
	for i := range byte(100) {
		if guid := guidFrom(&[32]byte{i}, nil); guid>>63 == 0 {
			t.Fatalf("GUID %x", guid)
		}
	}
}
