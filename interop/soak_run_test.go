//go:build interop && soak && linux

package interop_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/rtypegame"
)

var (
	soakFor     = flag.Duration("soak", time.Minute, "how long TestSoak runs")
	soakHostile = flag.Bool("hostile", false, "TestSoak: forgers and hostile players beside the honest ones")
)

// TestSoak runs the binary for a long time under a mixed load: 50 players join and 50 leave each second, of all
// protocols, over UDP and TCP on one port, and relayed and R-Type players on two others. No figure of the process may
// grow. At the end all players leave, all tables are empty, and the books balance.
func TestSoak(t *testing.T) {
	s := startSoak(t)
	if *soakHostile {
		s.attack(t)
	}
	await.Within(soakWarmUp, func() bool { return false })
	began := time.Now()
	var samples []figures
	ticker := time.NewTicker(sampleEvery(*soakFor))
	defer ticker.Stop()
	for time.Since(began) < *soakFor {
		<-ticker.C
		f := s.scraper.read(t)
		if f == nil {
			s.unanswered++
			continue
		}
		samples = append(samples, f)
		if n := len(samples); n%20 == 0 {
			t.Logf("%v: %s", time.Since(began).Round(time.Second), s.line(samples[n-1]))
		}
	}
	s.endAttack()
	r := s.finish(t, time.Since(began), samples)
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(os.Stdout, "%s\n", text)
	for _, fault := range r.Faults {
		t.Error(fault)
	}
	if err := s.gate.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := s.gate.wait(); err != nil {
		t.Errorf("SIGTERM: %v, want exit code 0", err)
	}
}

// soakWarmUp is the time until as many players leave as join: the longest stay, and the silence after a relayed one.
const soakWarmUp = 25 * time.Second

// soak is a run.
type soak struct {
	gate    *proxy
	ports   map[string]string
	players []*soakPlayers
	scraper *scraper
	siege   *siege // nil without hostile senders

	unanswered int // scrapes that a loop did not answer in time
}

// soakResult is the summary of a run.
type soakResult struct {
	Seconds  float64
	Hostile  int64 `json:",omitempty"` // datagrams of hostile senders
	Players  map[string]soakBooks
	Trends   []trend
	Books    map[string]float64
	CPUShare float64 // of one core
	// LongestTurn is that of the proxy's loops, in seconds. With the players' pauses it shows how busy the machine was.
	LongestTurn float64
	Faults      []string
}

// startSoak starts the binary with the default limits, the servers and the players.
func startSoak(t *testing.T) *soak {
	t.Helper()
	arena, copied := startSoakServer(t, "raknet"), startSoakServer(t, "bedrock")
	world := newRTypeServer(t, rtypegame.Late)
	playWorld(t, world)
	dir := t.TempDir()
	s := &soak{ports: map[string]string{"public": freePort(t), "relay": freePort(t), "world": freePort(t)}}
	file, socket := filepath.Join(dir, "tidegate.toml"), filepath.Join(dir, "admin.sock")
	text := fmt.Sprintf(soakConfiguration, s.ports["public"], s.ports["relay"], s.ports["world"], arena.port, copied.port,
		portOf(t, world.socket.LocalAddr().String()), socket)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.gate = &proxy{journal: make(chan journalEntry, 1)}
	s.gate.process = start(t, nil, func([]byte) {}, tidegate, "run", "-c", file)
	s.scraper = newScraper(socket)
	await.Until(t, "ready", func() bool {
		answer, err := s.scraper.Get("http://localhost/readyz")
		if err == nil {
			_ = answer.Body.Close()
		}
		return err == nil && answer.StatusCode == 200
	})
	for i, load := range []soakLoad{
		{protocol: "raknet", joins: 12, largest: 20_000},
		{protocol: "riptide-2.2", joins: 10, largest: 1000},
		{protocol: "riptide-2.0", joins: 6, largest: 1000},
		{protocol: "enet", joins: 10, largest: 20_000},
		{protocol: "rudp", joins: 4, lossy: true},
		{protocol: "riptide-2.2", stream: true, joins: 4, largest: 1000},
		{protocol: "bedrock", port: "relay", joins: 4, largest: 20_000},
		{protocol: "rtype-32", port: "world", silent: true},
	} {
		load.steady = 10
		if load.port == "" {
			load.port = "public"
		}
		load.port = s.ports[load.port]
		s.players = append(s.players, newSoakPlayers(t, load, uint64(i+1)))
	}
	return s
}

