// Package saved has the records of sessions, and of everything beside them that a successor or another node needs. They
// are values without behaviour. Package relay writes and reads them. Numbers of fields never change their meaning.
//
// A session as a record has two parts. Session is restored at once: it has all facts that lists, counts and limits
// need. Terminated has the connections and the bridge of a terminated session. It is larger, and is restored later.
package saved

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/joining"
	"tidegate/internal/policy"
	"tidegate/internal/proxyproto"
	"tidegate/internal/record"
	"tidegate/internal/upstream"
	"tidegate/proxy/bridge"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/stats"
)

// Kinds of records, and their versions.
const (
	SessionKind   = "session"
	RelayKind     = "relay"
	Version       = 1 // of both
	TravelKind    = "travelling session"
	TravelVersion = 1
)

var (
	_ = record.Register[Session](Version, SessionKind)
	_ = record.Register[Relay](Version, RelayKind)
	_ = record.Register[Travel](TravelVersion, TravelKind)
)

// Session is a session as a record. Listeners, routes, protocols and servers have their names and addresses.
type Session struct {
	record.Head
	Listener netip.AddrPort `cbor:"3,keyasint"` // as in the settings
	Stream   bool           `cbor:"4,keyasint,omitempty"`
	Client   netip.AddrPort `cbor:"5,keyasint"`
	Route    string         `cbor:"6,keyasint"`
	Protocol string         `cbor:"7,keyasint"`
	Serial   uint64         `cbor:"8,keyasint"`

	OwnFace   bool           `cbor:"9,keyasint,omitempty"`  // the socket to the client is the session's own
	Local     netip.Addr     `cbor:"10,keyasint,omitempty"` // of the socket to the client, at a wildcard listener
	Via       *Proxy         `cbor:"11,keyasint,omitempty"`
	Server    netip.AddrPort `cbor:"12,keyasint,omitempty"`
	HasSocket bool           `cbor:"13,keyasint,omitempty"` // to the server
	Path      *Path          `cbor:"14,keyasint,omitempty"`
	Preamble  *Preamble      `cbor:"15,keyasint,omitempty"`

	Meter      Meter         `cbor:"16,keyasint,omitempty"`
	Opened     record.Moment `cbor:"17,keyasint"`
	Heard      record.Moment `cbor:"18,keyasint"`
	FromClient stats.Traffic `cbor:"19,keyasint"`
	FromServer stats.Traffic `cbor:"20,keyasint"`

	Tries       uint16 `cbor:"21,keyasint,omitempty"`
	Refused     uint8  `cbor:"22,keyasint,omitempty"`
	Established bool   `cbor:"23,keyasint,omitempty"`
	Answered    bool   `cbor:"24,keyasint,omitempty"`
	Full        bool   `cbor:"25,keyasint,omitempty"` // not half-open in the table
	Known       bool   `cbor:"26,keyasint,omitempty"` // the client is not a stranger
	Cause       string `cbor:"27,keyasint,omitempty"` // of its end, for its last line in the log

	// The following fields are those of a terminated session that are needed before its connections.
	Identity uint64 `cbor:"28,keyasint,omitempty" secret:"true"` // of the client, while it is present
	ID       uint16 `cbor:"29,keyasint,omitempty"`
	OwnsID   bool   `cbor:"30,keyasint,omitempty"`
	Calm     bool   `cbor:"31,keyasint,omitempty"` // its connections may be restored later
	Body     []byte `cbor:"32,keyasint,omitempty"` // a Terminated; none: relayed
	// Age is the time since Body was written, if it was still pending.
	Age time.Duration `cbor:"33,keyasint,omitempty"`
	// Number 34 had another meaning.
	Gate        *codec.Gate   `cbor:"35,keyasint,omitempty"` // of a relayed client; none: open
	RefusedFrom record.Moment `cbor:"36,keyasint,omitempty"` // zero: no refusals
	Edge        *Edge         `cbor:"37,keyasint,omitempty"` // of a NetherNet client
}

// Proxy is a trustedProxy.
type Proxy struct {
	_    struct{} `cbor:",toarray"`
	Addr netip.AddrPort
	proxyproto.Header
}

// Path is a session's place on its path.
type Path struct {
	Source netip.Addr      `cbor:"1,keyasint,omitempty"`
	Sent   []record.Moment `cbor:"2,keyasint,omitempty"` // of the session's own path: times of the last datagrams
	Parked [][]byte        `cbor:"3,keyasint,omitempty"`
}

// Preamble is a header before datagrams to a server, and which of them have it.
type Preamble struct {
	_      struct{} `cbor:",toarray"`
	Header []byte
	When   uint8
}

// Meter has the times until which the buckets of a session, its address and its network are used up.
type Meter struct {
	Own     []record.Moment `cbor:"1,keyasint,omitempty"` // by quantity
	Address []record.Moment `cbor:"2,keyasint,omitempty"`
	Network []record.Moment `cbor:"3,keyasint,omitempty"`
}

