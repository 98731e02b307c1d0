// Package stats counts datagrams, messages, drops by reason, sessions and durations. It knows no Relay and no
// session.
package stats

import (
	"errors"
	"reflect"

	"tidegate/codec"
	"tidegate/internal/kernel/flow"
	"tidegate/internal/kernel/shield"
	"tidegate/ratelimit"
)

// Drop is the reason why a datagram or a message went no further.
type Drop uint8

// Reasons to drop.
const (
	DropEmpty           Drop = iota // a datagram without a byte
	DropSourcePort                  // a datagram from source port 0, which cannot get an answer
	DropUnknownProtocol             // a first datagram that no protocol of the listener knows
	DropRefused                     // a first datagram that its protocol refused
	DropTableFull                   // a new client while all places for sessions were taken
	DropHalfOpen                    // a new client while too many others had not finished joining
	DropMalformed                   // a datagram, or part of one, not of its protocol's layout
	DropUnexpected                  // a datagram that its session does not expect now
	DropDuplicate                   // a datagram or message seen before, or stale
	DropWindow                      // a datagram too far ahead
	DropLimit                       // a bound on a peer's memory
	DropTooLarge                    // a message larger than the other side's protocol carries
	DropQueueFull                   // a message for a peer with too much in its queue
	DropEnvelope                    // a message not in the route's envelope
	DropUnfit                       // a message that the other side's protocol cannot carry
	DropUndeclared                  // a message whose ID the route does not declare
	DropSchema                      // a message that does not match the route's declaration
	DropClosing                     // a message for a side that is closing
	DropSocket                      // no socket to the upstream was available
	DropPingBudget                  // a stranger's question whose larger answer is beyond Settings.Answers
	DropBanned                      // a datagram from a new client in a banned network
	DropUnanswered                  // a client's first datagrams, which its server did not answer (ModeRelay)
	DropSourceRule                  // a datagram from a new client that a source rule refuses
	DropMessageRule                 // a message that a message rule stops
	DropKnown                       // a new client that already plays from another address
	DropRate                        // a datagram or a reliable message beyond a limit
	DropHandshakes                  // a new client beyond a limit of handshakes
	DropAskAgain                    // a new client that must ask twice, since too many ask
	DropHalfOpenSource              // a new client while too many of its address or network had not finished joining
	DropUnproved                    // a datagram for a client without proof of address, beyond its allowance
	DropHeld                        // an unreliable message while a session has no server
	DropUntrusted                   // a PROXY protocol header from a proxy that is not trusted
	DropUntold                      // a trusted proxy's datagram without the client's address
	DropPaced                       // a client's datagram while too many waited to leave for its server (ModeRelay)
	DropOverload                    // a stranger's datagram while more waited than could be read, players' too
	DropReplyBudget                 // a stranger's datagram beyond the budget of answers not larger than their questions
	DropSourceFull                  // a new client while all places of its address or network were taken
	DropNoCookie                    // a new client that did not return the cookie, which proves its address
	DropHeldBytes                   // the unfinished messages of a session that ends, since too many bytes were held
	DropCompressed                  // an ENet datagram that the game has compressed
	DropEncrypted                   // the beginning of DTLS
	DropQuery                       // an out-of-band query, as server browsers send it
	DropMaxMessage                  // a message beyond its protocol's bound, which ended a session
	DropNoNames                     // an R-Type server's game before the names of its components
	DropModule                      // a message that a module of the route drops
	DropModuleFailed                // a message while a module of the route fails
	DropKiller                      // a message that the server would not survive
	DropCount
)

var dropNames = [DropCount]string{
	"empty", "source-port", "unknown-protocol", "refused", "table-full", "half-open", "malformed", "unexpected",
	"duplicate", "window", "limit", "too-large", "queue-full", "envelope", "unfit", "undeclared", "schema", "closing",
	"socket", "ping-budget", "banned", "unanswered", "source-rule", "message-rule",
	"already-connected",
	"rate", "handshakes", "ask-again", "half-open-source", "unproved",
	"held", "untrusted-header", "no-header", "paced",
	"overload", "reply-budget", "source-full", "no-cookie", "held-bytes",
	"compressed", "dtls", "query", "max-message", "no-names",
	"module", "module-failed", "killer",
}

// String returns the reason's name, as in logs and metrics.
func (d Drop) String() string {
	if d < DropCount {
		return dropNames[d]
	}
	return "unknown"
}

