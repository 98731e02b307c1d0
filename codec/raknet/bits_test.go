package raknet

import (
	"testing"

	"tidegate/codec"
)

// TestBits: only C++ RakNet sends and reads messages that end within a byte. All other peers get whole bytes.
func TestBits(t *testing.T) {
	for _, c := range []struct {
		name               string
		o                  Options
		toServer, toClient uint8
	}{
		{"a Bedrock client, any server", Options{DialVersion: 11}, 0, 0},
		{"a C++ client, any server", Options{}, 0, 3},
		{"a C++ client, a C++ server", Options{Bits: true}, 3, 3},
		{"a Bedrock client, a C++ server", Options{DialVersion: 11, Bits: true}, 3, 0},
	} {
		l := newConnected(t, c.o)
		m := codec.Message{Payload: []byte{0x86, 1, 0x08}, Pad: 3, Mode: codec.ReliableOrdered}
		for _, way := range []struct {
			from *Conn
			to   *[]codec.Event
			want uint8
		}{{l.client, &l.toServer, c.toServer}, {l.server, &l.toClient, c.toClient}} {
			*way.to = nil
			if err := way.from.Send(l.now, m); err != nil {
				t.Fatal(err)
			}
			l.exchange()
			got := (*way.to)[len(*way.to)-1].Message
			if string(got.Payload) != string(m.Payload) || got.Pad != way.want {
				t.Errorf("%s: message came as %x, pad %d, want pad %d", c.name, got.Payload, got.Pad, way.want)
			}
		}
	}
}
