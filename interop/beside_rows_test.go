//go:build interop

package interop_test

import (
	"fmt"
	"slices"
	"time"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// Reasons why through may be worse.
const (
	verified = "a goodbye takes 0.6 s more, as it may be forged"
	bounded  = "max_message bounds the memory of a session"
)

// farAway is a path of 2 x 30 ms.
var farAway = climate{delay: 30 * ms}

// in has one player join.
var in = joinAll(1, 10*sec)

// besideRows are all situations.
func besideRows() []situation {
	return slices.Concat(raknetRows(), goRakNetRows(), riptideRows(), enetRows(), rudpRows(), pathRows(), lossRows(),
		plainRows(), toldRows(), heldRows())
}

// raknetRows are the original library's.
func raknetRows() []situation {
	const port = "a player's program dies, a new one comes from its port"
	const sooner = "Minecraft shows either end, and the goodbye comes no later than its own time-out would"
	const (
		frozen = "the server's process stands still for good"
		asleep = "a player's process stands still for good"
		freed  = "a lost player's server gets a goodbye, and the place is free"
	)
	rows := []situation{
		{name: "3,000 messages HIGH, then one LOW", ci: true,
			steps: []step{in, up(3000, 100, "HIGH"), up(1, 100, "LOW"), settle}},
		{name: "3,000 messages MEDIUM, then one HIGH",
			steps: []step{in, up(3000, 100, "MEDIUM"), up(1, 100, "HIGH"), settle}},
		{name: "2,500 messages MEDIUM, then one IMMEDIATE",
			steps: []step{in, up(2500, 60, "MEDIUM"), up(1, 60, "IMMEDIATE"), settle}},
		{name: "3,000 messages MEDIUM, then one HIGH, from the server",
			steps: []step{in, down(3000, 100, "MEDIUM"), down(1, 100, "HIGH"), settle}},
		{name: "3,000 messages, then the player closes", kit: stock11RakNet, mute: true, oneWay: true, known: verified,
			steps: []step{in, up(3000, 100, "HIGH"), closes(false)}},
		{name: "3,000 messages, then the server closes", kit: stock11RakNet, mute: true, known: verified,
			steps: []step{in, down(3000, 100, "HIGH"), closes(true), settle}},
		{name: "a player is kicked", kit: stock11RakNet, mute: true, steps: []step{in, pass(500 * ms), closes(true)},
			known: verified},
		{name: "a message of 720,000 bytes", steps: []step{in, up(1, 720_000, "HIGH"), settle}},
		{name: "a message of 10 MB from the server", limit: 15 * sec, known: bounded,
			steps: []step{in, down(1, 10_000_000, "HIGH"), settle, explains("too-large"), endsAs("overflow", "proxy")}},
		{name: "a message of 20 MB from the server", limit: 15 * sec, known: bounded,
			steps: []step{in, down(1, 20_000_000, "HIGH"), settle, explains("max-message"), endsAs("overflow", "upstream")}},
		{name: "a wrong password", kit: stock11RakNet, mute: true, serverArgs: []string{"password=right"},
			clientArgs: []string{"password=wrong"}, steps: []step{in, pass(500 * ms)}},
		{name: frozen, mute: true, limit: 20 * sec, steps: []step{in, pass(500 * ms), freeze(true, 0), awaitOut}},
		{name: frozen + " under way", mute: true, limit: 20 * sec,
			steps: []step{in, chat(20), pass(500 * ms), freeze(true, 0), awaitOut, settle}},
		{name: asleep, mute: true, limit: 20 * sec, known: freed,
			steps: []step{in, pass(500 * ms), freeze(false, 0), awaitLeft}},
		{name: asleep + " under way", mute: true, limit: 20 * sec, known: freed,
			steps: []step{in, chat(20), pass(500 * ms), freeze(false, 0), awaitLeft}},
		{name: "the server's process dies", mute: true, limit: 20 * sec,
			steps: []step{in, pass(500 * ms), killServer, awaitOut}},
		{name: frozen, kit: stock11RakNet, mute: true, limit: 15 * sec, known: sooner,
			steps: []step{in, pass(500 * ms), freeze(true, 0), awaitOut}},
		{name: "the server's process stands still for 7 s", limit: 15 * sec,
			steps: []step{in, chat(20), pass(500 * ms), freeze(true, 7*sec), pass(2 * sec), settle}},
		{name: port, samePort: true, limit: 20 * sec, ci: true,
			steps: []step{in, pass(sec), killPlayer, pass(200 * ms), rejoin}},
		{name: "a player leaves and comes from its port", samePort: true, known: verified,
			steps: []step{in, pass(sec), leave, pass(200 * ms), rejoin}},
	}
	for i := range rows {
		rows[i].still = true
		if rows[i].kit == nil {
			rows[i].kit = stockRakNet
		}
	}
	rows = append(rows, situation{name: "round trip at both ends", kit: stock11RakNet, path: farAway, mute: true,
		ways: []string{playersLeg, serversLeg}, ci: true, steps: []step{in, pass(2 * sec), reportBoth}})
	rows = append(rows, situation{name: "the server's process dies behind a burst", kit: stockRakNet, mute: true,
		path: climate{delay: 150 * ms}, ways: []string{playersLeg}, limit: 20 * sec,
		steps: []step{in, down(2000, 1000, "HIGH"), pass(500 * ms), killServer, awaitOut}})
	return append(rows, situation{name: "a message of 500,000 bytes, MTU 576 to the server", kit: stockRakNet,
		steps: []step{weather(climate{holeUp: 548, holeDown: 548}), in, up(1, 500_000, "HIGH"), settle}})
}

// goRakNetRows are RakNet by go-raknet. It sends a megabyte at once, without regard for the path, so Tidegate has more
// time there.
func goRakNetRows() []situation {
	late := func(delay, limit, slack time.Duration) situation {
		return situation{name: fmt.Sprintf("each datagram up to 5 ms late, 1 MB down, 2 x %v", delay), limit: limit,
			slack: slack, ways: []string{playersLeg}, path: climate{delay: delay, jitter: 5 * ms},
			steps: []step{in, down(1, 1_000_000, ""), settle}}
	}
	world := []step{in, weather(climate{delay: 25 * ms, loss: 0.05}), down(600, 14_000, ""), settle} // all chunks at once
	holed := []step{in, weather(climate{holeDown: 1392}), down(1, 50_000, ""), settle}
	rows := []situation{
		{name: "100 players of one address at once", still: true, steps: []step{joinAll(100, 15*sec)}},
		late(150*ms, 25*sec, 3*sec),
		late(30*ms, 10*sec, 2*sec),
		{name: "600 messages of 14 kB at once, 5 % loss", ways: []string{playersLeg, serversLeg}, limit: 30 * sec,
			slack: 8 * sec, steps: world},
		{name: "a hole of 1,392 bytes to the player, 50 kB down", ways: []string{playersLeg}, beyond: true, steps: holed},
		{name: "a hole of 1,392 bytes from the server, 50 kB down", beyond: true, steps: holed,
			known: "the hole is in front of the server, whose library sends the datagrams"},
		{name: "the same player from another port", still: true, guid: 1 << 40, limit: 15 * sec,
			known: "the silent player is asked first, as the newcomer's GUID may be another's",
			steps: []step{in, pass(sec), killPlayer, pass(200 * ms), rejoin}},
		{name: "a player leaves and comes from another port", still: true, steps: []step{in, pass(sec), leave, rejoin}},
		{name: "the address of a player changes", ways: []string{playersLeg}, limit: 15 * sec, mute: true,
			steps: []step{in, chat(10), pass(sec), move, awaitOut, explains("unknown-protocol")}},
	}
	away := func(d time.Duration, known string) situation {
		return situation{name: fmt.Sprintf("a player joins a server %v away", d), limit: 15 * sec, known: known,
			steps: []step{weather(climate{delay: d / 2}), in, settle}}
	}
	rows = append(rows, away(460*ms, ""), away(1200*ms, ""), away(1800*ms, ""),
		away(2*sec, "go-raknet blocks the address of all players for a cookie that is too old"))
	for i := range rows {
		rows[i].kit = goRakNet
	}
	upwards := func(way string) situation {
		return situation{name: "3,000 messages, then an outage of 2 s", kit: cloudburst, ways: []string{way},
			steps: []step{joinAll(1, 30*sec), up(3000, 100, ""), cut(2 * sec), settle}}
	}
	far := situation{name: "10,000 messages to a server 100 ms away", kit: cloudburst,
		steps: []step{weather(climate{delay: 50 * ms}), joinAll(1, 30*sec), up(10_000, 100, ""), settle}}
	return append(rows, upwards(serversLeg), upwards(gateItself), far)
}

// riptideRows are Riptide by the rules of the C# library.
func riptideRows() []situation {
	all := []string{playersLeg, serversLeg, gateItself}
	outage := func(d time.Duration, hz int, path climate) situation {
		where := "far away"
		if path == (climate{}) {
			where = "near by"
		}
		return situation{name: fmt.Sprintf("8 players %s, an outage of %v", where, d), kit: cSharp(hz, 8),
			path: path, ways: all,
			steps: []step{joinAll(8, 10*sec), chat(20), pass(4 * sec), cut(d), pass(2 * sec), settle}}
	}
	loading := func(who string, server bool) situation {
		return situation{name: who + " loads for 8 s, time-outs of 30 s", kit: cSharp(60, 8), still: true,
			serverArgs: []string{"30"}, clientArgs: []string{"30"},
			steps: []step{in, pass(3 * sec), pause(server, 8*sec), pass(3 * sec), settle}}
	}
	return []situation{
		outage(250*ms, 60, farAway), outage(400*ms, 60, farAway), outage(700*ms, 60, farAway), outage(sec, 60, farAway),
		outage(300*ms, 50, farAway), outage(400*ms, 60, climate{}),
		outage(700*ms, 20, climate{}), outage(sec, 20, climate{}),
		{name: "round trip and repeats at the server", kit: cSharp(60, 8), path: farAway, ways: []string{playersLeg},
			steps: []step{joinAll(4, 10*sec), chat(20), pass(6 * sec), settle, report}},
		{name: "leave a full server and come back", kit: cSharp(60, 1), still: true, known: verified,
			steps: []step{in, pass(2 * sec), again}},
		{name: "one of two leaves a full server, another comes", kit: cSharp(60, 2), still: true, known: verified,
			steps: []step{joinAll(2, 10*sec), pass(2 * sec), replace}},
		{name: "80 players of one address at once", kit: cSharp(60, 80), still: true, steps: []step{joinAll(80, 15*sec)}},
		{name: "a message beyond the server's RelayFilter", kit: cSharp(60, 2), still: true, beyond: true, ci: true,
			more:  "[riptide]\nrelay_filter = 100",
			steps: []step{joinAll(2, 10*sec), pass(sec), sendKiller, explains("killer"), pass(sec)}},
		loading("a player", false), loading("the server", true),
	}
}

func enetRows() []situation {
	patient := []string{"timeout=64,30000,60000"}
	loads := func(server bool, d time.Duration) []step {
		return []step{in, chat(10), pass(sec), pause(server, d), pass(sec), settle}
	}
	rows := []situation{
		{name: "a player loads for 12 s, raised time-outs", serverArgs: patient, clientArgs: patient,
			steps: loads(false, 12*sec)},
		{name: "the server loads for 12 s, raised time-outs", serverArgs: patient, clientArgs: patient,
			steps: loads(true, 12*sec)},
		{name: "a player loads for 4 s", ci: true, steps: loads(false, 4*sec)},
		{name: "a player's program dies, a new one comes from its port", samePort: true,
			steps: []step{in, pass(sec), killPlayer, pass(200 * ms), rejoin}},
		{name: "a player resets its peer and connects again", ci: true, steps: []step{in, pass(sec), again}},
		{name: "a player leaves and comes from its port", samePort: true,
			steps: []step{in, pass(sec), leave, pass(200 * ms), rejoin}},
		{name: "compression at both ends", serverArgs: []string{"compress=yes"}, clientArgs: []string{"compress=yes"},
			steps: []step{in, up(10, 100, ""), down(10, 100, ""), settle}},
		{name: "messages of 5 MB, both ways", ci: true,
			steps: []step{in, up(1, 5_000_000, ""), down(1, 5_000_000, ""), settle}},
		{name: "a message of 7 MB from the server", limit: 15 * sec, known: bounded,
			steps: []step{in, down(1, 7_000_000, ""), settle, explains("max-message"), endsAs("overflow", "upstream")}},
		{name: "a message of 7 MB to the server", limit: 15 * sec, known: bounded,
			steps: []step{in, up(1, 7_000_000, ""), settle, explains("max-message"), endsAs("overflow", "client")}},
		{name: "a message of 10 MB from the server, max_message raised", limit: 15 * sec,
			slack: 3 * sec, // a message goes on when it is whole
			more:  "[enet]\nmax_message = \"12MiB\"",
			steps: []step{in, down(1, 10_000_000, ""), settle}},
	}
	for i := range rows {
		rows[i].still = true
	}
	rows = append(rows, situation{name: "a hole of 1,392 bytes to the player, 50 kB down", ci: true,
		ways: []string{playersLeg}, steps: []step{in, weather(climate{holeDown: 1392}), down(1, 50_000, ""), settle}})
	for i := range rows {
		rows[i].kit = libENet
	}
	return rows
}

// rudpRows are RUDP by the rules of the C# library. A session lives by the pace of its server.
func rudpRows() (rows []situation) {
	outage := func(name string, d time.Duration, hz int, more string, first ...step) {
		rows = append(rows, situation{name: fmt.Sprintf("%s, an outage of %v", name, d), kit: cSharpRUDP(hz), more: more,
			ways: []string{playersLeg, serversLeg, gateItself}, limit: 2 * sec, mute: true,
			steps: append(first, joinAll(4, 10*sec), chat(10), pass(2*sec), cut(d), pass(2*sec), settle)})
	}
	outage("4 players", 150*ms, 100, "")
	outage("4 players, rate set", sec, 20, "[rudp]\nrate = 20")
	outage("4 players after another one", sec, 20, "", in, killPlayer, pass(200*ms))
	stops := situation{name: "the server stops", kit: cSharpRUDP(20), still: true, mute: true, known: verified,
		steps: []step{joinAll(2, 10*sec), pass(sec), closes(true), endsAs("closed", "upstream")}}
	held := stops
	held.name, held.route = "the server stops, held", `failover = "hold"`
	return append(rows, stops, held)
}

// pathRows are faults of the way to the server, for each library.
func pathRows() (rows []situation) {
	for _, k := range []*kit{goRakNet, stockRakNet, cSharp(60, 8), libENet} {
		playing := func(disturb step) []step { return []step{in, chat(40), pass(2 * sec), disturb, pass(2 * sec), settle} }
		outage := situation{name: "an outage of 2 s", ci: k == goRakNet,
			ways: []string{playersLeg, serversLeg, gateItself}, steps: playing(cut(2 * sec))}
		for _, row := range []situation{
			{name: "the route is gone for 250 ms", lab: routed, ci: k == goRakNet, steps: playing(unroute(250 * ms))},
			{name: "the server's address is gone for 100 ms", lab: oneHost, steps: playing(unaddress(100 * ms))},
			{name: "joins while refused for 1 s", ci: k == stockRakNet, steps: []step{while(refuse(sec), joinAll(5, 10*sec))}},
			{name: "refused for 100 ms", steps: playing(refuse(100 * ms))},
			{name: "joins while the route is gone for 1 s", lab: routed,
				steps: []step{while(unroute(sec), joinAll(5, 10*sec))}},
			{name: "the server's process stands still for 3 s", still: true, steps: playing(freeze(true, 3*sec))},
			{name: "a player's process stands still for 3 s", still: true, steps: playing(freeze(false, 3*sec))},
			outage,
		} {
			row.kit = k
			rows = append(rows, row)
		}
	}
	return rows
}

// lossRows lose and reorder datagrams of one leg. The original RakNet joins parts in the order in which they arrive, so
// no message has parts.
func lossRows() (rows []situation) {
	for _, k := range []*kit{stockRakNet, libENet} {
		foul := func(name string, c climate) {
			rows = append(rows, situation{name: "150 messages, " + name, kit: k, slack: 3 * sec,
				limit: 20 * sec, ways: []string{playersLeg, serversLeg},
				steps: []step{in, weather(c), up(50, 20, ""), up(50, 1300, ""), down(50, 1000, ""), settle}})
		}
		foul("10 % loss", climate{loss: 0.1, delay: 10 * ms})
		foul("datagrams up to 20 ms late", climate{delay: 20 * ms, jitter: 20 * ms})
	}
	return rows
}
