package rtype

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"tidegate/codec"
	"tidegate/codec/explain"
)

// said is a datagram of a session with its explanation: the whole, and its instructions if it has several.
type said struct {
	fromServer bool
	hex        string
	text       string // lines
}

func TestDescribeSessions(t *testing.T) {
	const client, server = false, true
	for _, session := range []struct {
		dialect   string
		datagrams []said
	}{
		{"document", []said{
			{client, "02", "key pressed: up"},
			{server, "0003" + "08" + "506f736974696f6e" + "56656c6f63697479" + "4865616c74680000" + "ffff" + "000005",
				"2 instructions\ninitialisation, 3 components: Position, Velocity, Health\ncreate entity 5"},
			{server, "0200050001" + "030005000201020304", "2 instructions\nattach component 1 (Velocity) to entity 5\n" +
				"update component 2 (Health) of entity 5, 4 bytes: 01020304"},
			{server, "0400050001", "detach component 1 (Velocity) from entity 5"},
			{server, "010005", "delete entity 5"},
			{client, "0308", "2 instructions\nkey released: up\nkey pressed: left click"},
			{client, hexOf("start"), "start: a client wants to play"},
			{client, "02", "key pressed: up"},
		}},
		{"early game", []said{
			{client, hexOf("start"), "start: a client wants to play"},
			{server, "0002", "initialisation: 2 components"},
			{server, "06", "initialisation: names are at most 6 bytes long"},
			{server, "01" + hexOf("Health"), "initialisation: component 1 is Health"},
			{server, "00" + hexOf("Team"), "initialisation: component 0 is Team"},
			{server, "000005", "create entity 5"},
			{server, "03000500010102", "update component 1 (Health) of entity 5, 2 bytes: 0102"},
			{server, "0002", "initialisation: 2 components"},
			{server, hexOf("ping"), "ping"},
			{client, hexOf("pong"), "pong"},
			{client, "0b", "key released: right click"},
			{server, hexOf("You have been disconnected :(") + "00", "goodbye"},
		}},
		{"late game", []said{
			{client, hexOf("start"), "start: a client wants to play"},
			{server, "0001", "initialisation: 1 component"},
			{server, "0400", "initialisation: names are at most 4 bytes long"},
			{server, "0000" + hexOf("Team"), "initialisation: component 0 is Team"},
			{server, "0000000007", "create entity 7"},
			{server, "02000000070000", "attach component 0 (Team) to entity 7"},
			{client, "0300000007000009", "update component 0 (Team) of entity 7, 1 byte: 09"},
			{server, "0a", "next frame"},
		}},
		{"last game", []said{
			{client, "00", "key pressed: right, or a client of the last game wants to play"},
			{server, "050100" + hexOf("Team"), "lobby: component 1 is Team"},
			{server, "050000" + hexOf("Gun"), "lobby: component 0 is Gun"},
			{server, "060002", "lobby: the client uses 2 components"},
			{server, "052cf2" + hexOf("Tidegate.1"), "lobby: component 61996 is Tidegate.1"},
			{client, "012cf2", "lobby: the client ignores component 61996"},
			{client, "010100", "lobby: the client ignores component 1 (Team)"},
			{server, "060001", "lobby: the client uses 1 component"},
			{client, "02", "lobby: the client starts"},
			{server, "0001000000", "create entity 1"},
			{server, "02010000000000", "attach component 0 (Gun) to entity 1"},
			{client, "0301000000000007", "update component 0 (Gun) of entity 1, 1 byte: 07"},
			{server, "0a", "next frame"},
			{client, "00", "lobby: a client wants to play"},
		}},
	} {
		d := new(describer)
		for i, s := range session.datagrams {
			text, instructions, err := d.describe(s.fromServer, bytesOf(t, s.hex))
			if text := strings.Join(slices.Insert(instructions, 0, text), "\n"); err != nil || text != s.text {
				t.Errorf("%s, datagram %d: %q, %v; want %q", session.dialect, i, text, err, s.text)
			}
		}
	}
}

func hexOf(text string) string { return hex.EncodeToString([]byte(text)) }

func bytesOf(t testing.TB, digits string) []byte {
	t.Helper()
	b, err := hex.DecodeString(digits)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDescribeMalformed(t *testing.T) {
	for _, c := range []struct {
		what       string
		fromServer bool
		hex        string
		text       int
	}{
		{"nothing", true, "", 0},
		{"no instruction", true, "20000005", 0},
		{"two instructions of the game at once", true, "00000500000600", 0},
		{"a client that creates", false, "000020", 0},
		{"no key", false, "0c", 0},
	} {
		_, instructions, err := new(describer).describe(c.fromServer, bytesOf(t, c.hex))
		if !errors.Is(err, codec.ErrMalformed) || len(instructions) != c.text {
			t.Errorf("%s: %q, %v", c.what, instructions, err)
		}
	}
	_, keys, err := describerOf(Game16, nil).describe(false, bytesOf(t, "000005"))
	if !errors.Is(err, explain.ErrUnusual) || !errors.Is(err, codec.ErrMalformed) || len(keys) != 3 {
		t.Errorf("keys in one datagram of the game: %q, %v", keys, err)
	}
	_, keys, err = new(describer).describe(false, bytesOf(t, "0801000100"))
	if err != nil || len(keys) != 5 {
		t.Errorf("keys before the server has answered: %q, %v", keys, err)
	}
	d := new(describer)
	_, text, err := d.describe(true, bytesOf(t, "03000500010102"))
	if !errors.Is(err, codec.ErrUnexpected) || len(text) != 0 {
		t.Errorf("an update with entities of unknown width: %q, %v", text, err)
	}
	if _, _, err := d.describe(true, bytesOf(t, "0001"+"01"+"41"+"ffff")); err != nil {
		t.Fatal(err)
	}
	_, text, err = d.describe(true, bytesOf(t, "000005"+"0200050000"+"020005"))
	if !errors.Is(err, codec.ErrMalformed) || len(text) != 2 {
		t.Errorf("a torn instruction behind two whole ones: %q, %v", text, err)
	}
	whole, _, err := d.describe(true, bytesOf(t, "0200050001"))
	if !errors.Is(err, explain.ErrUnusual) || !errors.Is(err, codec.ErrMalformed) || whole == "" {
		t.Errorf("a component that was not announced: %q, %v", whole, err)
	}
}

func FuzzDescribe(f *testing.F) {
	f.Add([]byte("start"), bytesOf(f, "0002"), bytesOf(f, "000005"))
	f.Add(bytesOf(f, "02"), bytesOf(f, "00010141ffff000005"), bytesOf(f, "030005000001"))
	f.Add(bytesOf(f, "0400"), bytesOf(f, "00014100"), bytesOf(f, "0300000007000009"))
	f.Fuzz(func(t *testing.T, first, second, third []byte) {
		d := new(describer)
		for _, b := range [][]byte{first, second, third, first} {
			for _, fromServer := range []bool{true, false} {
				text, _, err := d.describe(fromServer, b)
				isOurs := errors.Is(err, codec.ErrMalformed) || errors.Is(err, codec.ErrUnexpected)
				if err == nil && text == "" || err != nil && !isOurs {
					t.Fatalf("%x: %q, %v", b, text, err)
				}
			}
		}
	})
}
