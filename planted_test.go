package main

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// plantFaults makes TestPlantedFaults run tests. `make planted-faults` sets it.
var plantFaults = flag.Bool("planted", false, "plant each fault that was found once, and run the test that finds it")

// planted is a fault that people outside found once, and the test that finds it now.
type planted struct {
	name           string
	file, old, new string
	folder, run    string // of the test
}

var plantedFaults = []planted{
	{"a message that ends within a byte goes to any server", "codec/raknet/sender.go",
		"if s.bits {\n\t\treturn pad", "if true {\n\t\treturn pad", "proxy", "^TestOddPlayerHarmsNoOther$"},
	{"a relay passes on what strangers send", "proxy/relay/newcomer.go",
		"return keeper.PassUp(now, &s.gate, s.server.Addr, datagram)",
		"_ = keeper.PassUp(now, &s.gate, s.server.Addr, datagram)\n\treturn nil",
		"proxy", "^TestStrangersOfARelayHarmNoPlayer$"},
	{"a notify message near the newest counts at once", "codec/riptide/window.go",
		"if isForged && !d.fits(h, next) || isStray && !d.isRun(now, h.seq) {", "if gap <= 0 {",
		"codec/riptide", "^TestForgedNumbers$"},
	{"a Riptide server is told the round trip of our own hop, and repeats after 10 ms", "codec/riptide/client.go",
		"rtt: c.rtt.milliseconds()", "rtt: 1", "codec/riptide", "^TestCutsAreBorne$"},
	{"a message far ahead of its turn is refused", "codec/raknet/receiver.go",
		"!r.isDue(c) && r.channels.isFar(c.channel, c.order)", "c.order.Sub(r.channels.at(c.channel).Order) >= 2048",
		"codec/raknet", "^TestStockPriorities$"},
	{"ENet gives up a peer of a far peer after 5 s", "codec/enet/flight.go",
		"p.least = p.most", "p.least = o.TimeoutMinimum", "proxy/relay", "^TestPausesBesideDirect$"},
	{"an ENet client waits for the session at its address", "codec/enet/handshake.go",
		"isSeeded && c.state >= admitted", "!isSeeded && c.state >= admitted", "proxy/relay", "^TestClientReturnsToItsPort$"},
	{"a missing route is a refusal", "proxy/relay/failover.go",
		"if errors.Is(err, netio.ErrUnreachable) {", "if errors.Is(err, netio.ErrUnreachable) && false {",
		"proxy/relay", "^Test(Players|Joins)OutliveAnInterruption$"},
	{"relayed clients that listen have no allowance", "proxy/relay/relayed.go",
		"return s.surplus.Spend(client, n) || ", "return false && ", "proxy/relay", "^TestSilentClientsAreTold$"},
	{"an answered question keeps its place", "proxy/relay/verdict.go",
		"return t.Spare(from)", "return nil", "proxy/relay", "^TestAnsweredQuestionsMakeRoom$"},
	{"a name is not looked up again when its server is lost", "internal/discovery/discovery.go",
		"has := c.Troubled()", "has := had",
		"internal/discovery", "^Test(NewTroubleAsksAtOnce|TroubleAsksAgain)$"},
	{"Riptide gives up a peer with a raised time-out after 5 s", "codec/riptide/receive.go",
		"if c.reflected {", "if false {", "proxy/relay", "^TestPausesBesideDirect$"},
	{"an address stays another loop's after its NetherNet session", "proxy/relay/edge.go",
		"d.from, d.back = r.shard.index, true", "d.from, d.back = r.shard.index, false",
		"proxy/relay", "^TestEdgeOverLoopsEnds$"},
	{"a stranger takes a travelled session to another loop", "proxy/relay/joins.go",
		"if !j.integrity.Verify(&j.binding, v.Edge.Ticket.ServerPassword) {", "if false {",
		"proxy/relay", "^TestStrangerTakesNoArrival$"},
	{"a message that begins again in smaller parts is told twice", "codec/raknet/receiver.go",
		"if isOrdered(m.Mode) && !slices.Contains(r.channels.at(m.Channel).Passed, r.printOf(&m)) {",
		"_ = slices.Contains[[]int]\n\tif isOrdered(m.Mode) {", "codec/raknet", "^TestHoleAfterArrival$"},
	{"a travelling session that is damaged is taken in", "proxy/relay/arrivals.go",
		"a.Sum != nil && !isIntact(b, a.Sum)", "a.Sum != nil && false && !isIntact(b, a.Sum)",
		"proxy/relay", "^TestDamagedTravel$"},
	{"each listener has room for NetherNet's joins of its own", "internal/door/door.go",
		"return &Listener{l, r}", "return &Listener{l, NewRoom(r.bound)}", "internal/door", "^TestRoomOfTwo$"},
	{"one address may take all places", "internal/setup/settings.go", "min(limit, table-table/8)", "min(limit, table)",
		"internal/setup", "^TestOneSourceLeavesPlaces$"},
	{"a door admits any number", "internal/door/door.go", "if len(r.conns) >= r.bound {",
		"if len(r.conns) >= r.bound && false {", "internal/door", "^Test"},
	{"a reload opens all ports in one turn", "proxy/listen.go", "slices.Chunk(fresh, turnListeners)",
		"slices.Chunk(fresh, 1<<20)", "proxy", "^TestReloadOfManyPortsTakesManyTurns$"},
	{"a process stands still for any successor as long", "internal/daemon/upgrade_linux.go",
		"if !s.keeps {\n\t\treturn freezeTime", "if s.keeps || true {\n\t\treturn freezeTime",
		"internal/daemon", "^TestStandstillIsBounded$"},
	{"a forger drags unreliable messages away", "codec/raknet/receiver.go", "near: r.anchor.holds(d.number)",
		"near: false", "codec/raknet", "^TestConformance$/.*/^forged-loss$"},
	{"texts of shared bans have no common bound", "internal/fleet/bans.go", "room := maxTexts - l.texts",
		"room := 1<<40 - l.texts", "internal/fleet", "^TestTextsAreBounded$"},
	{"a pipe is opened as a list", "internal/regular/regular.go", "if info.Mode().IsRegular() {",
		"if info.Mode().IsRegular() || true {", "internal/regular", "^Test"},
	{"a capture may have any number of interfaces", "internal/decode/pcap.go",
		"b.interfaces++; b.interfaces > maxInterfaces", "b.interfaces++; b.interfaces > 1<<30", "internal/decode", "^Test"},
	{"an old cookie goes to a server", "codec/raknet/handshake_client.go", "now-a.AskedAt > limit",
		"now-a.AskedAt > 60*limit", "codec/raknet", "^TestCookiesGrowOld$"},
	{"a server that is behind gets old cookies", "codec/raknet/handshake_client.go",
		"size := c.probe(probe, 0) - mtu", "size := mtu - mtu - 1", "codec/raknet", "^TestCookiesOfAServerThatIsBehind$"},
	{"a grant behind another first request is refused", "codec/raknet/handshake_client.go",
		"!a.Replied && a.StrandAt == 0 && !a.Back", "!a.Replied", "codec/raknet", "^TestCookiesOverALongPath$"},
	{"a forged ping makes a server go-raknet", "codec/raknet/keepalive.go",
		"c.keepalive.Ordered && m.Mode ==", "m.Mode ==", "codec/raknet", "^TestForgedPingsMakeNoGoRakNet$"},
	{"a list shows a server that is away", "codec/raknet/protocol.go", "text == nil && len(p.o.Pong) == 0",
		"text == nil && false", "codec/raknet", "^TestPinger$"},
	{"a server is asked in order for numbers to come", "codec/raknet/conn.go",
		"c.phase != closed && c.dialed:", "c.phase != closed && c.dialed && false:", "codec/raknet",
		"^TestForgedJumpIsNoFlood$"},
	{"a lost datagram leaves a probe without an end", "codec/raknet/congestion.go",
		"c.InFlight -= size\n\tc.endProbe(n)", "c.InFlight -= size", "codec/raknet", "^TestProbeEnds$"},
	{"go-raknet keeps the parts that come twice", "codec/raknet/doubt.go", "if s.toClient ||", "if !s.toClient ||",
		"codec/raknet", "^TestPartsThatComeTwice$"},
	{"go-raknet keeps the parts of long messages", "codec/raknet/doubt.go", "if d.Parts > s.partsAtOnce() {", "if false {",
		"codec/raknet", "^TestPartsThatComeTwice$"},
	{"an R-Type update passes before the names", "codec/rtype/server.go",
		"s.sizes == nil && len(s.options.Components) > 0", "false", "codec/rtype", "^TestUpdateBeforeTheNames$"},
	{"an upgrade forgets which parts came twice", "codec/raknet/sender.go",
		"doubts []doubt `cbor:\"27,keyasint,omitempty\"`", "doubts []doubt", "codec/raknet", "^TestSavedDoubts$"},
	{"parts have a channel that their message's mode has not", "codec/raknet/sender.go", "if m.Channel >= maxChannels {",
		"if false {", "codec/raknet", "^TestServersGetTheirForms$"},
	{"a successor tries no copy of a session", "proxy/relay/copies.go",
		"if last == nil && i.played < mostRehearsals {", "if false {", "proxy/relay", "^TestRehearsal$"},
	{"conversations of a capture have no common bound", "internal/decode/survey.go",
		"explain.NewMemory(maxMemory)", "explain.NewMemory(100 * maxMemory)",
		"internal/decode", "^TestOneCaptureIsBounded$"},
	{"a change of the year 1 is centuries late", "internal/fleet/sync.go", "min(max(0, now.Sub(changed)), maxLag)",
		"max(0, now.Sub(changed))", "internal/fleet", "^TestLagIsBounded$"},
	{"clients that cannot prove their address have no bound", "proxy/relay/admission/trust.go",
		"!t.Bucket.Take(at, rateOf(u.Session), amount) || ", "", "proxy/relay", "^TestForgedLifeIsBounded$"},
	{"a forger's numbers push the peer's out", "codec/internal/prints/prints.go", "p.rivals, at, at+1",
		"p.rivals, at&0, at&0+1", "codec/internal/prints", "^TestForgersDoNotPushOutThePeer$"},
	{"a server's parts must be as small as its last grant", "codec/raknet/handshake_client.go",
		"max(told, c.attempt.Widest)", "told", "codec/raknet", "^TestLateGrant$"},
	{"a forger keeps a client's former address active", "codec/nethernet/sources.go", "|| data && younger >= takeover",
		"|| data && younger >= 1<<60", "codec/nethernet", "^TestFormerAddressBesideTheClient$"},
	{"a forger makes another address of the client active", "codec/nethernet/sources.go",
		"s.sources[i].added-s.sources[s.active].proved", "s.sources[i].proved-s.sources[s.active].proved",
		"codec/nethernet", "^TestFormerAddressBesideTheClient$"},
}

