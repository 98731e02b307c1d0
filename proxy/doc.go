// Package proxy joins clients to game servers: it ends each side's protocol and carries whole messages between them,
// or, in ModeRelay, passes datagrams as they are.
//
// Start with Relay (relay.go), one core's share of the proxy as a machine without I/O; a loop gives a Relay its
// sockets and its clock; Server runs one loop per core.
//
// # Words
//
// A listener has a protocol entry for each protocol that clients speak there. A session is terminated, with a side
// towards the client and one towards the server, or relayed. A path leads from one of our addresses to a server. A
// trusted proxy stands before us. A hold is the time in which a session has no server. The glossary is in
// docs/architecture.md.
//
// # Files
//
// Of what a proxy is made, and its outside:
//
//   - settings.go, names.go, mode.go, transport.go, locals.go: Settings, and what their words mean
//   - server.go, loop.go, clock.go: loops, and their time
//   - reload.go, inherit.go, handover.go, drain.go: new settings, sockets from a predecessor and for a successor,
//     the end
//   - roster.go, upstreams.go, serial.go: what operators ask for and change
//   - capture.go, tap.go, spool.go: copies of what passes the sockets, for those who ask
//   - snapshot.go, figures.go, sample.go: totals and sessions; package stats has what is counted
//   - journal.go, loglimiter.go, why.go: what is told: log lines, reasons
//
// A session from its first datagram to its end:
//
//   - relay.go, due.go, listener.go: datagrams in, what is due, datagrams out
//   - newcomer.go, presence.go, evict.go, trust.go, allowance.go: who comes in, in whose place, and what it may be sent
//     before it has proved itself
//   - backlog.go, thin.go: what becomes of strangers when more come than can be read
//   - session.go, events.go, ahead.go, admit.go, identity.go: the two sides, and when each is told yes
//   - pressure.go: a side that sends more than the other takes
//   - redial.go: another socket towards a server that does not answer
//   - failover.go, move.go, seek.go, news.go, closing.go: another server: held, moved, waiting for one, and the goodbyes to
//     the old one
//   - end.go: the end, and whose it was
//
// What decides about the present, replaced as a whole by a reload:
//
//   - guard.go: the four questions, and verdicts
//   - drops.go: what goes no further
//   - limits.go, meter.go, queued.go: limits of rates and of what waits
//   - filter.go: rules about sources and messages
//
// How messages cross is package bridge's; carry.go gives it the messages of a session.
//
// How datagrams go:
//
//   - trusted_proxy.go, header.go: PROXY protocol, from proxies before us and towards servers
//   - outlet.go, path.go, line.go, parked.go, fifo.go: source addresses, and the pace that servers take
//   - relayed.go, relayed_end.go: sessions in ModeRelay
//   - forward.go, kernel.go, kernel_keep.go: what the kernel does for us
//
// What servers are asked beside sessions:
//
//   - checker.go: whether they are there
//   - pinger.go, pong.go: what server lists show of them
package proxy
