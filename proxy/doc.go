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
// Settings, loops and the outside:
//
//   - settings.go, names.go, mode.go, transport.go, locals.go: Settings, and the meaning of their values
//   - server.go, loop.go, clock.go: loops, and their time
//   - walk.go: work on all sessions, a slice in each turn
//   - reload.go, inherit.go, handover.go, drain.go: new settings, sockets from a predecessor and for a successor,
//     the end
//   - roster.go, upstreams.go, serial.go: requests and changes by operators
//   - capture.go, tap.go, spool.go: copies of the datagrams at the sockets, for captures
//   - snapshot.go, figures.go, sample.go: totals and sessions; package stats has the counters
//   - journal.go, loglimiter.go, why.go: log lines, and reasons
//
// A session from its first datagram to its end:
//
//   - relay.go, due.go, listener.go: received datagrams, due work, sent datagrams
//   - newcomer.go, presence.go, evict.go, trust.go, allowance.go: new clients, their places, and the bytes
//     that they may get before they have proved their address
//   - backlog.go, thin.go: strangers, when more datagrams come than the loop can read
//   - session.go, events.go, ahead.go, admit.go, identity.go: the two sides, and when each of them is admitted
//   - pressure.go: a side that sends more than the other side takes
//   - redial.go: another socket to a server that does not answer
//   - failover.go, move.go, seek.go, news.go, closing.go: another server: held, moved and waiting sessions, and the
//     goodbyes to the old server
//   - end.go: the end, and the party that caused it
//
// Decisions about input, replaced as a whole by a reload:
//
//   - guard.go: the questions about input, and verdicts
//   - drops.go: datagrams and messages that go no further
//   - limits.go, meter.go, queued.go: limits of rates, and of bytes that wait
//   - filter.go: rules about sources and messages
//
// Package bridge decides how messages cross. carry.go gives it the messages of a session.
//
// The ways of datagrams:
//
//   - trusted_proxy.go, header.go: PROXY protocol, from trusted proxies and to servers
//   - outlet.go, path.go, line.go, parked.go, fifo.go: source addresses, and the pace that servers accept
//   - relayed.go, relayed_end.go: sessions in ModeRelay
//   - forward.go, kernel.go, kernel_keep.go: kernel offload
//
// Questions to servers outside of sessions:
//
//   - checker.go: health checks
//   - pinger.go, pong.go: the servers' texts for server lists
package proxy
