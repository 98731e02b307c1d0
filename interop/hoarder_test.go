//go:build interop

package interop_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/sandertv/go-raknet"

	"tidegate/internal/testkit/rakserver"
)

// hoardTime is how long hoarders try. TIDEGATE_HOARD sets it, for example "10m".
func hoardTime(t *testing.T) time.Duration {
	text := os.Getenv("TIDEGATE_HOARD")
	if text == "" {
		return 20 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestHoarders has 40 clients of one address, of independent code, take all memory and all sessions that they can. The
// process stays within its bounds, and a player of another address plays on.
func TestHoarders(t *testing.T) {
	const megabyte = 1 << 20
	for _, test := range []struct {
		kind string
		more int // bytes of resident memory beside those at the start: Go's collector doubles the held bytes
	}{
		{"splits", 2*32*megabyte + 64*megabyte},
		{"early", 2*32*megabyte + 64*megabyte},
		{"sessions", 32 * megabyte},
	} {
		t.Run(test.kind, func(t *testing.T) {
			server := rakserver.Start(t, rakserver.Echo)
			p := startTidegate(t, route{protocol: "bedrock", transport: udp, server: strconv.Itoa(int(server.Port())),
				bedrock: `timeout = "10s"`})
			witness, err := raknet.DialTimeout(net.JoinHostPort("127.0.0.1", p.ports[udp]), patience)
			if err != nil {
				t.Fatal(err)
			}
			defer witness.Close()
			longest := echoUntilClosed(t, witness)
			before := p.resident(t)
			hoarders := startHoarders(t, p.ports[udp], test.kind, 40, hoardTime(t))
			most, joined := 0, 0
			for e := range hoarders {
				most, joined = max(most, p.resident(t)), max(joined, e.Joined)
			}
			t.Logf("resident memory was %d MiB, at most %d; %d hoarders had joined; longest wait for an echo %v",
				before/megabyte, most/megabyte, joined, longest())
			if most > before+test.more || joined < 30 {
				t.Errorf("resident memory went from %d to %d MiB with %d hoarders", before/megabyte, most/megabyte, joined)
			}
		})
	}
}

// hoarding is what the hoarders tell each second.
type hoarding struct {
	Event  string
	Joined int // clients that are in a session
}

// startHoarders runs hoarder.py at an address of its own. It needs only Python. The channel closes at its end.
func startHoarders(t *testing.T, port, kind string, many int, d time.Duration) <-chan hoarding {
	t.Helper()
	events := make(chan hoarding, 10000)
	heard := func(line []byte) {
		var e hoarding
		switch {
		case json.Unmarshal(line, &e) != nil:
		case e.Event == "left":
			close(events)
		default:
			events <- e
		}
	}
	start(t, nil, heard, "python3", filepath.Join("peers", "hoarder.py"), port, "127.0.0.2", kind, strconv.Itoa(many),
		strconv.Itoa(int(d.Seconds())))
	return events
}

// echoUntilClosed sends numbered messages and waits for each echo. The result returns the longest wait, and fails the
// test if there was no echo for long.
func echoUntilClosed(t *testing.T, conn *raknet.Conn) (longest func() time.Duration) {
	waits := make(chan time.Duration, 1)
	waits <- 0
	go func() {
		for i := 0; ; i++ {
			sent := time.Now()
			message := fmt.Appendf([]byte{packetByte}, "message %d", i)
			if _, err := conn.Write(message); err != nil {
				return
			}
			echo, err := conn.ReadPacket()
			if err != nil {
				return
			}
			if !bytes.Equal(echo, message) {
				t.Errorf("the echo of %q is %q", message, echo)
				return
			}
			waits <- max(<-waits, time.Since(sent))
		}
	}()
	return func() time.Duration {
		l := <-waits
		waits <- l
		if l > 5*time.Second {
			t.Errorf("a player of another address waited %v for an echo", l)
		}
		return l
	}
}

// resident returns the process's resident memory in bytes.
func (p *process) resident(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range bytes.Split(text, []byte("\n")) {
		var kilobytes int
		if _, err := fmt.Sscanf(string(line), "VmRSS: %d kB", &kilobytes); err == nil {
			return kilobytes << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}
