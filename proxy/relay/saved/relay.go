package saved

import (
	"net/netip"
	"time"

	"tidegate/internal/joining"
	"tidegate/internal/policy"
	"tidegate/internal/record"
	"tidegate/internal/upstream"
	"tidegate/proxy/stats"
)

// Relay is the part of a Relay that belongs to no single session.
type Relay struct {
	record.Head
	Last      uint64             `cbor:"3,keyasint"` // the last session's ID
	Listeners []Listener         `cbor:"4,keyasint,omitempty"`
	Routes    []Route            `cbor:"5,keyasint,omitempty"`
	Counters  stats.Counts       `cbor:"6,keyasint,omitempty"` // open sessions are not counted as opened
	Tallies   []stats.SavedTally `cbor:"7,keyasint,omitempty"` // as well
	Clients   stats.Counts       `cbor:"8,keyasint,omitempty"`
	Upstreams stats.Counts       `cbor:"9,keyasint,omitempty"`
	Rules     []Rule             `cbor:"10,keyasint,omitempty"`
	Meter     []record.Moment    `cbor:"11,keyasint,omitempty"` // of all sessions
	Paths     []Window           `cbor:"12,keyasint,omitempty"`
	Lossy     record.Moment      `cbor:"13,keyasint,omitempty"`
	Draining  bool               `cbor:"14,keyasint,omitempty"`
	DrainBy   record.Moment      `cbor:"15,keyasint,omitempty"`
	Farewell  bool               `cbor:"16,keyasint,omitempty"`
	// Pools have the health of all servers. Only the first loop writes and reads them.
	Pools    []upstream.SavedPool `cbor:"17,keyasint,omitempty"`
	Arrivals []Arrival            `cbor:"18,keyasint,omitempty"` // as well
}

// Listener is a listener with the state that its sessions need.
type Listener struct {
	Addr    netip.AddrPort `cbor:"1,keyasint"`
	Stream  bool           `cbor:"2,keyasint,omitempty"`
	Name    string         `cbor:"3,keyasint"`
	Trusted []netip.Prefix `cbor:"4,keyasint,omitempty"` // proxies
	Headers []Proxy        `cbor:"5,keyasint,omitempty"` // last headers of trusted proxies
	Text    []byte         `cbor:"6,keyasint,omitempty"` // of its servers, for server lists
	Pong    []byte         `cbor:"7,keyasint,omitempty"`
	// Joins wait for their NetherNet clients. Only the first loop writes and reads them.
	Joins      []joining.SavedTicket `cbor:"8,keyasint,omitempty"`
	JoinCounts []uint64              `cbor:"9,keyasint,omitempty"`
}

// Route is what remains of a route that the next configuration does not have: its sessions go on with it.
type Route struct {
	Name     string        `cbor:"1,keyasint"`
	Upstream string        `cbor:"2,keyasint"`
	Protocol string        `cbor:"3,keyasint"`
	Mode     uint8         `cbor:"4,keyasint,omitempty"`
	Admit    uint8         `cbor:"5,keyasint,omitempty"`
	Hold     time.Duration `cbor:"6,keyasint,omitempty"`
	Goodbyes bool          `cbor:"7,keyasint,omitempty"`
	NewIDs   bool          `cbor:"8,keyasint,omitempty"`
	Stream   bool          `cbor:"9,keyasint,omitempty"`

	Ordered  policy.Ordered  `cbor:"10,keyasint,omitempty"`
	Reliable policy.Reliable `cbor:"11,keyasint,omitempty"`
	Lossy    bool            `cbor:"12,keyasint,omitempty"`
	Envelope policy.Envelope `cbor:"13,keyasint,omitempty"`
	PacketID byte            `cbor:"14,keyasint,omitempty"`
	RawID    uint16          `cbor:"15,keyasint,omitempty"`
	Queue    int             `cbor:"16,keyasint,omitempty"`
}

// Rule is how often a rule has matched.
type Rule struct {
	Kind    string `cbor:"1,keyasint"`
	Name    string `cbor:"2,keyasint"`
	Matches uint64 `cbor:"3,keyasint"`
}

// Window is the use of a path that sessions share.
type Window struct {
	Upstream string          `cbor:"1,keyasint"`
	Server   netip.AddrPort  `cbor:"2,keyasint"`
	Source   netip.Addr      `cbor:"3,keyasint"`
	Sent     []record.Moment `cbor:"4,keyasint"`
}
