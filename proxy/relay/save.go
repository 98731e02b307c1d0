package relay

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/proxyproto"
	"tidegate/internal/record"
	"tidegate/internal/upstream"
	"tidegate/proxy/bridge"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// A session as a record has two parts. The first part is restored at once: it has all facts that lists, counts and
// limits need. The second part has the connections and the bridge of a terminated session. It is larger, and is
// restored later (pending.go).

const (
	sessionKind  = "session"
	savedVersion = 1
)

var (
	_ = record.Register[savedSession](savedVersion, sessionKind)
	_ = record.Register[savedRelay](savedVersion, sharedKind)
)

// savedSession is a session as a record. Listeners, routes, protocols and servers have their names and addresses.
type savedSession struct {
	record.Head
	Listener netip.AddrPort `cbor:"3,keyasint"` // as in the settings
	Stream   bool           `cbor:"4,keyasint,omitempty"`
	Client   netip.AddrPort `cbor:"5,keyasint"`
	Route    string         `cbor:"6,keyasint"`
	Protocol string         `cbor:"7,keyasint"`
	Serial   SessionID      `cbor:"8,keyasint"`

	OwnFace   bool           `cbor:"9,keyasint,omitempty"`  // the socket to the client is the session's own
	Local     netip.Addr     `cbor:"10,keyasint,omitempty"` // of the socket to the client, at a wildcard listener
	Via       *savedProxy    `cbor:"11,keyasint,omitempty"`
	Server    netip.AddrPort `cbor:"12,keyasint,omitempty"`
	HasSocket bool           `cbor:"13,keyasint,omitempty"` // to the server
	Path      *savedPath     `cbor:"14,keyasint,omitempty"`
	Preamble  *savedPreamble `cbor:"15,keyasint,omitempty"`

	Meter      savedMeter    `cbor:"16,keyasint,omitempty"`
	Opened     record.Moment `cbor:"17,keyasint"`
	Heard      record.Moment `cbor:"18,keyasint"`
	FromClient savedTraffic  `cbor:"19,keyasint"`
	FromServer savedTraffic  `cbor:"20,keyasint"`

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
	Body     []byte `cbor:"32,keyasint,omitempty"` // a savedTerminated; none: relayed
	// Age is the time since Body was written, if it was still pending.
	Age time.Duration `cbor:"33,keyasint,omitempty"`
	// Number 34 had another meaning.
	Gate        *codec.Gate   `cbor:"35,keyasint,omitempty"` // of a relayed client; none: open
	RefusedFrom record.Moment `cbor:"36,keyasint,omitempty"` // zero: no refusals
}

// savedProxy is a trustedProxy.
type savedProxy struct {
	_      struct{} `cbor:",toarray"`
	Addr   netip.AddrPort
	Format proxyproto.Format
	Local  bool
	Client netip.AddrPort
	Proxy  netip.AddrPort
}

// savedPath is a session's place on its path.
type savedPath struct {
	Source netip.Addr      `cbor:"1,keyasint,omitempty"`
	Sent   []record.Moment `cbor:"2,keyasint,omitempty"` // of the session's own path: times of the last datagrams
	Parked [][]byte        `cbor:"3,keyasint,omitempty"`
}

type savedPreamble struct {
	_      struct{} `cbor:",toarray"`
	Header []byte
	When   Headers
}

// savedMeter has the times until which the buckets of a session, its address and its network are used up.
type savedMeter struct {
	Own     []record.Moment `cbor:"1,keyasint,omitempty"` // by quantity
	Address []record.Moment `cbor:"2,keyasint,omitempty"`
	Network []record.Moment `cbor:"3,keyasint,omitempty"`
}

type savedTraffic struct {
	_        struct{} `cbor:",toarray"`
	Messages uint64
	Bytes    uint64
}