const soakConfiguration = `
[[listener]]
name = "public"
address = "127.0.0.1:%[1]s"
protocols = ["raknet", "riptide-2.2", "riptide-2.0", "rudp", "enet"]
route = "arena"
[[listener]]
name = "stream"
transport = "tcp"
address = "127.0.0.1:%[1]s"
protocols = ["riptide-2.2"]
route = "arena"
[[listener]]
name = "relay"
address = "127.0.0.1:%[2]s"
protocols = ["bedrock"]
route = "relay"
[[listener]]
name = "world"
address = "127.0.0.1:%[3]s"
protocols = ["rtype-32"]
route = "world"
[[route]]
name = "arena"
upstream = "arena"
ordered = "fast"
allow_lossy = true
packet_id = 254
[[route]]
name = "relay"
upstream = "copied"
mode = "relay"
[[route]]
name = "world"
upstream = "world"
[[upstream]]
name = "arena"
protocol = "raknet"
servers = ["127.0.0.1:%[4]s"]
[[upstream]]
name = "copied"
protocol = "bedrock"
servers = ["127.0.0.1:%[5]s"]
[[upstream]]
name = "world"
protocol = "rtype-32"
servers = ["127.0.0.1:%[6]s"]
[limits]
idle_timeout = "10s" # a relayed player leaves in silence
[rudp]
rate = 30 # a busy machine answers late
[riptide]
quality_disconnect = false
[rtype]
ping_interval = "2s" # players only listen
[log]
level = "warn"
[admin]
listen = "unix:%[7]s"
`

// playWorld runs a small R-Type game.
func playWorld(t *testing.T, server *rtypeServer) {
	t.Helper()
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(worldPause)
		defer ticker.Stop()
		for frame := 0; ; frame++ {
			select {
			case <-stop:
				return
			case now := <-ticker.C:
				server.frame(now, frame)
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-ended })
}

// line is a short report in the middle of a run.
func (s *soak) line(f figures) string {
	var joined, ended, failed, missing int
	for _, p := range s.players {
		b := p.snapshot()
		joined, ended, failed, missing = joined+b.Joined, ended+b.Ended, failed+b.Failed, missing+b.Missing+b.Doubled
	}
	return fmt.Sprintf("%d joined, %d failed, %d ended by others, %d messages lost or doubled; %.0f sessions, %.1f MiB, "+
		"%.0f goroutines, %.0f descriptors", joined, failed, ended, missing, f.sum("tidegate_sessions"),
		f.sum("process_resident_memory_bytes")/(1<<20), f.sum("go_goroutines"), f.sum("process_open_fds"))
}

// finish lets all players leave, and makes the summary.
func (s *soak) finish(t *testing.T, took time.Duration, samples []figures) *soakResult {
	t.Helper()
	r := &soakResult{Seconds: took.Seconds(), Players: make(map[string]soakBooks)}
	first, last := samples[0], samples[len(samples)-1]
	r.CPUShare = (last.sum("process_cpu_seconds_total") - first.sum("process_cpu_seconds_total")) / took.Seconds()
	if r.LongestTurn = longestTurn(samples); s.unanswered > len(samples)/50 {
		r.fault("%d of %d scrapes had no answer", s.unanswered, s.unanswered+len(samples))
	}
	for _, one := range flatFigures(last) {
		tr := trendOf(one, samples)
		if r.Trends = append(r.Trends, tr); !tr.Flat {
			r.fault("%s has grown from %.0f to %.0f", tr.Name, tr.Early, tr.Late)
		}
	}
	for _, p := range s.players {
		p.leaving.Store(true)
	}
	await.Within(2*soakLate, func() bool { return s.open() == 0 })
	after := s.empty(t, r)
	var datagrams uint64
	for _, p := range s.players {
		b := p.snapshot()
		r.Players[p.name()] = b
		r.Faults = append(r.Faults, b.faults(p)...)
		datagrams += b.Datagrams - b.Unsent
	}
	r.balance(after, float64(datagrams), s.siege == nil)
	if s.siege != nil {
		r.Hostile = s.siege.sent.Load()
	}
	return r
}

