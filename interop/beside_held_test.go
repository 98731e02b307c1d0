//go:build interop

package interop_test

import (
	"encoding/hex"
	"net/netip"
	"regexp"
	"strings"
	"syscall"
	"time"

	"tidegate/internal/testkit/rtypegame"
)

// restartHeld kills the server of a silent player, and starts it again with another world. What the player misses of
// that, or has beyond it, is lost.
func restartHeld(s *stage) {
	server := newRTypeServerAt(s.t, rtypegame.Late, s.at)
	player := newRTypePlayer(s.t, rtypegame.Late, netip.MustParseAddrPort(s.door))
	server.play(2 * time.Second)
	_ = server.socket.Close()
	server.wait.Wait()
	s.pass(1500 * ms)
	server = newRTypeServerAt(s.t, rtypegame.Late, s.at)
	server.mu.Lock()
	for range 2 * rtypeEntities {
		server.game.Spawn(map[string][]byte{"Health": {7}})
	}
	server.mu.Unlock()
	for end := time.Now().Add(s.row.limit); ; {
		server.play(500 * ms)
		s.pass(100 * ms)
		player.mu.Lock()
		d := rtypegame.Compare(server.world(), server.unmask(player.client.World))
		player.mu.Unlock()
		if s.missed = d.Missing + d.Ghosts + d.Components; s.missed == 0 || time.Now().After(end) {
			return
		}
	}
}

// updatesFirst has a player of the first stage send an update before anything else, and many more. Its server runs a
// frame for each. An answer that does not come in time is lost.
func updatesFirst(s *stage) {
	server := rtypeSocketAt(s.t, s.at)
	game := rtypegame.NewServer(rtypegame.Early, rtypeNames, func(to netip.AddrPort, d []byte) {
		_, _ = server.WriteToUDPAddrPort(d, to) // losses show
	})
	game.Spawn(map[string][]byte{"Health": {100}})
	go receive(server, func(from netip.AddrPort, d []byte) {
		game.Receive(time.Now(), from, d)
		game.Update(0, "Health", []byte{1})
		game.Frame(time.Now())
	})
	socket := towards(s.door, 0)
	defer func() { _ = socket.Close() }()
	_, _ = socket.Write([]byte("start"))
	const answers = 50
	s.missed = answers
	b := make([]byte, 2048)
	for end := time.Now().Add(s.row.limit); s.missed > 0 && time.Now().Before(end); {
		_, _ = socket.Write([]byte{3, 0, 0, 0, 1, 2, 3})
		_ = socket.SetReadDeadline(time.Now().Add(20 * ms))
		for n, err := socket.Read(b); err == nil; n, err = socket.Read(b) {
			if n > 0 && b[0] == 3 {
				s.missed = max(0, s.missed-1)
			}
		}
	}
}

// nameless has a server of R-Type send frames, and never the names of the game's components.
func nameless(s *stage) {
	server := rtypeSocketAt(s.t, s.at)
	go receive(server, func(from netip.AddrPort, _ []byte) {
		for range 4 {
			_, _ = server.WriteToUDPAddrPort([]byte{10}, from)
		}
	})
	newRTypePlayer(s.t, rtypegame.Final, netip.MustParseAddrPort(s.door))
}

// overflow has a server send more than the socket towards it holds, while Tidegate stands still. Metrics, log and why
// must tell what the kernel has dropped.
func overflow(s *stage) {
	if s.gate == nil {
		return
	}
	dropped := regexp.MustCompile(`(?m)^tidegate_socket_drops_total{.*"upstream-receive-buffer"} [1-9]`)
	if !s.within(patience, func() bool { // on a busy machine the server may send after the stand
		s.signal(s.gate.cmd.Process.Pid, syscall.SIGSTOP)
		_ = s.server.do(order{Count: 40_000, First: 1 << 20, Size: 1000})
		s.signal(s.gate.cmd.Process.Pid, syscall.SIGCONT)
		return dropped.MatchString(s.asked("/metrics"))
	}) {
		s.t.Error("the metrics do not count what the kernel has dropped")
	}
	told := func(e journalEntry) bool { return e.Message == "no room for what servers send" }
	if !s.within(patience, func() bool { return s.gate.hasLogged(told) }) {
		s.t.Error("the log does not tell what the kernel has dropped")
	}
	if why := s.asked("/api/v1/why?address=127.0.0.1"); !strings.Contains(why, "net.core.rmem_max") {
		s.t.Errorf("why does not tell what the kernel has dropped: %s", why)
	}
}

// signs is a RakNet server that takes no player, and players of Riptide, whose GUIDs Tidegate makes. Newer go-raknet
// blocks an address whose GUID has no top bit. There is no direct way.
var signs = &kit{name: "Riptide to RakNet", protocol: "bedrock",
	server: func(s *stage, address string) *peer {
		p := &peer{name: "GUID server", events: make(chan event, 10000)}
		socket := bound(address)
		s.t.Cleanup(func() { _ = socket.Close() })
		p.events <- event{Event: "listening"}
		go receive(socket, func(from netip.AddrPort, d []byte) {
			const magic = "00ffff00fefefefefdfdfdfd12345678"
			switch {
			case len(d) > 18 && d[0] == 5: // a request gets a reply without cookie
				b, _ := hex.DecodeString("06" + magic + "800000000000000100" + "05d4")
				_, _ = socket.WriteToUDPAddrPort(b, from)
			case len(d) >= 34 && d[0] == 7:
				p.events <- event{Event: "figure", Name: "top bit", Figure: float64(d[len(d)-8] >> 7)}
			}
		})
		return p
	},
	join: func(s *stage, first, count int) {
		if s.gate != nil {
			cSharp(60, 8).join(s, first, count)
		}
	},
}

// signed wants the top bit of a GUID.
func signed(s *stage) {
	if s.gate != nil && !s.within(patience, func() bool { return s.figures["top bit"] == 1 }) {
		s.t.Error("no GUID with the top bit came")
	}
}

func heldRows() []situation {
	return []situation{
		{name: "the server of a silent player restarts, held", kit: rtypeKit("rtype"), still: true, beyond: true,
			route: `failover = "hold"`, limit: 20 * sec, steps: []step{restartHeld}},
		{name: "an update as the first input, first stage", kit: rtypeKit("rtype"), still: true, steps: []step{updatesFirst}},
		{name: "a server without names", kit: rtypeKit("rtype"), still: true, steps: []step{nameless,
			explains("no-names"), endsAs("incompatible", "upstream")}},
		{name: "the kernel drops what the server sends", kit: plain, route: relayed, still: true, mute: true,
			steps: []step{in, overflow}},
		{name: "the GUID that Tidegate makes", kit: signs, players: "riptide-2.2", still: true, mute: true,
			route: `ordered = "fast"`,
			steps: []step{joinAll(1, 2*sec), signed}},
	}
}
