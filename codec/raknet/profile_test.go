package raknet

import (
	"testing"

	"tidegate/codec"
)

// TestServersGetTheirForms offers messages of every odd form to the client side of each library's servers. Datagrams
// have only forms of the library's profile.
func TestServersGetTheirForms(t *testing.T) {
	for library := range profiles {
		t.Run(library, func(t *testing.T) {
			o := Bedrock()
			o.MaxParts = 20
			o.Suit(library)
			l := newConnected(t, o)
			most, ends, sent := 0, false, 0
			l.drop = func(toServer bool, b []byte) bool {
				var d datagram
				if !toServer || d.parse(b) != nil || d.kind != dataDatagram {
					return false
				}
				for rest := d.body; !isPadding(rest); {
					var c capsule
					var err error
					if rest, err = c.parse(rest); err != nil {
						t.Fatalf("%x cannot be read: %v", b, err)
					}
					own := c.payload[0] < idFirstUser && !c.split
					if own && c.payload[0] != idConnectedPing && c.payload[0] != idConnectedPong || c.channel >= maxChannels ||
						c.split && c.splitCount < 2 {
						t.Errorf("a message of an odd form: %+v", c)
					}
					most, ends, sent = max(most, int(c.splitCount)), ends || c.pad > 0, sent+1
				}
				return false
			}
			part := l.client.sender.partSize()
			for _, size := range []int{0, 1, 2, part - 1, part, part + 1, 2 * part, 21 * part} {
				for _, first := range []byte{0, idDisconnectionNotification, idFirstUser - 1, 0xfe} {
					for mode := range codec.Mode(codec.ModeCount) {
						for _, channel := range []uint8{0, 31, 32, 255} {
							m := codec.Message{Payload: make([]byte, size), Mode: mode, Channel: channel, Pad: 3}
							if size > 0 {
								m.Payload[0] = first
							}
							_ = l.client.Send(l.now, m) // or it is refused
							l.exchange()
						}
					}
				}
			}
			profile := profiles[library]
			if sent == 0 || ends != profile.bits || (most > 20) != (profile.parts > 20) {
				t.Errorf("%d messages, at most %d parts, some end within a byte: %v, want as in %+v", sent, most, ends, profile)
			}
		})
	}
}
