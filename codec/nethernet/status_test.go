package nethernet

import (
	"errors"
	"math"
	"strings"
	"testing"

	"tidegate/codec"
)

// TestStatus turns a server's state into RakNet's text and back.
func TestStatus(t *testing.T) {
	const text = `{"name":"fact sheet","protocol":2225,"version":"1.26.60","level":"world","players":3,"maxPlayers":10,` +
		`"gameType":1,"transportLayer":2,"nonce":"00"}`
	s, err := ParseStatus([]byte(text))
	want := Status{"fact sheet", 2225, "1.26.60", "world", 3, 10, 1}
	if err != nil || s != want {
		t.Fatal(err, s)
	}
	pong := string(s.AppendPong(nil, Pong{GUID: 1<<64 - 1, Port: 19132}))
	if pong != "MCPE;fact sheet;2225;1.26.60;3;10;18446744073709551615;world;Creative;1;19132;19132;" {
		t.Error(pong)
	}
	if back, err := ParsePong([]byte(pong)); err != nil || back != want {
		t.Error(err, back)
	}
	if again, err := ParseStatus(s.JSON()); err != nil || again != want {
		t.Error(err, again)
	}
}

// TestOddStatus reads and writes the texts of odd and hostile servers.
func TestOddStatus(t *testing.T) {
	for text, want := range map[string]Status{
		"MCPE;Arena;844;1.21.111;3;20;123;World;Survival;1;19132;19133;": {"Arena", 844, "1.21.111", "World", 3, 20, 0},
		`MCEE;semi\;colon;844;1;3;20;123;World;Adventure`:                {"semi;colon", 844, "1", "World", 3, 20, 2},
		"MCPE":                                  {},
		"MCPE;;;;many;-5;;;Unheard":             {MaxPlayers: -5},
		"MCPE;a;99999999999999999999;b;;;;;;;;": {Name: "a", Version: "b"},
	} {
		if got, err := ParsePong([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %v, %+v", text, err, got)
		}
	}
	for _, text := range []string{"", "A server", "MCPC;x", "MCPE;" + strings.Repeat("x", maxStatus)} {
		if got, err := ParsePong([]byte(text)); !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("%.20q: %+v", text, got)
		}
	}
	for _, text := range []string{"", "ok", `{"players":"many"}`, `{"name":"` + strings.Repeat("x", maxStatus) + `"}`} {
		if got, err := ParseStatus([]byte(text)); !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("%.20q: %+v", text, got)
		}
	}
	odd := Status{Name: "a;b\n\\" + strings.Repeat("é", 200), Protocol: -1, Players: math.MaxInt, GameType: 7}
	got := string(odd.AppendPong(nil, Pong{}))
	if want := "MCPE;a,b" + strings.Repeat("é", 125) + ";0;;2147483647;0;0;;Survival;1;0;0;"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// FuzzStatus: a pong that was written is read again, and has no field of another.
func FuzzStatus(f *testing.F) {
	f.Add([]byte("MCPE;Arena;844;1.21.111;3;20;123;World;Survival;1;19132;19133;"))
	f.Add([]byte(`{"name":"fact sheet","protocol":2225,"version":"1.26.60","level":"world","players":3,"gameType":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, parse := range []func([]byte) (Status, error){ParsePong, ParseStatus} {
			s, err := parse(text)
			if err != nil {
				continue
			}
			pong := s.AppendPong(nil, Pong{})
			once, err := ParsePong(pong)
			if err != nil || strings.Count(string(pong), ";") != 12 {
				t.Fatalf("%v, %q", err, pong)
			}
			if twice := once.AppendPong(nil, Pong{}); string(twice) != string(pong) {
				t.Fatalf("%q became %q", pong, twice)
			}
		}
	})
}
