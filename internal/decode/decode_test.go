package decode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tidegate/codec/codectest"
)

// explainAll explains a capture as JSON.
func explainAll(t testing.TB, capture []byte, o Options) (datagrams []printed, sum summary) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "capture")
	if err := os.WriteFile(path, capture, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	o.JSON = true
	if err := File(path, &out, o); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, line := range lines {
		into := any(&sum)
		if i < len(lines)-1 {
			datagrams = append(datagrams, printed{})
			into = &datagrams[i]
		}
		if err := json.Unmarshal([]byte(line), into); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	return datagrams, sum
}

// codecs is the folder of the codecs, whose tests have captures.
const codecs = "../../codec"

// load reads a capture of the codecs' tests.
func load(t testing.TB, file string) []byte {
	t.Helper()
	return codectest.ReadCapture(t, os.DirFS(codecs), file)
}

// uncaptured names the protocols without captures, with the reason.
var uncaptured = map[string]string{
	"rtype-final": "its capture says rtype, whose Describe finds out", "rtype-0.0.1": "as rtype-final",
	"rtype-16": "as rtype-final", "rtype-32": "as rtype-final", "nethernet": "see TestNetherNet",
}

// TestCaptures understands all recorded datagrams of the real libraries, and recognizes the protocols by the bytes
// alone.
func TestCaptures(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range codectest.Captures(t, os.DirFS(codecs)) {
		if c.Stream { // its lines are reads
			continue
		}
		protocol := named(c.Protocol).Name
		seen[protocol] = true
		whole := load(t, c.File)
		_, bare, _ := bytes.Cut(whole, []byte("\n")) // removes the line that names the protocol
		for what, capture := range map[string][]byte{"described": whole, "bare": bare} {
			_, sum := explainAll(t, capture, Options{})
			if want := len(c.Lines); sum.Datagrams != want || sum.Unknown != 0 || sum.Protocols[protocol] != want {
				t.Errorf("%s, %s: %+v, want %d datagrams of %s", c.File, what, sum, want, protocol)
			}
		}
	}
	for _, name := range Protocols() {
		if why := uncaptured[name]; seen[name] == (why != "") {
			t.Errorf("%s: captures seen: %t, stated to have none: %q", name, seen[name], why)
		}
	}
}

// TestNetherNet understands all recorded datagrams of joins, recognizes them, and says how far each join came.
func TestNetherNet(t *testing.T) {
	files, err := filepath.Glob(codecs + "/nethernet/testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d captures, %v", len(files), err)
	}
	for _, file := range files {
		var recorded struct {
			Datagrams []struct {
				FromServer bool
				Hex        string
			}
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &recorded); err != nil {
			t.Fatal(err)
		}
		var capture strings.Builder
		for _, d := range recorded.Datagrams {
			from := map[bool]string{false: "client", true: "server"}[d.FromServer]
			fmt.Fprintf(&capture, `{"from":"%s","hex":"%s"}`+"\n", from, d.Hex)
		}
		datagrams, sum := explainAll(t, []byte(capture.String()), Options{})
		if want := len(recorded.Datagrams); sum.Unknown != 0 || sum.Protocols["nethernet"] != want {
			t.Errorf("%s: %+v, want %d datagrams", file, sum, want)
		}
		all := fmt.Sprint(datagrams)
		stages := []string{"asks for admission", "admits the client", "DTLS, which begins", "handshake is done"}
		for _, says := range append(stages, "nominates this path", "client hello") {
			if n := strings.Count(all, says); n == 0 || slices.Contains(stages, says) && n > 1 {
				t.Errorf("%s: %d datagrams show %q\n%s", file, n, says, all)
			}
		}
	}
}

// TestRTypeRecognised recognizes R-Type although it has no capture of its own and its first byte may also be
// Riptide's.
func TestRTypeRecognised(t *testing.T) {
	for _, capture := range []string{
		`{"from":"client","hex":"7374617274"}
{"from":"server","hex":"0002"}`,
		`{"from":"client","hex":"02"}
{"from":"server","hex":"00010141ffff000005"}
{"from":"client","hex":"03"}`,
	} {
		_, sum := explainAll(t, []byte(capture), Options{})
		if sum.Unknown != 0 || sum.Protocols["rtype"] != sum.Datagrams {
			t.Errorf("%s\n%+v", capture, sum)
		}
	}
}