// Terminated is the part of a terminated session that is restored later.
type Terminated struct {
	Client       Side            `cbor:"1,keyasint"`
	Upstream     Side            `cbor:"2,keyasint"`
	Earlier      *Earlier        `cbor:"3,keyasint,omitempty"`
	DialBy       record.Moment   `cbor:"4,keyasint,omitempty"`
	Hello        codec.Hello     `cbor:"5,keyasint,omitempty"`
	Hold         *Hold           `cbor:"6,keyasint,omitempty"`
	KnownClients []uint16        `cbor:"7,keyasint,omitempty"`
	Rates        []record.Moment `cbor:"8,keyasint,omitempty"` // by rank of the rule
	Trust        Trust           `cbor:"9,keyasint,omitempty"`
	Expires      record.Moment   `cbor:"10,keyasint,omitempty"`
	SampleDue    record.Moment   `cbor:"11,keyasint,omitempty"`
	AskedAt      record.Moment   `cbor:"12,keyasint,omitempty"`
	Admitted     bool            `cbor:"13,keyasint,omitempty"`
	Ending       bool            `cbor:"14,keyasint,omitempty"`
	Choked       bool            `cbor:"15,keyasint,omitempty"`
	Ahead        bool            `cbor:"16,keyasint,omitempty"`
	Searches     bool            `cbor:"17,keyasint,omitempty"`
	Why          codec.Reason    `cbor:"18,keyasint,omitempty"`
	Blame        stats.Party     `cbor:"19,keyasint,omitempty"`
	Closing      []Closing       `cbor:"20,keyasint,omitempty"`
	Place        int             `cbor:"21,keyasint,omitempty"` // in the line of its upstream, from 1; 0: none
	Kept         []Kept          `cbor:"22,keyasint,omitempty"` // by modules
}

// Kept is what a module keeps with a session.
type Kept struct {
	_      struct{} `cbor:",toarray"`
	Module string
	Bytes  []byte
}

// Side is one of a terminated session's two connections.
type Side struct {
	Conn     []byte         `cbor:"1,keyasint,omitempty"` // its record; none: no connection
	Up       bool           `cbor:"2,keyasint,omitempty"`
	Pressure codec.Pressure `cbor:"3,keyasint,omitempty"`
	Sampled  stats.Sampled  `cbor:"4,keyasint,omitempty"`
	Sender   bridge.Saved   `cbor:"5,keyasint,omitempty"`
}

// Earlier are the session's earlier sockets to its server.
type Earlier struct {
	Sockets  int       `cbor:"1,keyasint,omitempty"`
	Preamble *Preamble `cbor:"2,keyasint,omitempty"`
	Back     bool      `cbor:"3,keyasint,omitempty"`
}

// Hold is the state of a session between two servers.
type Hold struct {
	Since  record.Moment         `cbor:"1,keyasint"`
	Until  record.Moment         `cbor:"2,keyasint"`
	Phase  uint8                 `cbor:"3,keyasint,omitempty"`
	Next   record.Moment         `cbor:"4,keyasint,omitempty"`
	To     netip.AddrPort        `cbor:"5,keyasint,omitempty"`
	Ticket *upstream.SavedTicket `cbor:"6,keyasint,omitempty"` // in the line of a server, for its client ID
	Limit  record.Moment         `cbor:"7,keyasint,omitempty"`
	Acked  record.Moment         `cbor:"8,keyasint,omitempty"`
	Heard  record.Moment         `cbor:"9,keyasint,omitempty"`
}

// Trust is what the client has proved of its address.
type Trust struct {
	admission.Trust
	Bucket record.Moment `cbor:"6,keyasint,omitempty"`
}

// Closing is a closing connection, with a socket of its own.
type Closing struct {
	Conn     []byte        `cbor:"1,keyasint"`
	Preamble *Preamble     `cbor:"2,keyasint,omitempty"`
	Until    record.Moment `cbor:"3,keyasint"`
	Late     int           `cbor:"4,keyasint,omitempty"`
}

// Edge is the join of a NetherNet client's session, and the client's addresses.
type Edge struct {
	Ticket  joining.SavedTicket `cbor:"1,keyasint"`
	Sources []netip.AddrPort    `cbor:"2,keyasint,omitempty"` // the active one first
	Asked   []uint32            `cbor:"3,keyasint,omitempty"` // parts of the IDs of its latest requests
}

// Travel is a travelling session.
type Travel struct {
	record.Head
	Listener string         `cbor:"3,keyasint"` // its name: machines have different addresses
	Route    Route          `cbor:"4,keyasint"`
	Session  []byte         `cbor:"5,keyasint"`           // a Session
	Source   netip.AddrPort `cbor:"6,keyasint,omitempty"` // the client's address as the game server sees it
	At       int64          `cbor:"7,keyasint"`           // time of TakeOutSession in Unix nanoseconds
	Client   netip.AddrPort `cbor:"8,keyasint"`
	// Sum is a hash of the whole record with zeros in its place. Earlier releases write none.
	Sum []byte `cbor:"9,keyasint,omitempty"`
}

// Arrival is the record of a session that waits for its client.
type Arrival struct {
	Session []byte        `cbor:"1,keyasint"` // a Travel
	Age     time.Duration `cbor:"2,keyasint,omitempty"`
	Read    record.Moment `cbor:"3,keyasint,omitempty"`
}

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
