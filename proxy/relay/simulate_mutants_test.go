package relay

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// mutantGames is how many games may pass before a planted fault is found. The games are the same on each machine, and
// at any load. `make simulate-mutants` sets it.
var mutantGames = flag.Int("mutants", 0, "plant faults, and play a number of games until each is found")

// mutant is a fault that TestMutants plants in a file of the module.
type mutant struct{ name, file, old, new string }

var mutants = []mutant{
	{"a Riptide message that came twice is delivered twice", "codec/riptide/window.go",
		"if ahead < 0 || w.bits != nil && w.isSet(s) {", "if ahead >= 0 && w.bits != nil && w.isSet(s) {"},
	{"a Riptide message is not sent again", "codec/riptide/send.go",
		"func (c *Conn) resendMessages(now time.Time) {", "func (c *Conn) resendMessages(now time.Time) {\n\treturn"},
	{"off by one: the newest RakNet message is accepted twice", "codec/raknet/window.go",
		"case ahead >= 0 && (ahead >= w.size() || !w.has(n)):",
		"case ahead == -1 || ahead >= 0 && (ahead >= w.size() || !w.has(n)):"},
	{"RakNet forgets to acknowledge", "codec/raknet/receiver.go",
		"\tr.HeardAt = now\n\tr.acknowledge(now, d)\n\tr.scope = everything\n" +
			"\trefusal, err := r.takeCapsules(now, d.body)\n\tr.holes",
		"\tr.HeardAt = now\n\tr.scope = everything\n\trefusal, err := r.takeCapsules(now, d.body)\n\tr.holes"},
	{"RakNet keeps a datagram that was only lent", "codec/raknet/receiver.go",
		"m.Payload, m.owned = r.memory.copy(m.Payload), true", "m.owned = false"},
	{"RakNet delivers ordered messages as they come", "codec/raknet/channel.go",
		"case ahead > 0:\n\t\treturn early", "case ahead > 1<<20:\n\t\treturn early"},
	{"RakNet lets a large message overtake older ones", "codec/raknet/packer.go",
		" || q == &p.s.bulk && p.s.isBehindSmall(m)", ""},
	{"RakNet believes a goodbye at once", "codec/raknet/goodbye.go",
		"if c.phase != connected {\n\t\tc.finish(c.goodbyeReason())",
		"if c.phase <= connected {\n\t\tc.finish(c.goodbyeReason())"},
	{"RakNet ignores goodbyes", "codec/raknet/goodbye.go", "case now >= g.EndAt:", "case now >= g.EndAt+time.Hour:"},
	{"RakNet forgets its window when it is saved", "codec/raknet/window.go",
		"base Seq24 `cbor:\"7,keyasint\"`", "base Seq24"},
	{"ENet believes a goodbye at once", "codec/enet/handshake.go",
		"= now.Add(goodbyePatience+2*c.rtt.Mean), now", "= now, now"},
	{"ENet forgets its order when it is saved", "codec/enet/inbox.go",
		"reliable   uint16 `cbor:\"1,keyasint\"`", "reliable   uint16"},
	{"R-Type says no goodbye to its clients", "codec/rtype/server.go",
		"s.pingDue, s.byeDue = false, !s.format.document", "s.pingDue, s.byeDue = false, false"},
	{"a message to send again is lent memory", "proxy/bridge/order.go",
		"k.buffer = append(k.buffer[:0], m.Payload[:size]...)", "k.buffer = m.Payload[:size]"},
	{"the bridge forgets messages to send again when it is saved", "proxy/bridge/save.go",
		"range s.kept.kept {\n\t\tif k.number", "range s.kept.kept[:0] {\n\t\tif k.number"},
	{"a server is never released", "proxy/relay/end.go", "s.route.pool.Release(s.server)", "_ = s.server"},
	{"a name stays after its session", "proxy/relay/enter.go", "\tr.presence.remove(s)\n", ""},
	{"an address is counted for ever", "proxy/relay/end.go", "\tr.guard.Discharge(&s.meter, e.Key.Client.Addr())\n", ""},
	{"a session's end counts twice", "proxy/relay/end.go", "r.counters.Closed++", "r.counters.Closed += 2"},
	{"a reload forgets a listener", "proxy/relay/arrange.go",
		"d := present[l.key()]\n\t\tif d == nil {", "d := present[l.key()]\n\t\tif true {"},
	{"a player who moves loses what the old server still sends", "proxy/relay/failover.go",
		"if s.life != seeking || x.late > maxLate {", "if x.late >= 0 {"},
	{"the server is not told that its player has left", "proxy/relay/end.go",
		"if s.upstream.Live() {\n\t\ts.upstream.Conn.Close(now, toServer(why, blame))",
		"if s.upstream.Live() {\n\t\ts.upstream.Down = true"},
	{"the player is not told of the end", "proxy/relay/end.go",
		"if s.client.Live() {\n\t\ts.client.Conn.Close(now, toClient(why, s.origin != noID))",
		"if s.client.Live() {\n\t\ts.client.Down = true"},
	{"any datagram proves an address", "proxy/relay/listener.go",
		"case codec.ProvedConnect:\n\t\treturn s.client.up", "case codec.ProvedConnect:\n\t\treturn true"},
	{"a cookie is accepted of another address", "codec/raknet/cookie.go", "\tcopy(b[40:], ip[:])\n", "\t_ = ip\n"},
	{"any acknowledgement proves an ENet client's address", "codec/enet/handshake.go",
		"at, ok := c.handshake.echoes(be.Uint16(cmd.body[2:]))\n\tif !ok {",
		"at, ok := c.handshake.echoes(be.Uint16(cmd.body[2:]))\n\tif ok = true; !ok {"},
	{"RakNet drops waiting messages as it closes", "codec/raknet/goodbye.go",
		"if !c.shutdown.Flows {", "if c.shutdown.Flows = false; !c.shutdown.Flows {"},
	{"a counter of datagrams wraps", "proxy/stats/counters.go",
		"func (t *Traffic) Count(datagram []byte) {\n\tt.Messages++",
		"func (t *Traffic) Count(datagram []byte) {\n\tt.Messages = uint64(uint8(t.Messages + 1))"},
	{"a changed session goes on as its copy", "proxy/relay/session.go",
		"e.Value.dirty, e.Value.copied = true, 0", "e.Value.dirty = true"},
	{"a relayed session that changed goes on as its copy", "proxy/relay/relayed.go",
		"s.heard, s.via, s.copied = s.since(now), s.listener.via(s.via), 0",
		"s.heard, s.via = s.since(now), s.listener.via(s.via)"},
	{"the successor keeps a session that has changed since its copy", "proxy/relay/copies.go",
		"if !one.kept {\n\t\t\tone.leave(i.relay)", "if one.kept = true; !one.kept {\n\t\t\tone.leave(i.relay)"},
	{"a session leaks", "proxy/relay/end.go", "\tr.table.Remove(e)\n", ""},
	{"a client ID leaks", "proxy/relay/enter.go", "s.route.ids.free(s.id)", "_ = s.id"},
	{"the bytes that a session holds leak", "proxy/relay/enter.go", "\tr.held.set(e, 0)\n", ""},
	{"a client stays known after its session", "proxy/relay/end.go", "r.known.remove(s.listener, e.Key.Client)", "_ = s"},
	{"a socket to a server leaks", "proxy/relay/end.go",
		"if s.socket != nil {\n\t\ts.socket.Close()", "if s.socket != nil {\n\t\t_ = s.socket"},
	{"a datagram for an ending session is dropped without a reason", "proxy/relay/receive.go",
		"r.drops.add(now, dropped{stats.DropUnexpected, l, from, len(datagram), codec.ErrClosed})\n\t\treturn", "return"},
	{"half-open sessions have no bound", "session/halfopen.go", "case h.count >= l.HalfOpen:", "case h.count >= 1<<30:"},
	{"a hold outlives its state", "proxy/relay/enter.go",
		"if last.isHeld() && !next.isHeld() {", "if false {"},
	{"a session that goodbyes wait for still dials", "proxy/relay/enter.go", "s.dialBy = time.Time{}", "_ = s"},
	{"any password admits a NetherNet client", "proxy/relay/joins.go",
		"case !j.integrity.Verify(b, t.Told().ServerPassword):", "case false:"},
	{"a successor believes a request that a stranger has recorded", "proxy/relay/joins.go",
		"Asked: g.sources.Asked(nil),", ""},
	{"a NetherNet session travels to its server's HTTP side", "proxy/relay/travelling.go",
		"to = v.Edge.Ticket.Target", "to = v.Server"},
	{"a NetherNet session stays at the loop that it had elsewhere", "internal/joining/save.go",
		"t.owner = uint16(loop)", "_ = loop"},
	{"a NAT that changes loses a NetherNet client", "proxy/relay/relayed.go",
		"client = s.edge.sources.To(datagram)", "_ = client"},
	{"a RakNet message is not sent again", "codec/raknet/flight.go", "f.resend = append(f.resend, r)", "_ = r"},
}

