package relay

import (
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/kernel/shield"
	"tidegate/internal/upstream"
	"tidegate/proxy/bridge"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/relay/recording"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
	"tidegate/session"
)

// Relay is one loop's share of the proxy, as a machine without I/O. It owns sessions. Each session joins a
// client-side connection to an upstream-side connection. Its driver gives it datagrams and the time:
//
//	relay.Receive(now, socket, from, datagram) // any number of times
//	relay.Advance(now)                         // runs due work
//	relay.Flush(now)                           // writes to Sockets; then wait until relay.NextTimeout()
//
// It is not safe for concurrent use.
type Relay struct {
	settings *Settings
	sockets  outlet
	journal  journal
	drops    dropLog
	counters stats.Counters
	watches  watches
	serials  serials
	born     time.Time
	stood    time.Duration // how long the process has stood still

	samples      samples
	locals       locals
	listeners    []*listener // in the order of the settings
	retired      retiredListeners
	lastListener int // index of the youngest listener
	routes       []*route
	pingers      []*pinger
	queriers     []*querier
	checkers     []*checker
	closing      closingConns
	waiting      waiting
	table        sessionTable
	presence     *Presence // shared with its siblings
	arrivals     *Arrivals // shared with its siblings
	handed       *Handed   // shared with its siblings
	ready        *ready
	calls        calls
	places       *session.Places // shared with its siblings
	dirty        marked
	paths        paths
	pools        *upstream.Pools // shared with its siblings
	shard        shard

	backlog admission.Backlog
	known   known
	ways    ways
	offload offload

	guard      admission.Guard
	held       holdings
	carrier    bridge.Carrier
	calling    calling
	identities identities
	draining   bool      // no new clients
	leaving    bool      // sessions move to other nodes, and the loop goes on without sessions, while draining
	drainBy    time.Time // when remaining sessions get their goodbyes, while draining
	farewell   bool      // the goodbyes have been sent
	replaced   bool      // a successor is about to take over, which can have no stacks. So none begins

	walks                       walks
	bansEnforced, rulesEnforced rounds

	abnormal abnormalEnds
	precopy  precopy
	entering *Importer // has a predecessor's pre-copy, until Import; nil: none
}

// Settings returns the settings in force.
func (r *Relay) Settings() *Settings { return r.settings }

// Options are the settings in which a Relay differs from its siblings, its log, and the state that siblings
// share.
type Options struct {
	Shard, Shards int    // index and number of the Relays that share the listeners
	Seed          uint64 // for the identities of clients that have none
	Log           zerolog.Logger
	Access        zerolog.Logger      // one line for each session that ends; zero: none
	HideAddresses bool                // log the networks of clients, not their addresses
	Bans          *ratelimit.Bans     // shared by all Relays; nil: there are no bans
	Shared        *Shared             // with all siblings; nil: it has none
	Forwarder     Forwarder           // shared by all siblings; nil: none
	Gate          *shield.Gate        // its own, before its listeners' sockets; nil: none
	Recorder      *recording.Recorder // shared by all siblings; nil: nothing is recorded
	Abnormal      func(Ended)         // called when an established session has ended in an abnormal way; nil: none
	// Deserted is called when a removed listener has lost its last session. All siblings close its sockets together,
	// since the kernel steers clients by the number of sockets. Nil means that the Relay has no siblings. Then it closes
	// the socket itself.
	Deserted func()
}
