// Package relay is the machine of the proxy: everything that happens in a turn of a loop. It terminates each side's
// protocol and carries whole messages between the sides. In ModeRelay it passes datagrams unchanged. It has no I/O, no
// clock and no goroutine, as a codec has none: the root's TestLayers holds it to that. Package proxy drives it.
//
// Start with Relay (relay.go), one loop's share of the proxy.
//
// # Words
//
// A listener has a protocol entry for each protocol that clients speak there. A session is terminated or relayed. A
// terminated session has a client side and a server side. A path leads from one of our addresses to a server. A trusted
// proxy stands in front of Tidegate. A hold is the state of a session that is kept while it has no server. The glossary
// is in docs/architecture.md.
//
// # Files
//
// What a Relay does in a turn:
//
//   - relay.go, arrange.go, receive.go, turn.go, pause.go: settings, received datagrams, due work, sent datagrams, and
//     pauses of the process
//   - fleet.go: datagrams of other nodes of a fleet, and for them
//   - newcomer.go, relayed.go, gatekeeper.go: new clients, sessions in ModeRelay, what their servers are spared
//   - edge.go, stacked.go: NetherNet's clients, in ModeRelay and in ModeTerminate
//   - calls.go: NetherNet's servers, in ModeTerminate
//   - seek.go, redial.go, dismiss.go: servers for waiting sessions, another socket, the end for many sessions
//   - succeed.go: a new client at the address of an ended session
//   - walk.go: work on all sessions, a slice in each turn
//
// What happens to a terminated session:
//
//   - sides.go, events.go, admit.go: which of the two sides had an input, their events, and when each is admitted
//   - refused.go, failover.go, move.go: a server that cannot be reached, a lost server, and the farewell to a server
//   - life.go, enter.go: the states of a session, and the one function that enters a state
//   - places.go, verdict.go: room in the table, and the verdicts of package admission on messages and datagrams
//   - carry.go, end.go: messages for package bridge, and the end of both kinds of sessions
//
// What the driver asks of a Relay:
//
//   - request.go: what a request is, and how a driver puts it to Relays
//   - orders.go, orders_fleet.go: requests that change something, and those of a fleet
//   - requests.go, list.go, rank.go, watched.go, explain.go, totals.go: requests of operators, lists and figures
//   - abnormal.go: sessions that ended in an abnormal way
//   - export.go, batches.go, recopy.go: sessions as records, for a successor
//   - import.go, import_relay.go, copies.go, restore.go, pending.go, complete.go: the same on the successor's side
//   - travelling.go: a session that moves to another Server
//
// These files get the Relay as an argument:
//
//   - checker.go, pinger.go, queries.go: servers are checked, and asked for texts
//   - envelope.go, through.go: the messages of an envelope, one by one, and their way through modules
//
// What a Relay is made of calls nothing that a Relay does (the root's TestMachineCycle):
//
//   - work.go: work of several turns: walks, stacks with something to take, and records under way
//
// Parts of the Relay. They know no Relay:
//
//   - probes.go, closing.go: questions to servers, and connections with a goodbye
//   - waiting.go, presence.go, forward.go, pressure.go: sessions without a server, names of clients, kernel offload,
//     and a side that is too fast
//   - sample.go, drops.go, journal.go, loglimiter.go: figures, drops, and log lines
//   - save.go, save_relay.go: the fields of a session's record, and of a Relay's
//   - session.go, path.go, line.go, fifo.go: a session, and its way to a server at the pace that the server accepts
//   - shared.go: what the Relays of one Server share
//   - joins.go: the joins, addresses and stacks of NetherNet
//   - trusted_proxy.go, identity.go, serial.go, hold.go: what sessions refer to
//   - arrivals.go: sessions that wait for their clients
//   - modules.go: the modules of a route, and what they keep with sessions
//   - listener.go, known.go, players.go: listeners, clients that are no strangers, and clients at other nodes
//   - outlet.go, tap.go, watch.go: sent datagrams, their copies, and counts of messages for an operator
//
// Values of the settings:
//
//   - settings.go, mode.go, transport.go, header.go, pong.go, shieldable.go
package relay
