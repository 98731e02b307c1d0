package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/pcapgo"
	gork "github.com/sandertv/go-raknet"

	"tidegate/codec"
	"tidegate/codec/codectest"
	"tidegate/codec/riptide"
	"tidegate/internal/testkit/await"
)

// greeting is the message of a captured client.
const greeting = "\xfehello, captured world"

// wiretap is a client's socket that records its datagrams.
type wiretap struct {
	net.Conn
	mu          sync.Mutex
	sent, heard []string
}

func (w *wiretap) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, string(b))
	return w.Conn.Write(b)
}

func (w *wiretap) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.heard = append(w.heard, string(b[:n]))
	}
	return n, err
}

func (w *wiretap) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	w.Conn = conn
	return w, err
}

// captured are the payloads of a capture's datagrams by interface and direction, for example "client inbound".
type captured map[string][]string

// readCapture reads the packets that a file has so far. The file may not exist yet.
func readCapture(t *testing.T, path string) captured {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	all := make(captured)
	reader, err := pcapgo.NewNgReader(bytes.NewReader(content), pcapgo.DefaultNgReaderOptions)
	for err == nil {
		err = all.read(t, reader)
	}
	if err != io.EOF && err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
	return all
}

// read reads a packet.
func (all captured) read(t *testing.T, reader *pcapgo.NgReader) error {
	t.Helper()
	data, info, about, err := reader.ReadPacketDataWithOptions()
	if err != nil {
		return err
	}
	packet := gopacket.NewPacket(data, reader.LinkType(), gopacket.Default)
	side, err := reader.Interface(info.InterfaceIndex)
	if err != nil || packet.TransportLayer() == nil {
		t.Fatalf("%v, of interface %v, %v", packet, side.Name, err)
	}
	way := side.Name + " inbound"
	if about.Flags.Direction == pcapgo.NgEpbFlagDirectionOutbound {
		way = side.Name + " outbound"
	}
	all[way] = append(all[way], string(packet.TransportLayer().LayerPayload()))
	return nil
}

// capturing is a command that captures beside the test.
type capturing struct {
	stop  context.CancelFunc // like Ctrl-C
	ended chan ran
}

type ran struct {
	code           int
	stdout, stderr string
}

// startCapture starts a capture of a process.
func startCapture(t *testing.T, p *process, flags ...string) *capturing {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c := &capturing{stop, make(chan ran, 1)}
	go func() {
		var out, errs bytes.Buffer
		code := run(ctx, exampleConfig, append([]string{"tidegate", "capture", "-c", p.file}, flags...), &out, &errs)
		c.ended <- ran{code, out.String(), errs.String()}
	}()
	p.await(t, "capture started by an operator")
	return c
}

// TestCapture records sessions of independent clients with the command, from before their first datagram to their end.
// The file has exactly the bytes that they sent and received, and decode explains all of it.
func TestCapture(t *testing.T) {
	for protocol, play := range map[string]func(t *testing.T, addr string, wire *wiretap){
		"raknet": playRakNet, "riptide-2.2": playRiptide,
	} {
		t.Run(protocol, func(t *testing.T) {
			p := startProcess(t, bridgeConfig(echoServer(t)))
			path := filepath.Join(t.TempDir(), "game.pcapng")
			if err := os.WriteFile(path, bytes.Repeat([]byte("old"), 1<<20), 0o644); err != nil {
				t.Fatal(err)
			}
			c := startCapture(t, p, "--force", "--client", "127.0.0.0/8", "-o", path)
			wire := new(wiretap)
			play(t, p.addr, wire)
			p.await(t, "session ended")
			await.Until(t, "all of it is in the file", func() bool { return wire.isIn(readCapture(t, path)) })
			c.stop()
			got := <-c.ended
			if got.code != 0 || got.stdout != "" ||
				!regexp.MustCompile(`(?m)^datagrams written: \d\d+, left out: 0$`).MatchString(got.stderr) {
				t.Fatalf("code %d, says %s%s", got.code, got.stdout, got.stderr)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the file is %v, %v", info.Mode(), err)
			}
			p.await(t, "capture ended")
			explained(t, path, protocol)
		})
	}
}

