package decode

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// TestDamage explains the packets before the damage with their summary. The error names the damaged place.
func TestDamage(t *testing.T) {
	packet := udpPacket(clientAddr, serverAddr, []byte{2})
	pcap := pcapOf(t, packet, packet)
	lines := strings.Repeat(`{"from":"client","hex":"02"}`+"\n", 2)
	const one, none = "1 datagram, 1 riptide-2.2; 0 not understood; 0 other packets ignored\n",
		"0 datagrams; 0 not understood; 1 other packet ignored\n"
	for _, c := range []struct{ what, capture, summary, says string }{
		{"pcap, within a packet", string(pcap[:len(pcap)-3]), one, "packet 2: unexpected EOF"},
		{"pcap, after a packet's header", string(pcap[:len(pcap)-len(packet)]), one, "packet 2: unexpected EOF"},
		{"pcap, within a packet's header", string(pcap[:len(pcap)-len(packet)-3]), one, "packet 2: unexpected EOF"},
		{"pcapng", cut(pcapngOf(t, packet, packet), 3), one, "packet 2: unexpected EOF"},
		{"JSON Lines", cut([]byte(lines), 5), one, "line 2: unexpected end of JSON input"},
		{"an endless line", lines[:len(lines)/2] + strings.Repeat(" ", maxLine), one, "line 2: longer than 1048576 bytes"},
		{"gzip", cut(gzipped(t, lines), 3), "2 datagrams, 2 riptide-2.2; ", "line 3: unexpected EOF"},
		{"gzip, within a line", cut(gzipped(t, lines+`{"from":"client","hex":"`+noise()), 300),
			"2 datagrams, 2 riptide-2.2; ",
			"line 3: unexpected EOF"},
		{"link type", string(pcapOfType(t, layers.LinkType(147), packet)), none, "packet 1: link type 147 is not supported"},
	} {
		var out strings.Builder
		err := Stream(strings.NewReader(c.capture), &out, Options{})
		if err == nil || err.Error() != c.says || !strings.Contains(out.String(), c.summary) {
			t.Errorf("%s: %v, want %q; says:\n%s\nwant %q", c.what, err, c.says, &out, c.summary)
		}
	}
}

// noise is hexadecimal that a compressor makes nothing of.
func noise() string {
	b := make([]byte, 2000)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return hex.EncodeToString(b) + "\"}\n"
}

func cut(capture []byte, n int) string { return string(capture[:len(capture)-n]) }

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var file bytes.Buffer
	w := gzip.NewWriter(&file)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func pcapngOf(t *testing.T, packets ...[]byte) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := pcapgo.NewNgWriter(&file, layers.LinkTypeRaw)
	if err != nil {
		t.Fatal(err)
	}
	for i, packet := range packets {
		if err := w.WritePacket(info(i, packet), packet); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// TestSpoolIsBounded: a stream of the limit is taken whole, a longer one refused.
func TestSpoolIsBounded(t *testing.T) {
	const limit = 10
	for size, want := range map[int]string{limit: "", limit + 1: "longer than 10 bytes"} {
		var got []byte
		err := spool(strings.NewReader(strings.Repeat("x", size)), limit, func(r io.ReadSeeker) (err error) {
			got, err = io.ReadAll(r)
			return err
		})
		if want == "" && (err != nil || len(got) != size) || want != "" && (err == nil || err.Error() != want || got != nil) {
			t.Errorf("%d bytes: %d taken, %v; want %q", size, len(got), err, want)
		}
	}
}