// TestPlantedFaults plants each fault. The test must fail then. Without -planted it only looks for the places.
func TestPlantedFaults(t *testing.T) {
	for _, p := range plantedFaults {
		t.Run(p.name, func(t *testing.T) {
			source, err := os.ReadFile(p.file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(source), p.old); n != 1 {
				t.Fatalf("%s has the place %d times, want once", p.file, n)
			}
			if !*plantFaults {
				return
			}
			overlay := p.overlay(t, strings.Replace(string(source), p.old, p.new, 1))
			build := exec.Command("go", "build", "-overlay", overlay, "./"+filepath.Dir(p.file))
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("the fault does not compile: %s", out)
			}
			test := exec.Command("go", "test", "-count", "1", "-overlay", overlay, "-run", p.run, "./"+p.folder)
			out, err := test.CombinedOutput()
			if err == nil {
				t.Errorf("%s does not find it", p.run)
			} else if !strings.Contains(string(out), "--- FAIL") {
				t.Errorf("%s ended without a verdict: %s", p.run, out)
			}
		})
	}
}

// overlay returns a file that has the compiler read another text in place of the fault's file.
func (p *planted) overlay(t *testing.T, text string) string {
	dir := t.TempDir()
	source, err := filepath.Abs(p.file)
	if err != nil {
		t.Fatal(err)
	}
	changed, list := filepath.Join(dir, "planted.go"), filepath.Join(dir, "overlay.json")
	all, err := json.Marshal(map[string]map[string]string{"Replace": {source: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{changed: []byte(text), list: all} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return list
}
