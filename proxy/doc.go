// Package proxy joins clients to game servers. It terminates each side's protocol and carries whole messages between
// the sides. In ModeRelay it passes datagrams unchanged.
//
// Start with Relay (relay.go). It is one loop's share of the proxy, as a machine without I/O. A loop gives a Relay its
// sockets and its clock. A Server runs the loops.
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
// From the top to the ground. The Server, with the loops that drive Relays:
//
//   - run.go, reload.go, handover.go, precopy.go, roster.go, transfer.go, upstreams.go: life, new
//     settings, a successor process, and requests by operators
//   - capture.go, recording.go, why.go, figures.go, snapshot.go, top.go, watch.go: what operators see
//   - listen.go, inherit.go, kernel_keep.go, server.go: listening sockets, and kernel offload
//   - mailbox.go, thin.go, loop.go, clock.go, travel.go: commands for loops, loops, and their time
//
// What a Relay does in a turn:
//
//   - arrange.go, receive.go, turn.go: settings, received datagrams, due work, sent datagrams
//   - newcomer.go, relayed.go, gatekeeper.go: new clients, sessions in ModeRelay, and what their servers are spared
//   - seek.go, redial.go, dismiss.go: servers for waiting sessions, another socket, the end for many sessions
//   - succeed.go: a new client at the address of an ended session
//
// What happens to a terminated session:
//
//   - sides.go, events.go, admit.go: which of the two sides had an input, their events, and when each is admitted
//   - refused.go, failover.go, move.go: a server that cannot be reached, a lost server, and the farewell to a server
//   - places.go, verdict.go: room in the table, and verdicts about messages and datagrams
//   - carry.go, end.go: messages for package bridge, and the end of both kinds of sessions
//
// relay.go has the Relay, and walk.go its work on all sessions, a slice in each turn. These files get the Relay as an
// argument:
//
//   - checker.go, pinger.go, closing.go: servers are checked, asked for texts, and left with a goodbye
//   - export.go, import.go, import_relay.go, restore.go, pending.go: sessions as records, for a successor
//   - arrivals.go: a session that moves to another Server
//   - envelope.go: the messages of an envelope, one by one
//   - players.go, server_players.go, server_leave.go, server_spending.go: clients whose datagrams arrive at another
//     node of a fleet, sessions that move there, and limits of all nodes
//
// Parts of the Relay. They know no Relay:
//
//   - requests.go, list.go, rank.go, watched.go, explain.go, totals.go, recorded.go, abnormal.go, batches.go,
//     recopy.go, copies.go, travelling.go, pause.go, shieldable.go: what the Server asks of a Relay
//   - outlet.go, tap.go, spool.go, blackbox.go: sent datagrams, and copies of datagrams for captures and recordings
//   - guard.go, filter.go, limits.go, meter.go, held.go, spending.go: questions about input; rules, limits, counts,
//     held memory, and limits across a fleet
//   - waiting.go, known.go, presence.go, forward.go, pressure.go: sessions without a server, clients that are no
//     strangers, names of clients, kernel offload, and a side that is too fast
//   - sample.go, drops.go, backlog.go, journal.go, loglimiter.go: figures, drops, overload, and log lines
//   - save.go, save_relay.go: the fields of a session's record, and of a Relay's
//   - session.go, path.go, line.go, fifo.go: a session, and its way to a server at the pace that the server accepts
//   - listener.go, trusted_proxy.go, identity.go, serial.go, trust.go, allowance.go, hold.go: what sessions refer to
//
// Values of the settings:
//
//   - settings.go, mode.go, transport.go, header.go, pong.go, kernel.go
package proxy