// savedTerminated is the part of a terminated session that is restored later.
type savedTerminated struct {
	Client       savedSide       `cbor:"1,keyasint"`
	Upstream     savedSide       `cbor:"2,keyasint"`
	Earlier      *savedEarlier   `cbor:"3,keyasint,omitempty"`
	DialBy       record.Moment   `cbor:"4,keyasint,omitempty"`
	Hello        savedHello      `cbor:"5,keyasint,omitempty"`
	Hold         *savedHold      `cbor:"6,keyasint,omitempty"`
	KnownClients []uint16        `cbor:"7,keyasint,omitempty"`
	Rates        []record.Moment `cbor:"8,keyasint,omitempty"` // by rank of the rule
	Trust        savedTrust      `cbor:"9,keyasint,omitempty"`
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
	Closing      []savedClosing  `cbor:"20,keyasint,omitempty"`
	Place        int             `cbor:"21,keyasint,omitempty"` // in the line of its upstream, from 1; 0: none
}

type savedSide struct {
	Conn     []byte         `cbor:"1,keyasint,omitempty"` // its record; none: no connection
	Up       bool           `cbor:"2,keyasint,omitempty"`
	Pressure codec.Pressure `cbor:"3,keyasint,omitempty"`
	Sampled  stats.Sampled  `cbor:"4,keyasint,omitempty"`
	Sender   bridge.Saved   `cbor:"5,keyasint,omitempty"`
}

type savedEarlier struct {
	Sockets  int            `cbor:"1,keyasint,omitempty"`
	Preamble *savedPreamble `cbor:"2,keyasint,omitempty"`
	Back     bool           `cbor:"3,keyasint,omitempty"`
}

type savedHello struct {
	Data     []byte `cbor:"1,keyasint,omitempty"`
	Pad      uint8  `cbor:"2,keyasint,omitempty"`
	Identity uint64 `cbor:"3,keyasint,omitempty" secret:"true"`
	Version  uint8  `cbor:"4,keyasint,omitempty"`
}

type savedHold struct {
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

type savedTrust struct {
	Proof    codec.Proof   `cbor:"1,keyasint,omitempty"`
	Answered bool          `cbor:"2,keyasint,omitempty"`
	Guessed  bool          `cbor:"3,keyasint,omitempty"`
	Unbound  bool          `cbor:"4,keyasint,omitempty"`
	Credit   int           `cbor:"5,keyasint,omitempty"`
	Bucket   record.Moment `cbor:"6,keyasint,omitempty"`
}

// savedClosing is a closing connection, with a socket of its own.
type savedClosing struct {
	Conn     []byte         `cbor:"1,keyasint"`
	Preamble *savedPreamble `cbor:"2,keyasint,omitempty"`
	Until    record.Moment  `cbor:"3,keyasint"`
	Late     int            `cbor:"4,keyasint,omitempty"`
}

func saveProxy(f *trustedProxy) *savedProxy {
	if f == nil {
		return nil
	}
	return &savedProxy{
		Addr: f.addr, Format: f.header.Format, Local: f.header.Local, Client: f.header.Client, Proxy: f.header.Proxy,
	}
}

func (v *savedProxy) restore() *trustedProxy {
	if v == nil {
		return nil
	}
	return &trustedProxy{v.Addr, proxyproto.Header{
		Format: v.Format, Local: v.Local, Client: v.Client, Proxy: v.Proxy,
	}}
}

func savePreamble(p *preamble) *savedPreamble {
	if p == nil {
		return nil
	}
	return &savedPreamble{Header: p.header, When: p.when}
}

func (v *savedPreamble) restore() *preamble {
	if v == nil {
		return nil
	}
	return &preamble{v.Header, v.When}
}

// momentOfBucket returns the time until which a bucket is used up; zero means that it is full. start is the start of
// the bucket's time.
func momentOfBucket(now, start time.Time, b ratelimit.Bucket) record.Moment {
	paid := start.Add(time.Duration(b))
	if !paid.After(now) {
		return 0
	}
	return record.MomentOf(now, paid)
}

// maxUsedUp bounds the time until which a bucket of a record is used up.
const maxUsedUp = time.Hour

func bucketOf(now, start time.Time, m record.Moment) ratelimit.Bucket {
	paid := m.Time(now)
	if paid.IsZero() || paid.After(now.Add(maxUsedUp)) {
		return 0
	}
	return ratelimit.Bucket(paid.Sub(start))
}

// isOwn reports whether a session's socket to its client belongs to it alone.
func (s *session) isOwn(face netio.Socket) bool { return netio.ListenerOf(face) != s.listener.socket }
