//go:build interop && linux

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

// TestHoarders has 40 clients of one address, of independent code, take all memory and all sessions that they can. The
// process stays within its bounds, and a player of another address plays on.
func TestHoarders(t *testing.T) {
	const megabyte = 1 << 20
	for _, test := range []struct {
		kind string
		more int // bytes of resident memory beside those at the start: Go's collector doubles the held bytes
		held int // bytes of resident memory that they must take, so that their address reaches its bound
		// least is how many hoarders must be there at once. Those with too much memory are sent away, and join again.
		least int
	}{
		{"splits", 2*32*megabyte + 64*megabyte, 32 * megabyte, 15},
		{"early", 2*32*megabyte + 64*megabyte, 32 * megabyte, 15},
		{"sessions", 32 * megabyte, 0, 30},
		{"streams", 32 * megabyte, 0, 0},
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
			before, idle := p.resident(t), p.descriptors(t)
			port, many := p.ports[udp], 40
			if test.kind == "streams" {
				port, many = p.ports[tcp], 200
			}
			hoarders := startHoarders(t, port, test.kind, many, attackTime(t))
			most, joined, open := 0, 0, 0
			for e := range hoarders {
				most, joined = max(most, p.resident(t)), max(joined, e.Joined)
				open = max(open, p.descriptors(t)-idle)
			}
			if test.kind == "streams" {
				t.Logf("%d of %d silent connections of one address stay open", open, many)
				if open == 0 || open > mostSilent {
					t.Errorf("%d connections stay open, want at most %d", open, mostSilent)
				}
			}
			t.Logf("resident memory was %d MiB, at most %d; %d hoarders had joined; longest wait for an echo %v",
				before/megabyte, most/megabyte, joined, longest())
			if most > before+test.more || most < before+test.held || joined < test.least {
				t.Errorf("resident memory went from %d to %d MiB with %d hoarders", before/megabyte, most/megabyte, joined)
			}
		})
	}
}

// mostSilent is how many connections of one address may be open and silent: half_open_per_address for the listener,
// and a few that are about to be closed.
const mostSilent = 100 + 8

// descriptors returns the number of a process's open descriptors. The kernel gives the lowest free number, and lists
// each number once. So the result is never more than were open at once, though connections come and go in the
// meantime; in a list of the kernel's connections, one that ends and its successor may both appear.
func (p *process) descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// hoarding is a line of the hoarders, one each second.
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
			events <- e
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
