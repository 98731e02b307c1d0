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
//   - relay.go, arrange.go, receive.go, turn.go: settings, pauses of the process, received datagrams, due work, and
//     sent datagrams
//   - ahead.go: the memory of the next datagrams' sessions
//   - fleet.go: datagrams of other nodes of a fleet, and for them, and requests of a fleet
//   - newcomer.go, relayed.go: new clients, also at the address of an ended session, and sessions in ModeRelay
//   - edge.go, stacked.go: NetherNet's clients, in ModeRelay and in ModeTerminate
//   - calls.go: NetherNet's servers, in ModeTerminate
//   - seek.go: servers for waiting sessions, and another socket
//   - walk.go: work on all sessions, a slice in each turn
//
// What happens to a terminated session:
//
//   - sides.go, events.go, admit.go: which of the two sides had an input, their events, and when each is admitted
//   - failover.go: a server that cannot be reached, a lost server, and the farewell to a server
//   - life.go, enter.go: the states of a session, and the one function that enters a state
//   - verdict.go: room in the table, and the verdicts of package admission on messages and datagrams
//   - carry.go, end.go: messages for package bridge, and the end of both kinds of sessions, and of many
//
// What the driver asks of a Relay:
//
//   - requests.go: what a request is, how a driver puts it to Relays, and requests of operators
//   - orders.go: requests that change something
//   - list.go, explain.go, totals.go: lists, explanations and figures
//   - abnormal.go: sessions that ended in an abnormal way
//   - export.go, batches.go: sessions as records, for a successor
//   - import.go, import_relay.go, copies.go, restore.go, pending.go: the same on the successor's side
//   - travelling.go: a session that moves to another Server
//
// These files get the Relay as an argument:
//
//   - checker.go, queries.go: servers are checked, and asked for texts
//   - through.go: the messages of an envelope, one by one, and their way through modules
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
//   - sample.go, journal.go: figures, drops, and log lines
//   - save.go: the fields of a session's record, and of a Relay's
//   - session.go, path.go, queue.go: a session, and its way to a server at the pace that the server accepts
//   - shared.go: what the Relays of one Server share
//   - joins.go: the joins, addresses and stacks of NetherNet
//   - trusted_proxy.go, identity.go: what sessions refer to
//   - arrivals.go: sessions that wait for their clients
//   - modules.go: the modules of a route, and what they keep with sessions
//   - listener.go, players.go: listeners, clients that are no strangers, and clients at other nodes
//   - outlet.go, tap.go: sent datagrams, their copies, and counts of messages for an operator
//
// Values of the settings:
//
//   - settings.go, mode.go, pong.go, shieldable.go
package relay
