package riptide

import (
	"errors"
	"slices"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
	"tidegate/codec/explain"
)

// TestDescribeCaptures: Describe explains every datagram of real peers.
func TestDescribeCaptures(t *testing.T) {
	for _, c := range loadCaptures(t) {
		version := V22
		if c.version == "riptide-2.0.0" {
			version = V20
		}
		for i, l := range c.Lines {
			if text, _, err := describe(version, l.From == "server", l.Datagram); err != nil || text == "" {
				t.Errorf("%s, %s, datagram %d (%x): %q, %v", c.version, c.scenario, i+1, l.Datagram, text, err)
			}
		}
	}
}

// TestDescribeWords uses datagrams of captures of 2.2.1 and 2.0.0, except where a comment says otherwise.
func TestDescribeWords(t *testing.T) {
	const client, server = false, true
	for _, c := range []struct {
		version    Version
		fromServer bool
		hex, text  string
		content    []string
	}{
		{V22, client, "02", "connect", nil},
		{V22, client, "8207", "connect", []string{"data, 1 byte: 78"}},
		{V22, server, "02", "pending: the game is deciding", nil},
		{V22, client, "10a005", "unreliable", []string{"message 1, 1 byte: 5a"}},
		{V22, client, "27001000000000a0f70aaa0e", "reliable #2", []string{"message 1, 8 bytes: 000000007aafa0ea"}},
		{V22, client, "10a0a5", "unreliable", []string{"message 1, 12 bits: 5a0a"}}, // made up
		{
			V22, server, "4600e0500040000000d0651c2c66095d3005", "notify #5, acknowledges #0-#2, #4",
			[]string{"12 bytes: 040000005dc6c16296d00553"},
		},
		{V22, server, "a100f03f300100", "ack of #0-#10, caused by #9", nil},
		{V22, server, "11001000200000", "ack of #0-#1", nil}, // 2.1.0
		{V22, client, "04f0ff0f", "heartbeat 0, round trip unknown", nil},
		{V22, client, "14200000", "heartbeat 1, round trip 2 ms", nil},
		{V22, server, "2400", "heartbeat answer 2", nil},
		{V22, server, "1800100000", "reliable #1, welcome: you are client 1", nil},
		{V22, client, "1800100000", "reliable #1, welcome received: I am client 1", nil},
		{V22, server, "2900200000", "reliable #2, client 2 has connected", nil},
		{V22, server, "3a00200000", "reliable #3, client 2 has disconnected", nil},
		{V22, server, "2300", "reject: server-full", nil},
		{V22, server, "451066b606", "disconnect: kicked", []string{"data, 3 bytes: 61666b"}},
		{V22, server, "0505", "disconnect: server-stopped", nil}, // 2.1.0
		{V22, client, "05", "disconnect", nil},
		{V20, client, "03", "connect", nil},
		{V20, server, "03", "pending: the game is deciding", nil},
		{V20, server, "0402", "pending: the game is deciding", nil},
		{V20, server, "0403", "reject: server-full", nil},
		{V20, server, "060461666b", "disconnect: kicked", []string{"data, 3 bytes: 61666b"}},
		{V20, client, "0101000100", "ack of #0-#1", nil},
		{V20, client, "0203000f000200", "ack of #65535-#3, caused by #2", nil}, // made up
		{V20, client, "05010200", "heartbeat 1, round trip 2 ms", nil},
		{V20, server, "0902000200", "reliable #2, client 2 has connected", nil},
		{V20, client, "070200010000", "reliable #2", []string{"message 1, 1 byte: 00"}},
	} {
		text, content, err := describe(c.version, c.fromServer, codectest.Unhex(t, c.hex))
		if err != nil || text != c.text || !slices.Equal(content, c.content) {
			t.Errorf("%s of dialect %d: %q, %q, %v; want %q, %q", c.hex, c.version, text, content, err, c.text, c.content)
		}
	}
}

// TestDescribeMalformed: a datagram that no honest peer of that side sends is an error.
func TestDescribeMalformed(t *testing.T) {
	for _, c := range []struct {
		what       string
		version    Version
		fromServer bool
		hex        string
	}{
		{"nothing", V22, false, ""},
		{"a connect of 2.0", V22, false, "03"},
		{"a connect of 2.1", V20, false, "02"},
		{"a client's reject", V22, false, "2300"},
		{"a client's news", V22, false, "2900200000"},
		{"data with a reject that has none", V22, true, "23105605"},
		{"a server's connect with data", V22, true, "8207"},
		{"a long heartbeat", V22, false, "14200000ff"},
		{"a long acknowledgement", V20, false, "010100010000"},
		{"a type of neither", V22, false, "0f00000000"},
		{"notify of 2.0", V20, true, "0b00000000"},
	} {
		if text, _, err := describe(c.version, c.fromServer, codectest.Unhex(t, c.hex)); !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("%s: %q, %v", c.what, text, err)
		}
	}
}

func FuzzDescribe(f *testing.F) {
	for _, hex := range []string{
		"8207", "27001000000000a0f70aaa0e", "a100f03f300100", "451066b606", "0203000f000200", "060461666b",
	} {
		f.Add(codectest.Unhex(f, hex), true)
		f.Add(codectest.Unhex(f, hex), false)
	}
	f.Fuzz(func(t *testing.T, d []byte, fromServer bool) {
		for v := range Version(len(dialects)) {
			text, _, err := describe(v, fromServer, d)
			explained := err == nil || errors.Is(err, explain.ErrUnusual)
			if explained != (text != "") || err != nil && !errors.Is(err, codec.ErrMalformed) {
				t.Fatalf("dialect %d, %x: %q, %v", v, d, text, err)
			}
		}
	})
}