// OfStrangers reports whether only datagrams of strangers are dropped for the reason. Many of them are a flood.
func (d Drop) OfStrangers() bool {
	switch d {
	case DropEmpty, DropSourcePort, DropUnknownProtocol, DropRefused, DropTableFull, DropHalfOpen, DropPingBudget,
		DropBanned, DropUnanswered, DropSourceRule, DropHandshakes, DropAskAgain, DropHalfOpenSource, DropUntrusted,
		DropUntold, DropOverload, DropReplyBudget, DropSourceFull, DropNoCookie,
		DropEncrypted, DropQuery:
		return true
	}
	return false
}

// Traffic counts messages and the bytes of their payloads. In ModeRelay it counts datagrams and their bytes.
type Traffic struct {
	_        struct{} `cbor:",toarray"`
	Messages uint64
	Bytes    uint64
}

// Add adds a message.
func (t *Traffic) Add(m *codec.Message) {
	t.Messages++
	t.Bytes += uint64(len(m.Payload))
}

// Count adds a datagram.
func (t *Traffic) Count(datagram []byte) {
	t.Messages++
	t.Bytes += uint64(len(datagram))
}

// Join adds other traffic.
func (t *Traffic) Join(o Traffic) {
	t.Messages += o.Messages
	t.Bytes += o.Bytes
}

// Fate is the outcome of a received datagram.
type Fate uint8

// Fates. A datagram with several has the last of them.
const (
	FateStray    Fate = iota // it came to a socket that its session had left
	FateAnswered             // it was answered without a session
	FateTaken                // a session or a check read it, or passed it on
	FateDropped              // it was refused, whole or in part, for a reason of Drop
	FateCount
)

var fateNames = [FateCount]string{"stray", "answered", "taken", "dropped"}

// String returns the fate's name, as in metrics.
func (f Fate) String() string { return fateNames[f] }

// Wire counts the datagrams on one side of the proxy, and their bytes without the headers of IP and UDP.
type Wire struct {
	In, Out Traffic
	Fates   [FateCount]uint64 // of the datagrams in In; each has one
}

// Receive counts a received datagram and its fate.
func (w *Wire) Receive(datagram []byte, f Fate) {
	w.In.Count(datagram)
	w.Fates[f]++
}

// Breaches counts breaches of a limit by their consequence.
type Breaches struct {
	Observed uint64 // counted only
	Enforced uint64 // the limit's verdict was applied
}

// Counters are the totals of a Relay. They only grow.
type Counters struct {
	Opened        uint64 // sessions asked for
	Established   uint64 // sessions with both sides connected
	Closed        uint64 // sessions ended
	Evicted       uint64 // half-open sessions, counted in Closed too, that made room for new clients
	Held          uint64 // times that an established session lost its server and was kept
	Moved         uint64 // moves of established sessions by an operator
	Regained      uint64 // times that a server took a held or moved session
	Redialed      uint64 // times that a server was asked again from another address
	Clients       Wire   // includes strangers and answers to them, but not RelayedDown
	Upstreams     Wire   // includes checks and closing connections, but not RelayedUp
	FromClients   Traffic
	FromUpstreams Traffic
	RelayedUp     Traffic // clients' datagrams that routes in ModeRelay passed on
	RelayedDown   Traffic // servers' datagrams that routes in ModeRelay passed on
	Drops         [DropCount]uint64
	Paced         uint64 // datagrams that waited for their turn to leave for a server
	Overtaken     uint64 // messages that arrived after a newer one of their channel (ordered = "fast")
	Resent        uint64 // transmissions after the first of messages that only Tidegate resends (reliable = "resend")
	Passed        uint64 // messages that went unchanged, since no schema declares them
	// ModuleFailures counts messages that a module could not handle.
	ModuleFailures uint64
	// Limits counts breaches of limits by quantity and scope.
	Limits [ratelimit.Quantities][ratelimit.Scopes]Breaches
	Lost   uint64 // reliable messages known to be lost (reliable = "report")
}

// Add adds the numbers of another value of a type, also those in fields of fields. Texts stay as they are.
func Add[T any](to, from *T) { addNumbers(reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()) }

func addNumbers(to, from reflect.Value) {
	switch to.Kind() {
	case reflect.Struct:
		for i := range to.NumField() {
			addNumbers(to.Field(i), from.Field(i))
		}
	case reflect.Array:
		for i := range to.Len() {
			addNumbers(to.Index(i), from.Index(i))
		}
	case reflect.Int:
		*(*int)(to.Addr().UnsafePointer()) += *(*int)(from.Addr().UnsafePointer())
	case reflect.Int64, reflect.Uint64:
		*(*uint64)(to.Addr().UnsafePointer()) += *(*uint64)(from.Addr().UnsafePointer())
	}
}