// plant returns the file with the fault.
func (m *mutant) plant(t *testing.T) (path string, text []byte) {
	path, err := filepath.Abs(filepath.Join("../..", m.file))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		t.Fatalf("%s has the place %d times, want once", m.file, n)
	}
	return path, []byte(strings.Replace(string(source), m.old, m.new, 1))
}

// TestMutants plants faults in the code, one after the other, and simulates until the fault is found. The same games
// without a fault must pass. Without -mutants it only looks for the places.
func TestMutants(t *testing.T) {
	var sound string
	played := 0 // games without a fault
	if *mutantGames > 0 {
		sound = buildGames(t, t.TempDir(), nil)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			path, text := m.plant(t)
			if *mutantGames == 0 {
				return
			}
			dir := t.TempDir()
			planted := filepath.Join(dir, "planted.go")
			if err := os.WriteFile(planted, text, 0o600); err != nil {
				t.Fatal(err)
			}
			faulty := buildGames(t, dir, map[string]string{path: planted})
			begun := time.Now()
			games, fault := playGames(t, faulty, *mutantGames)
			took := time.Since(begun).Round(100 * time.Millisecond)
			if fault == "" {
				t.Fatalf("not found in %d games", games)
			}
			if games > played {
				if _, own := playGames(t, sound, games); own != "" {
					t.Fatalf("without the fault the same games have: %s", own)
				}
				played = games
			}
			t.Logf("found in game %d, after %v: %s", games, took, fault)
		})
	}
}