const kicked = `{"protocol":"riptide-2.2"}
{"t_ms":0,"from":"client","hex":"02","what":"Client.Connect","relay":"dropped"}

{"t_ms":1000.5,"from":"client","hex":"8207"}
{"t_ms":1010,"from":"server","hex":"451066b606","conn":0}
{"t_ms":1011,"from":"client","conn":1,"hex":"0f"}
`

func TestText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "capture")
	if err := os.WriteFile(path, []byte(kicked), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := File(path, &out, Options{}); err != nil {
		t.Fatal(err)
	}
	const want = `       0.000 ms  client 0 > server  riptide-2.2  1 byte  connect
    (Client.Connect; dropped)
    1000.500 ms  client 0 > server  riptide-2.2  2 bytes  connect
    data, 1 byte: 78
    1010.000 ms  server > client 0  riptide-2.2  5 bytes  disconnect: kicked
    data, 3 bytes: 61666b
    1011.000 ms  client 1 > server  riptide-2.2  1 byte  unknown: malformed datagram
4 datagrams, 4 riptide-2.2; 1 not understood; 0 other packets ignored
`
	if out.String() != want {
		t.Errorf("says:\n%s\nwant:\n%s", &out, want)
	}
}

func TestForcedProtocol(t *testing.T) {
	datagrams, sum := explainAll(t, []byte(kicked), Options{Protocol: "riptide-2.0"})
	if sum.Datagrams != 4 || sum.Unknown != 4 || sum.Protocols["riptide-2.0"] != 4 || !datagrams[0].Unknown {
		t.Errorf("%+v: want 4 datagrams of riptide-2.0, none understood", sum)
	}
}

// TestUnknownProtocol gives no name to bytes of no known protocol.
func TestUnknownProtocol(t *testing.T) {
	datagrams, sum := explainAll(t, []byte(`{"t_ms":0,"from":"client","hex":"474554202f"}`), Options{})
	if sum.Unknown != 1 || sum.Protocols["unknown"] != 1 || datagrams[0].Text != "unknown: no known protocol: 474554202f" {
		t.Errorf("%+v, %+v", datagrams, sum)
	}
}

func TestUnreadable(t *testing.T) {
	for _, c := range []struct{ what, capture, says string }{
		{"nothing", "", "not a capture: want JSON Lines, pcap or pcapng"},
		{"something else", "\x7fELF", "not a capture: want JSON Lines, pcap or pcapng"},
		{"an odd digit", `{"from":"client","hex":"0"}`, "line 1: hex: "},
		{"a third party", "{}\n" + `{"from":"relay","hex":"00"}`, `line 2: from "relay": want client or server`},
		{"torn JSON", "{}\n{", "line 2: unexpected end of JSON input"},
		{"a line without end", "{" + strings.Repeat(" ", maxLine), "line 1: longer than 1048576 bytes"},
		{"half a packet", string(pcapOf(t, udpPacket(clientAddr, serverAddr, []byte{3}))[:50]), "EOF"},
		{"half a gzip", "\x1f\x8b\x08\x00", "EOF"},
	} {
		path := filepath.Join(t.TempDir(), "capture")
		if err := os.WriteFile(path, []byte(c.capture), 0o600); err != nil {
			t.Fatal(err)
		}
		err := File(path, io.Discard, Options{})
		if err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.what, err, c.says)
		}
	}
	for _, path := range []string{"/nonexistent", t.TempDir(), os.DevNull} {
		if err := File(path, io.Discard, Options{}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(kicked))
	f.Add([]byte(`{"transport":"tcp"}` + "\n" + `{"from":"client","hex":"0100000002"}`))
	f.Add(pcapOf(f, udpPacket(clientAddr, serverAddr, []byte{3}), tcpPacket(clientAddr, serverAddr, 7, []byte{1, 0, 3})))
	f.Fuzz(func(t *testing.T, capture []byte) {
		table := newTable("")
		if readRecords(bytes.NewReader(capture), 0, table.survey) != nil {
			return
		}
		table.settle()
		p := printer{out: io.Discard, protocols: make(map[string]int)}
		err := readRecords(bytes.NewReader(capture), 0, func(r *record) error {
			name, meaning := table.explain(r)
			return p.print(r, name, meaning)
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
