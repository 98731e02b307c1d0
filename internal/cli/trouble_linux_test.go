package cli

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/freeport"
	"tidegate/internal/testkit/rakserver"
)

// troubles run again and again until stop.
type troubles struct {
	stopped chan struct{}
	ended   sync.WaitGroup
}

func (d *troubles) run(f func()) {
	d.ended.Go(func() {
		for {
			select {
			case <-d.stopped:
				return
			default:
				f()
			}
		}
	})
}

func (d *troubles) stop() {
	close(d.stopped)
	d.ended.Wait()
}

// flood sends requests for a session as strangers, and counts them.
func (d *troubles) flood(addr string) (sent *atomic.Int64) {
	sent = new(atomic.Int64)
	// An open connection request 1 of RakNet.
	request := append([]byte{5, 0, 255, 255, 0, 254, 254, 254, 254, 253, 253, 253, 253, 18, 52, 86, 120, 11},
		make([]byte, 1000)...)
	d.run(func() {
		conn, err := net.Dial("udp", addr)
		if err != nil {
			return // no port is free for a moment
		}
		for range 100 {
			_, _ = conn.Write(request) // the flooded socket may refuse it
		}
		_ = conn.Close()
		sent.Add(100)
	})
	return sent
}

// lostServer is a game server that echoes, and goes away.
type lostServer struct {
	t        *testing.T
	addr     string
	listener *gork.Listener
	accepted chan *gork.Conn
}

func (s *lostServer) serve(at string) {
	s.t.Helper()
	var err error
	s.listener, err = gork.Listen(at)
	must(s.t, err)
	s.t.Cleanup(func() { _ = s.listener.Close() })
	s.addr, s.accepted = s.listener.Addr().String(), make(chan *gork.Conn, 1)
	go func(from *gork.Listener, to chan<- *gork.Conn) {
		if conn, err := from.Accept(); err == nil {
			to <- conn.(*gork.Conn)
			rakserver.Echo(conn.(*gork.Conn))
		}
	}(s.listener, s.accepted)
}

func (s *lostServer) lose() {
	s.t.Helper()
	must(s.t, (<-s.accepted).Close())
	must(s.t, s.listener.Close())
}

// heldListener is the configuration of a listener whose players wait for a lost server.
func heldListener(at, server string) string {
	return `
[[listener]]
name = "held"
address = "` + at + `"
protocols = ["bedrock"]
route = "held"
[[route]]
name = "held"
upstream = "held"
failover = "hold"
hold_goodbyes = true
hold_time = "2m"
[[upstream]]
name = "held"
protocol = "bedrock"
servers = ["` + server + `"]
`
}

// TestUpgradeInTrouble upgrades while all of these are under way: reloads, captures, joins, a flood of strangers, and a
// player whose server is lost. Players of all protocols play. No player notices. What the operator sees is what
// docs/operate/running.md says.
func TestUpgradeInTrouble(t *testing.T) {
	lost, second, others := &lostServer{t: t}, freeport.Loopback(t).String(), newGames(t)
	lost.serve(freeport.Loopback(t).String())
	p := startProcess(t, bridgeConfig(echoServer(t))+heldListener(second, lost.addr)+others.configuration())
	player, err := gork.DialTimeout(second, await.Patience)
	must(t, err)
	t.Cleanup(func() { _ = player.Close() })
	comesTo := func(state string) {
		t.Helper()
		await.Until(t, state, func() bool {
			_, stdout, _ := separately(t, "sessions", "list", "--route", "held", "--state", state, "--count", "-c", p.file)
			return stdout == "1\n"
		})
	}
	comesTo("established")
	lost.lose()
	comesTo("held")
	talk := p.talking(t, 4)
	others.begin(t, p)

	under := &troubles{stopped: make(chan struct{})}
	var answers sync.Map // of reloads
	under.run(func() {
		code, _, stderr := separately(t, "reload", "-c", p.file)
		answers.Store(answerOf(code, stderr), true)
	})
	under.run(func() {
		if conn, err := gork.DialTimeout(p.addr, await.Patience); err == nil {
			_ = conn.Close()
		}
	})
	sent := under.flood(p.addr)
	pid := p.cmd.Process.Pid
	for range 3 {
		file := filepath.Join(t.TempDir(), "capture.pcapng")
		captured := make(chan string, 1)
		go func() {
			code, _, stderr := separately(t, "capture", "-c", p.file, "--for", "2m", "-o", file)
			captured <- answerOf(code, stderr)
		}()
		await.Until(t, "a capture with datagrams", func() bool {
			i, err := os.Stat(file)
			return err == nil && i.Size() > 1000
		})
		before := sent.Load()
		pid = p.upgraded(t, pid)
		talk.goesOn(t)
		others.goOn(t, p)
		t.Logf("%d datagrams of the flood during the upgrade", sent.Load()-before)
		if got := <-captured; !strings.HasPrefix(got, "1 ") || !strings.Contains(got, "the proxy ended during the capture") {
			t.Errorf("the capture's command ends with %s", got)
		}
	}
	under.stop()
	answers.Range(func(answer, _ any) bool {
		got := answer.(string)
		if got != "0" && !strings.HasPrefix(got, "1 tidegate: ask the proxy at ") &&
			got != "1 tidegate: reload: this process is ending; after an upgrade, ask the new one" {
			t.Errorf("a reload ends with %s", got)
		}
		return true
	})
	others.end(t)
	talk.end(t)
	comesTo("held")
	lost.serve(lost.addr)
	comesTo("established")
	_, err = player.Write([]byte{0xfe, 7})
	must(t, err)
	for heard := byte(0); heard != 7; { // the new server also hears what the old one had not acknowledged
		b, err := player.ReadPacket()
		must(t, err)
		heard = b[1]
	}
	must(t, syscall.Kill(pid, syscall.SIGTERM))
}

// answerOf returns what the operator sees of a command that has ended.
func answerOf(code int, stderr string) string {
	return strings.TrimSpace(string(rune('0'+code)) + " " + stderr)
}