// buildGames builds the games, with some files of the module replaced by others.
func buildGames(t *testing.T, dir string, replaced map[string]string) (binary string) {
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replaced})
	list := filepath.Join(dir, "overlay.json")
	if err == nil {
		err = os.WriteFile(list, overlay, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "games.test")
	build := exec.Command("go", "test", "-c", "-ldflags", "-s -w", "-overlay", list, "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the games do not compile: %s", out)
	}
	return binary
}

// playGames plays the games from seed 1 on, at most a number. It returns how many, and the invariant that the last one
// breaks.
func playGames(t *testing.T, binary string, most int) (games int, fault string) {
	play := exec.Command(binary, "-test.run", "^TestSimulate$", "-test.v", "-test.timeout", "0", "-seed", "1", "-brief",
		"-games", strconv.Itoa(most))
	out, err := play.CombinedOutput()
	played, broken := gamesPlayed.FindSubmatch(out), brokenInvariant.FindSubmatch(out)
	if played == nil || (err == nil) != (broken == nil) {
		t.Fatalf("the games ended without a verdict: %v\n%s", err, out)
	}
	games, _ = strconv.Atoi(string(played[1]))
	if broken != nil {
		fault = string(broken[1])
	}
	return games, fault
}

// What TestSimulate prints of its games, and of the first invariant that does not hold.
var (
	gamesPlayed     = regexp.MustCompile(`simulate_test\.go:\d+: (\d+) games, `)
	brokenInvariant = regexp.MustCompile(`simulate_test\.go:\d+: (after [0-9.msh]+: .*|\d+ sessions ended by chance .*)`)
)