// soakStays are figures that players leave behind: bans, and the paths to servers, at most one for each server.
var soakStays = map[string]bool{"tidegate_bans": true, `tidegate_table_entries{table="paths"}`: true}

func (s *soak) open() (n int) {
	for _, p := range s.players {
		n += p.snapshot().open
	}
	return n
}

func (r *soakResult) fault(format string, args ...any) {
	r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
}

// empty waits until the proxy has no session, and checks that every table is empty.
func (s *soak) empty(t *testing.T, r *soakResult) (f figures) {
	t.Helper()
	var full []string
	if !await.Within(time.Minute, func() bool {
		if f, full = s.scraper.read(t), nil; f == nil {
			return false
		}
		for _, one := range flatFigures(f) {
			if n := one.of(f); n > 0 && strings.HasPrefix(one.name, "tidegate_") && !soakStays[one.name] {
				full = append(full, fmt.Sprintf("%s is %.0f", one.name, n))
			}
		}
		return len(full) == 0
	}) {
		r.fault("a minute after the last player: %s", strings.Join(full, ", "))
	}
	return f
}

// balance compares the books of the proxy with each other, and with the datagrams that the players have sent.
func (r *soakResult) balance(f figures, sent float64, alone bool) {
	r.Books = map[string]float64{"datagrams sent by players": sent}
	for _, side := range []string{"client", "server"} {
		label := fmt.Sprintf("side=%q", side)
		in := f.sum("tidegate_datagrams_total", label, `direction="in"`)
		r.Books[side+" datagrams in"] = in
		for _, fate := range []string{"taken", "answered", "dropped", "stray"} {
			n := f.sum("tidegate_datagrams_received_total", label, fmt.Sprintf("fate=%q", fate))
			r.Books[side+" "+fate] = n
			in -= n
		}
		if in != 0 {
			r.fault("%.0f datagrams of the %s side have no fate", in, side)
		}
	}
	for name, n := range f {
		if strings.HasPrefix(name, "tidegate_dropped_total{") && n > 0 {
			r.Books[strings.TrimPrefix(name, "tidegate_")] = n
		}
	}
	dropped := r.Books["client dropped"] + r.Books["server dropped"]
	if n := f.sum("tidegate_dropped_total"); n < dropped {
		r.fault("%.0f datagrams dropped, but %.0f reasons", dropped, n)
	}
	lost := f.sum("tidegate_socket_drops_total", "kernel-receive-buffer") +
		f.sum("tidegate_kernel_filtered_total") - f.sum("tidegate_kernel_filtered_total", `verdict="passed"`)
	r.Books["dropped by the kernel"] = lost
	// A player that leaves over TCP closes the connection, perhaps before its last frames are read.
	missing := sent - lost - r.Books["client datagrams in"]
	r.Books["client datagrams unaccounted for"] = missing
	if alone && (missing < 0 || missing > sent/10_000+2) {
		r.fault("the players sent %.0f datagrams, %.0f more than the proxy counts", sent, missing)
	}
	opened, ended := f.sum("tidegate_sessions_opened_total"), f.sum("tidegate_sessions_ended_total")
	r.Books["sessions opened"], r.Books["sessions ended"] = opened, ended
	if opened != ended || opened != f.sum("tidegate_handshakes_total") {
		r.fault("%.0f sessions opened, %.0f ended, %.0f handshakes", opened, ended, f.sum("tidegate_handshakes_total"))
	}
}
