package raknet

import (
	"bytes"
	"errors"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// The pings and pongs are those of offline_ping_01, offline_ping_open_connections_02 (RakNet 4.081) and
// gork_ping_cpp_server (go-raknet's ping).

func TestUnconnectedPing(t *testing.T) {
	withoutGUID := func(n int) bool { return n >= minPingSize }
	for _, g := range []golden{
		{name: "stock", hex: "01000000000000000a00ffff00fefefefefdfdfdfd12345678000660c47c25474b",
			want: &unconnectedPing{id: idUnconnectedPing, time: 10, guid: 0x660c47c25474b}, whole: withoutGUID},
		{name: "stock, only if there is room", hex: "02000000000000000a00ffff00fefefefefdfdfdfd12345678000660c47c3a9e2a",
			want: &unconnectedPing{id: idUnconnectedPingOpen, time: 10, guid: 0x660c47c3a9e2a}, whole: withoutGUID},
		{name: "go-raknet", hex: "01000001a1fd0ffe8200ffff00fefefefefdfdfdfd123456783dfa70961db6abf2",
			want: &unconnectedPing{id: idUnconnectedPing, time: 0x1a1fd0ffe82, guid: 0x3dfa70961db6abf2}, whole: withoutGUID},
	} {
		t.Run(g.name, g.run)
	}
}

func TestAppendPing(t *testing.T) {
	want := codectest.Unhex(t, "01000000000000000a00ffff00fefefefefdfdfdfd12345678000660c47c25474b")
	if got := AppendPing(nil, 10, 0x660c47c25474b); !bytes.Equal(got, want) {
		t.Errorf("AppendPing = %x, want %x", got, want)
	}
}

func TestPong(t *testing.T) {
	const stock = "1c000000000000000a000660c47c1a909700ffff00fefefefefdfdfdfd123456784d4f54443b68656c6c6f3b776f726c64"
	const bedrock = "1c000000000000000a000660c47c1a909700ffff00fefefefefdfdfdfd12345678" +
		"00104d4f54443b68656c6c6f3b776f726c64"
	for _, c := range []struct {
		name  string
		hex   string
		sized bool
		data  string
	}{
		{"stock", stock, false, "MOTD;hello;world"},
		{"bedrock", bedrock, true, "MOTD;hello;world"},
		{"stock without data", stock[:66], false, ""},
		{"bedrock without data", stock[:66] + "0000", true, ""},
		{"stock with one byte", stock[:66] + "41", false, "A"},
		{"stock with data that begins with another length", stock[:66] + "00054142", false, "\x00\x05AB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wire := codectest.Unhex(t, c.hex)
			got, err := ParsePong(wire)
			if err != nil {
				t.Fatal(err)
			}
			if got.Time != 10 || got.GUID != 0x660c47c1a9097 || string(got.Data) != c.data {
				t.Errorf("ParsePong = %+v, want data %q", got, c.data)
			}
			if b := got.append(nil, c.sized); !bytes.Equal(b, wire) {
				t.Errorf("append = %x, want %x", b, wire)
			}
		})
	}
	whole := codectest.Unhex(t, stock)
	for n := range 17 + len(magic) {
		if _, err := ParsePong(whole[:n]); !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("ParsePong of %d bytes: %v, want ErrMalformed", n, err)
		}
	}
	whole[20] ^= 1
	if _, err := ParsePong(whole); !errors.Is(err, codec.ErrMalformed) {
		t.Errorf("ParsePong with a broken magic: %v, want ErrMalformed", err)
	}
}
