package proxyproto

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/pires/go-proxyproto"

	"tidegate/internal/testkit/allocs"
)

var (
	client4 = netip.MustParseAddrPort("203.0.113.7:50000")
	proxy4  = netip.MustParseAddrPort("192.0.2.1:19132")
	client6 = netip.MustParseAddrPort("[2001:db8::7]:50001")
	proxy6  = netip.MustParseAddrPort("[2001:db8::1]:19133")
)

// headers are one header of each kind, with its bytes.
var headers = []struct {
	name   string
	header Header
	hex    string
}{
	{"v2, IPv4", Header{Client: client4, Proxy: proxy4},
		"0d0a0d0a000d0a515549540a" + "21" + "12" + "000c" + "cb007107" + "c0000201" + "c350" + "4abc"},
	{"v2, IPv6", Header{Client: client6, Proxy: proxy6},
		"0d0a0d0a000d0a515549540a" + "21" + "22" + "0024" +
			"20010db8000000000000000000000007" + "20010db8000000000000000000000001" + "c351" + "4abd"},
	{"v2, mixed", Header{Client: client4, Proxy: proxy6},
		"0d0a0d0a000d0a515549540a" + "21" + "22" + "0024" +
			"00000000000000000000ffffcb007107" + "20010db8000000000000000000000001" + "c350" + "4abd"},
	{"v2, local", Header{Local: true}, "0d0a0d0a000d0a515549540a" + "20" + "00" + "0000"},
	{"simple, IPv4", Header{Format: Simple, Client: client4, Proxy: proxy4},
		"56ec" + "00000000000000000000ffffcb007107" + "00000000000000000000ffffc0000201" + "c350" + "4abc"},
	{"simple, IPv6", Header{Format: Simple, Client: client6, Proxy: proxy6},
		"56ec" + "20010db8000000000000000000000007" + "20010db8000000000000000000000001" + "c351" + "4abd"},
}

func TestGolden(t *testing.T) {
	payload := []byte("payload")
	for _, h := range headers {
		t.Run(h.name, func(t *testing.T) {
			got := h.header.Append(nil)
			if hex.EncodeToString(got) != h.hex {
				t.Fatalf("written\n%x, want\n%s", got, h.hex)
			}
			if len(got) != h.header.Len() || len(got) > MaxLen {
				t.Errorf("%d bytes, Len says %d", len(got), h.header.Len())
			}
			parsed, rest, err := Parse(append(got, payload...))
			if err != nil || parsed != h.header || !bytes.Equal(rest, payload) {
				t.Errorf("read %+v, rest %q, %v", parsed, rest, err)
			}
			for i := range got {
				if _, _, err := Parse(got[:i]); err == nil {
					t.Errorf("%d of %d bytes parsed without error", i, len(got))
				}
			}
		})
	}
}

// TestAgainstGoProxyProto checks that an independent library reads our headers, and that we read its headers with
// extensions.
func TestAgainstGoProxyProto(t *testing.T) {
	for _, h := range []Header{{Client: client4, Proxy: proxy4}, {Client: client6, Proxy: proxy6}} {
		source, dest := net.UDPAddrFromAddrPort(h.Client), net.UDPAddrFromAddrPort(h.Proxy)
		read, err := proxyproto.Read(bufio.NewReader(bytes.NewReader(h.Append(nil))))
		if err != nil {
			t.Fatal(err)
		}
		gotSource, gotDest, ok := read.UDPAddrs()
		if !ok || read.Command != proxyproto.PROXY ||
			gotSource.String() != source.String() || gotDest.String() != dest.String() {
			t.Errorf("the library reads %+v, %v to %v", read, gotSource, gotDest)
		}
		theirs := proxyproto.HeaderProxyFromAddrs(2, source, dest)
		if err := theirs.SetTLVs([]proxyproto.TLV{{Type: proxyproto.PP2_TYPE_NOOP, Value: make([]byte, 300)}}); err != nil {
			t.Fatal(err)
		}
		written, err := theirs.Format()
		if err != nil {
			t.Fatal(err)
		}
		if ours, rest, err := Parse(append(written, 'x')); err != nil || ours != h || string(rest) != "x" {
			t.Errorf("we read %+v, rest %q, %v", ours, rest, err)
		}
	}
	local, err := proxyproto.Read(bufio.NewReader(bytes.NewReader((&Header{Local: true}).Append(nil))))
	if err != nil || local.Command != proxyproto.LOCAL {
		t.Errorf("the library reads our local header as %+v, %v", local, err)
	}
}

func TestMalformed(t *testing.T) {
	good := (&Header{Client: client4, Proxy: proxy4}).Append(nil)
	change := func(at int, to byte) []byte {
		b := bytes.Clone(good)
		b[at] = to
		return b
	}
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"no header", []byte("hello"), ErrNone},
		{"empty", nil, ErrNone},
		{"version 1", []byte("PROXY UDP4 1.2.3.4 1.2.3.4 1 1\r\n"), ErrNone},
		{"version 3", change(12, 0x31), ErrMalformed},
		{"unknown command", change(12, 0x22), ErrMalformed},
		{"length beyond the datagram", change(15, 13), ErrMalformed},
		{"length beyond the datagram by far", change(14, 0xff), ErrMalformed},
		{"IPv4 without room", change(15, 11), ErrMalformed},
		{"IPv6 in the length of IPv4", change(13, 0x22), ErrMalformed},
		{"Unix", change(13, 0x32), ErrFamily},
		{"simple, too short", (&Header{Format: Simple, Client: client4, Proxy: proxy4}).Append(nil)[:37], ErrNone},
	} {
		if _, _, err := Parse(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if h, _, err := Parse(change(13, 0x11)); err != nil || h.Client != client4 {
		t.Errorf("a header that says stream: %+v, %v", h, err)
	}
	if h, rest, err := Parse(change(13, 0)); err != nil || !h.Local || len(rest) != 0 {
		t.Errorf("a header without family: %+v, %v", h, err)
	}
}

func TestStripSimple(t *testing.T) {
	h := Header{Format: Simple, Client: client4, Proxy: proxy4}
	if got := StripSimple(append(h.Append(nil), "answer"...)); string(got) != "answer" {
		t.Errorf("with a header: %q", got)
	}
	if got := StripSimple([]byte("answer")); string(got) != "answer" {
		t.Errorf("without: %q", got)
	}
}

func TestNoAllocation(t *testing.T) {
	b := make([]byte, 0, 100)
	for _, h := range headers {
		if n := allocs.PerRun(1000, func() {
			b = h.header.Append(b[:0])
			if _, _, err := Parse(b); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", h.name, n)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, h := range headers {
		f.Add(append(h.header.Append(nil), 1, 2, 3))
	}
	f.Fuzz(func(t *testing.T, d []byte) {
		h, rest, err := Parse(d)
		if err != nil {
			return
		}
		if len(rest) > len(d)-v2Len {
			t.Fatalf("%d bytes left of %d", len(rest), len(d))
		}
		again, _, err := Parse(h.Append(nil))
		if err != nil || again != h {
			t.Fatalf("%+v reads as %+v once written, %v", h, again, err)
		}
	})
}