// isIn reports whether a capture has all datagrams that the client sent while the proxy ran, and all that it received.
func (w *wiretap) isIn(captured captured) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent, heard := captured["client inbound"], captured["client outbound"]
	return len(sent) > 0 && len(sent) <= len(w.sent) && slices.Equal(sent, w.sent[:len(sent)]) &&
		len(heard) >= len(w.heard) && slices.Equal(heard[:len(w.heard)], w.heard)
}

// playRakNet joins with go-raknet's client, sends a greeting, and leaves after the server's greeting.
func playRakNet(t *testing.T, addr string, wire *wiretap) {
	client, err := gork.Dialer{UpstreamDialer: wire}.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write([]byte(greeting)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.ReadPacket(); err != nil {
		t.Fatal(err)
	}
	_ = client.Close()
}

// playRiptide does the same with our own codec.
func playRiptide(t *testing.T, addr string, wire *wiretap) {
	m := codec.Message{Payload: []byte(greeting), Mode: codec.Reliable, HasID: true, ID: 7}
	playCodec(t, riptide.New(riptide.Options{}), addr, wire, m)
}

// playCodec joins with a codec of our own, sends a message, and leaves after the answer. It returns once the goodbye is
// complete: a goodbye that waits for acknowledgements would otherwise never be sent.
func playCodec(t *testing.T, p codec.Protocol, addr string, wire *wiretap, m codec.Message) {
	t.Helper()
	socket, err := wire.DialContext(t.Context(), "udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	conn := p.Dial(time.Now(), netip.MustParseAddrPort(addr), codec.Hello{Identity: 1})
	var buffer [codec.MaxDatagram]byte
	for left, over := false, false; !over; {
		leaves := false
		for _, ev := range codectest.Drain(conn) {
			switch ev.Kind {
			case codec.Connected:
				err = conn.Send(time.Now(), m)
			case codec.Received:
				conn.Close(time.Now(), codec.Goodbye{Reason: codec.Closed})
				left, leaves = true, true
			case codec.Disconnected:
				if !left {
					t.Fatalf("told %v", ev.Reason)
				}
				over = true
			}
		}
		for _, datagram := range codectest.Transmit(conn, time.Now()) {
			_, err = socket.Write(datagram)
		}
		if err != nil {
			t.Fatal(err)
		}
		if leaves || over { // a goodbye without acknowledgement is complete at once
			continue
		}
		_ = socket.SetReadDeadline(conn.NextTimeout())
		if n, err := socket.Read(buffer[:]); err == nil {
			_ = conn.Receive(time.Now(), buffer[:n]) // the end shows whether this worked
		}
		conn.Advance(time.Now())
	}
}

// explained lets decode explain a file. Both sides speak the protocol, all datagrams are understood, and both sides
// have the message.
func explained(t *testing.T, path, protocol string) {
	t.Helper()
	code, stdout, stderr := tidegate(t, "decode", path)
	if code != 0 || !strings.Contains(stdout, "; 0 not understood; 0 other packets ignored") ||
		!strings.Contains(stdout, protocol) {
		t.Fatalf("code %d, says\n%s%s", code, stdout, stderr)
	}
	if n := strings.Count(stdout, fmt.Sprintf("%x", greeting[:8])); n < 2 {
		t.Errorf("the message occurs %d times in\n%s", n, stdout)
	}
	if !regexp.MustCompile(`(?m)^ +\(session \d\)$`).MatchString(stdout) {
		t.Errorf("no session is named in\n%s", stdout)
	}
}

func TestCaptureMisuse(t *testing.T) {
	p := startProcess(t, bridgeConfig("127.0.0.1:1"))
	path := filepath.Join(t.TempDir(), "x.pcapng")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 2, "want -o FILE"},
		{[]string{"-o", path, "--for", "0s"}, 2, "--for 0s: want more than 0s"},
		{[]string{"-o", path, "--count", "0"}, 2, "--count 0: want at least 1"},
		{[]string{"-o", path, "--max-size", "64"}, 2, `--max-size "64": want bytes with a unit`},
		{[]string{"-o", path, "--rotate-size", "64"}, 2, `--rotate-size "64": want bytes with a unit`},
		{[]string{"-o", path, "--rotate-every", "0s"}, 2, "--rotate-every 0s: want more than 0s"},
		{[]string{"-o", path, "--keep", "2"}, 2, "--keep: want at least 1, with --rotate-size or --rotate-every"},
		{[]string{"-o", "-", "--rotate-size", "1MiB"}, 2, "want a file for a rotation"},
		{[]string{"-o", path, "--client", "10.0.0.1/8"}, 2, "did you mean 10.0.0.0/8?"},
		{[]string{"-o", path, "--session", "z"}, 1, "no such session"},
		{[]string{"-o", path, "--route", "z"}, 1, "no such route"},
		{[]string{"-o", path, "--upstream", "z"}, 1, "no such upstream"},
		{[]string{"-o", path, "now"}, 2, `unexpected argument "now"`},
		{[]string{"-o", filepath.Join(path, "y")}, 1, "no such file or directory"},
	} {
		code, stdout, stderr := tidegate(t, append([]string{"capture", "-c", p.file}, c.args...)...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("capture %v: code %d, says %s%s; want %d and %q", c.args, code, stdout, stderr, c.code, c.says)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was made although nothing was captured")
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := tidegate(t, "capture", "-c", p.file, "-o", path, "--for", "1ms")
	kept, err := os.ReadFile(path)
	if code != 2 || !strings.Contains(stderr, "replace it with --force") || err != nil || string(kept) != "mine" {
		t.Errorf("code %d, says %s; the file has %q, %v", code, stderr, kept, err)
	}
}

// TestCaptureToPipe ends after a number of datagrams, on standard output.
func TestCaptureToPipe(t *testing.T) {
	p := startProcess(t, bridgeConfig("127.0.0.1:1"))
	c := startCapture(t, p, "--client", "127.0.0.1", "--count", "3", "-o", "-") // leaves out checks of the server
	for range 2 {
		p.pong(t)
	}
	got := <-c.ended
	if got.code != 0 || !strings.Contains(got.stderr, "datagrams written: 3, left out: 0") {
		t.Fatalf("code %d, says %s", got.code, got.stderr)
	}
	path := filepath.Join(t.TempDir(), "x.pcapng")
	if err := os.WriteFile(path, []byte(got.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	if captured := readCapture(t, path); len(captured["client inbound"]) != 2 || len(captured["client outbound"]) != 1 {
		t.Errorf("captured %q", captured)
	}
}

// TestCaptureInTurns keeps the last two files of a capture that begins another one with nearly each datagram.
func TestCaptureInTurns(t *testing.T) {
	p := startProcess(t, bridgeConfig("127.0.0.1:1"))
	folder := t.TempDir()
	c := startCapture(t, p, "--client", "127.0.0.1", "--count", "6", "--rotate-size", "512B", "--keep", "2", "-o",
		filepath.Join(folder, "ring.pcapng"))
	for range 4 {
		p.pong(t)
	}
	if got := <-c.ended; got.code != 0 || !strings.Contains(got.stderr, "datagrams written: 6, left out: 0") {
		t.Fatalf("code %d, says %s", got.code, got.stderr)
	}
	names, err := filepath.Glob(filepath.Join(folder, "*"))
	named := regexp.MustCompile(`ring_0000\d_\d{14}\.pcapng$`)
	if err != nil || len(names) != 2 || !named.MatchString(names[1]) {
		t.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		captured := readCapture(t, name)
		info, err := os.Stat(name)
		if len(captured["client inbound"])+len(captured["client outbound"]) == 0 || err != nil || info.Size() > 512 {
			t.Errorf("%s: %v, %q, %v", name, info, captured, err)
		}
	}
}

// TestCaptureOfAProxyThatEnds writes a complete file, and says that it is shorter than the user wanted.
func TestCaptureOfAProxyThatEnds(t *testing.T) {
	p := startProcess(t, bridgeConfig("127.0.0.1:1"))
	path := filepath.Join(t.TempDir(), "x.pcapng")
	c := startCapture(t, p, "-o", path, "--for", "1m")
	p.pong(t)
	if code, _, stderr := tidegate(t, "drain", "-c", p.file); code != 0 {
		t.Fatal(stderr)
	}
	if got := <-c.ended; got.code != 1 || !strings.Contains(got.stderr, "the proxy ended during the capture") {
		t.Errorf("ended with code %d: %s", got.code, got.stderr)
	}
	if captured := readCapture(t, path); len(captured["client inbound"]) != 1 || len(captured["client outbound"]) != 1 {
		t.Errorf("captured %q", captured)
	}
}