// dropsOf are the reasons of codecs' errors. The kinds of codec.ErrUnexpected come before it.
var dropsOf = []struct {
	err error
	why Drop
}{
	{codec.ErrDuplicate, DropDuplicate}, {codec.ErrWindow, DropWindow}, {codec.ErrNoProof, DropNoCookie},
	{codec.ErrCompressed, DropCompressed}, {codec.ErrNoNames, DropNoNames}, {codec.ErrUnexpected, DropUnexpected},
	{codec.ErrLimit, DropLimit}, {codec.ErrRefused, DropRefused}, {codec.ErrTooLarge, DropTooLarge},
	{codec.ErrFull, DropQueueFull}, {codec.ErrMode, DropUnfit}, {codec.ErrClosed, DropClosing},
	{codec.ErrKiller, DropKiller},
}

// DropOf returns the reason of a codec's error.
func DropOf(err error) Drop {
	for _, d := range dropsOf {
		if errors.Is(err, d.err) {
			return d.why
		}
	}
	return DropMalformed
}

// Table is a table that clients or servers can make grow. Each has a bound.
type Table uint8

// Tables.
const (
	TableSessions Table = iota // sessions
	TableTimers                // sessions that will wake at a deadline
	TableClosing               // closing connections
	TableLimited               // addresses and networks for which limits count
	TableHolders               // addresses that hold memory, by loop
	TablePaths                 // ways to servers
	TableParked                // relayed datagrams that wait for their way
	TableWaiting               // sessions that wait for a server
	TableDebts                 // addresses and networks that have used limits at other nodes of a fleet
	TablePresence              // clients that have named themselves
	TablePlaces                // addresses and networks whose sessions are counted
	TableCount
)

var tableNames = [TableCount]string{
	"sessions", "timers", "closing", "limited", "holders", "paths", "parked", "waiting", "debts",
	"presence", "places",
}

// String returns the table's name, as in metrics.
func (t Table) String() string { return tableNames[t] }

// Tables are the numbers of entries in all tables.
type Tables [TableCount]int

// KernelFigures count the kernel's work for a Server. Counters include the forwarded datagrams, but not the filtered
// ones.
type KernelFigures struct {
	Filtered      []Filtered // by hook and verdict; nil without filters
	ForwardedUp   Traffic    // clients' datagrams that the kernel forwarded (ModeRelay)
	ForwardedDown Traffic    // servers' datagrams that the kernel forwarded (ModeRelay)
	Known         int        // clients that the filters know
	Limited       uint64     // clients' datagrams beyond a limit per session (ModeRelay)
}

// Filtered counts the datagrams with one verdict of the kernel's filters at one hook.
type Filtered struct {
	Hook      string // "socket" or "interface"
	Verdict   string // "passed", or the reason of the drop
	Datagrams uint64
}

// ReadKernel reads the kernel's counters. It leaves out counters that it cannot read. s and flows may be nil.
func ReadKernel(s *shield.Shield, flows *flow.Table) (f KernelFigures) {
	if s != nil {
		if c, err := s.Counters(); err == nil {
			f.filter("socket", &c.Sockets)
			f.filter("interface", &c.Interfaces)
		}
		f.Known = s.Known()
	}
	if flows != nil {
		if all, err := flows.Totals(); err == nil {
			f.ForwardedUp, f.ForwardedDown = trafficOf(&all.FromClient), trafficOf(&all.FromServer)
			f.Limited = all.FromClient.Dropped
		}
	}
	return f
}

func (f *KernelFigures) filter(hook string, t *shield.Tally) {
	for reason, n := range t {
		f.Filtered = append(f.Filtered, Filtered{hook, shield.Reason(reason).String(), n})
	}
}

func trafficOf(c *flow.Count) Traffic { return Traffic{Messages: c.Packets, Bytes: c.Bytes} }

// AddForwarded adds the traffic that the kernel forwarded to the traffic of user space.
func (c *Counters) AddForwarded(f *KernelFigures) {
	c.Clients.In.Join(f.ForwardedUp)
	c.Clients.Fates[FateTaken] += f.ForwardedUp.Messages
	c.RelayedUp.Join(f.ForwardedUp)
	c.Upstreams.In.Join(f.ForwardedDown)
	c.Upstreams.Fates[FateTaken] += f.ForwardedDown.Messages
	c.RelayedDown.Join(f.ForwardedDown)
}
