package raknet

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// loopback6Hex is what follows the port of [::1] on the wire.
const loopback6Hex = "00000000" + "00000000000000000000000000000001" + "00000000"

func TestAddress(t *testing.T) {

	for _, c := range []struct {
		name    string
		hex     string
		addr    string
		written string // where it differs from hex
	}{
		{"IPv4", "0480fffffea41b", "127.0.0.1:42011", ""},
		{"unassigned", "04ffffffff0000", "0.0.0.0:0", ""},
		{"IPv6 from Windows", "061700a485" + loopback6Hex, "[::1]:42117", ""},
		{"IPv6 from Linux", "060a00a485" + loopback6Hex, "[::1]:42117", "061700a485" + loopback6Hex},
		{"IPv6 from BSD", "061c1ea485" + loopback6Hex, "[::1]:42117", "061700a485" + loopback6Hex},
	} {
		wire := codectest.Unhex(t, c.hex)
		got, rest, err := parseAddress(append(wire[:len(wire):len(wire)], 0xaa))
		if err != nil || got != netip.MustParseAddrPort(c.addr) || !bytes.Equal(rest, []byte{0xaa}) {
			t.Errorf("%s: parseAddress = %v, %x, %v, want %s", c.name, got, rest, err, c.addr)
		}
		if c.written != "" {
			wire = codectest.Unhex(t, c.written)
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
	if b := appendAddress(nil, netip.AddrPort{}); !bytes.Equal(b, codectest.Unhex(t, "04ffffffff0000")) {
		t.Errorf("zero address is written as %x, want unassigned", b)
	}
	mapped := netip.MustParseAddrPort("[::ffff:127.0.0.1]:42011")
	if b := appendAddress(nil, mapped); !bytes.Equal(b, codectest.Unhex(t, "0480fffffea41b")) {
		t.Errorf("mapped IPv4 address is written as %x, want IPv4", b)
	}
}
