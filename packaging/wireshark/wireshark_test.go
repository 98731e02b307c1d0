package wireshark

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// dissectors lists the captures of each dissector, and those with datagrams that it cannot read.
var dissectors = []struct {
	name, pattern string
	// unreadable captures are encrypted, or cut by the recorder. Their other datagrams still must not break the script.
	unreadable string
	see        string // a text that the dissector must show of some datagram
}{
	{"riptide22", "../../codec/riptide/testdata/riptide-2.[12].*/*.jsonl*", "", "Reliable 2 ID"},
	{"riptide20", "../../codec/riptide/testdata/riptide-2.0.0/*.jsonl*", "", "AckExtra of"},
	{"rudpgame", "../../codec/rudp/testdata/*/*.jsonl*", "", "ConnectionAccept 0, ack 0"},
	{"raknet4", "../../codec/raknet/testdata/*.jsonl*", "security_", "part 2 of"},
	{"nethernet", "../../codec/nethernet/testdata/*.json", "", "client hello"},
	{"enet13", "../../codec/enet/testdata/*.jsonl*", "", "Send Fragment"},
	{"rtype16", "../../codec/rtype/testdata/s1_*.jsonl*", "", "Update "},
	{"rtype32", "../../codec/rtype/testdata/s2_*.jsonl*", "", "is Position"},
	{"rtypefinal", "../../codec/rtype/testdata/s3_*.jsonl*", "", "Ignore component "},
}

// TestCaptures lets tshark read the captures of real peers: no datagram is malformed, and no script fails.
func TestCaptures(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("no tshark")
	}
	for _, d := range dissectors {
		t.Run(d.name, func(t *testing.T) {
			files, err := filepath.Glob(d.pattern)
			if err != nil || len(files) == 0 {
				t.Fatalf("%d captures, %v", len(files), err)
			}
			var readable, unreadable []datagram
			for _, file := range files {
				if d.unreadable != "" && strings.HasPrefix(filepath.Base(file), d.unreadable) {
					unreadable = append(unreadable, datagrams(t, file)...)
				} else {
					readable = append(readable, datagrams(t, file)...)
				}
			}
			lines := dissect(t, tshark, d.name, readable)
			seen := false
			for i, line := range lines {
				seen = seen || strings.Contains(line, d.see)
				if !strings.HasPrefix(line, "eth:ethertype:ip:udp:"+d.name+"\t\t\t\t") {
					t.Errorf("%x: %s", readable[i].bytes, line)
				}
			}
			if !seen {
				t.Errorf("no datagram shows %q", d.see)
			}
			for i, line := range dissect(t, tshark, d.name, unreadable) {
				if strings.Contains(line, "Lua") || strings.Contains(line, "Malformed") {
					t.Errorf("%x: %s", unreadable[i].bytes, line)
				}
			}
		})
	}
}

// TestHostileDatagrams gives each dissector datagrams that were cut short or changed. It shows them without an error
// of the script.
func TestHostileDatagrams(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("no tshark")
	}
	for _, d := range dissectors {
		files, err := filepath.Glob(d.pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%d captures, %v", len(files), err)
		}
		var hostile []datagram
		for _, whole := range datagrams(t, files[len(files)/2]) {
			for cut := 1; cut < min(len(whole.bytes), 24); cut++ {
				hostile = append(hostile, datagram{whole.server, whole.bytes[:cut]})
				changed := bytes.Clone(whole.bytes)
				changed[cut] ^= 0xff
				hostile = append(hostile, datagram{whole.server, changed})
			}
			if len(hostile) > 500 {
				break
			}
		}
		faults := 0
		for i, line := range dissect(t, tshark, d.name, hostile) {
			fields := strings.Split(line, "\t")
			if len(fields) < 4 || fields[1] != "" || fields[2] != "" {
				t.Errorf("%s: %x: %s", d.name, hostile[i].bytes, line)
			}
			if fields[3] != "" {
				faults++
			}
		}
		if faults == 0 {
			t.Errorf("%s finds no fault in %d hostile datagrams", d.name, len(hostile))
		}
	}
}

// datagram is a recorded datagram. The server sent it, or a client.
type datagram struct {
	server bool
	bytes  []byte
}

// datagrams returns the UDP datagrams of a capture in JSON Lines, perhaps packed.
func datagrams(t *testing.T, file string) (all []datagram) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var r io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	if strings.HasSuffix(file, ".json") { // a join of NetherNet
		var join struct {
			Datagrams []struct {
				FromServer bool
				Hex        string
			}
		}
		if err := json.NewDecoder(r).Decode(&join); err != nil {
			t.Fatal(err)
		}
		for _, d := range join.Datagrams {
			all = append(all, datagram{d.FromServer, unhex(t, d.Hex)})
		}
		return all
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ From, Hex string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if b := unhex(t, line.Hex); len(b) > 0 {
			all = append(all, datagram{line.From == "server", b})
		}
	}
	return all
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// port is the port of the server in the files for tshark.
const port = 7777

// dissect returns a line for each datagram: its protocols, faults of three kinds, and the summary.
func dissect(t *testing.T, tshark, name string, all []datagram) []string {
	t.Helper()
	if len(all) == 0 {
		return nil
	}
	file := filepath.Join(t.TempDir(), name+".pcap")
	writePCAP(t, file, all)
	cmd := exec.Command(tshark, "-X", "lua_script:tidegate.lua", "-d", fmt.Sprintf("udp.port==%d,%s", port, name),
		"-r", file, "-T", "fields", "-e", "frame.protocols",
		"-e", "_ws.malformed", "-e", "_ws.lua.error", "-e", "tidegate.fault",
		"-e", "_ws.col.Info")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark: %v\n%s", err, errs.String())
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(all) {
		t.Fatalf("%d lines for %d datagrams\n%s", len(lines), len(all), errs.String())
	}
	return lines
}

// writePCAP writes datagrams as a capture of Ethernet.
func writePCAP(t *testing.T, file string, all []datagram) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	w := pcapgo.NewWriter(f)
	if err := w.WriteFileHeader(65536, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	ether := &layers.Ethernet{
		SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2},
		EthernetType: layers.EthernetTypeIPv4,
	}
	ip := &layers.IPv4{
		Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: net.IPv4(192, 0, 2, 1), DstIP: net.IPv4(192, 0, 2, 2),
	}
	buffer := gopacket.NewSerializeBuffer()
	for i, d := range all {
		udp := &layers.UDP{SrcPort: 40000, DstPort: port}
		if d.server {
			udp.SrcPort, udp.DstPort = udp.DstPort, udp.SrcPort
		}
		if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
			t.Fatal(err)
		}
		options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
		if err := gopacket.SerializeLayers(buffer, options, ether, ip, udp, gopacket.Payload(d.bytes)); err != nil {
			t.Fatal(err)
		}
		n := len(buffer.Bytes())
		info := gopacket.CaptureInfo{Timestamp: time.Unix(1790000000, int64(i)*1e6), CaptureLength: n, Length: n}
		if err := w.WritePacket(info, buffer.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
}
