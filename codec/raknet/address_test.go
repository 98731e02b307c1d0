package raknet

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// loopback6Hex follows the port of [::1] on the wire.
const loopback6Hex = "00000000" + "00000000000000000000000000000001" + "00000000"

// written returns an address as a peer of the family writes it.
func written(addr string, family family) address {
	return address{netip.MustParseAddrPort(addr), family}
}

func TestAddress(t *testing.T) {
	for _, c := range []struct {
		name   string
		hex    string
		addr   string
		family family
	}{
		{"IPv4", "0480fffffea41b", "127.0.0.1:42011", unknownFamily},
		{"unassigned", "04ffffffff0000", "0.0.0.0:0", unknownFamily},
		{"IPv6 from Windows", "061700a485" + loopback6Hex, "[::1]:42117", familyWindows},
		{"IPv6 from Linux", "060a00a485" + loopback6Hex, "[::1]:42117", 10},
		{"IPv6 from BSD", "061c1ea485" + loopback6Hex, "[::1]:42117", 28 | 30<<8},
	} {
		wire := codectest.Unhex(t, c.hex)
		got, rest, err := parseAddress(append(wire[:len(wire):len(wire)], 0xaa))
		if err != nil || got != written(c.addr, c.family) || !bytes.Equal(rest, []byte{0xaa}) {
			t.Errorf("%s: parseAddress = %v of %d, %x, %v, want %s of %d",
				c.name, got, got.family, rest, err, c.addr, c.family)
		}
		if b := appendAddress(nil, got); !bytes.Equal(b, wire) {
			t.Errorf("%s: appendAddress = %x, want %x", c.name, b, wire)
		}
		for n := range wire {
			if _, _, err := parseAddress(wire[:n]); !errors.Is(err, codec.ErrMalformed) {
				t.Errorf("%s: parseAddress of %d bytes: %v, want ErrMalformed", c.name, n, err)
			}
		}
	}
}

func TestAppendAddressOfOtherForms(t *testing.T) {
	if b := appendAddress(nil, address{}); !bytes.Equal(b, codectest.Unhex(t, "04ffffffff0000")) {
		t.Errorf("zero address is written as %x, want unassigned", b)
	}
	b := appendAddress(nil, written("[::1]:42117", unknownFamily))
	if !bytes.Equal(b, codectest.Unhex(t, "061700a485"+loopback6Hex)) {
		t.Errorf("IPv6 address for a peer of an unknown family is written as %x, want Windows' form", b)
	}
	mapped := written("[::ffff:127.0.0.1]:42011", 10)
	if b := appendAddress(nil, mapped); !bytes.Equal(b, codectest.Unhex(t, "0480fffffea41b")) {
		t.Errorf("mapped IPv4 address is written as %x, want IPv4", b)
	}
}
