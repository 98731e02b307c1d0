// Package raknet speaks the RakNet protocol, for both ends of a connection. It speaks version 6 (stock RakNet 4.081
// and SLikeNet) and the versions of Minecraft Bedrock. It has every reliability, 32 ordering channels, split messages
// and bit lengths. It does not encrypt (libcat), and it does not read messages.
//
// Start with Protocol for the stateless handshake and Conn for a connection. Then read sender and receiver, its two
// halves. docs/protocols/raknet.md has the facts about the wire.
package raknet

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"tidegate/codec"
)

var (
	errNotOffline = fmt.Errorf("raknet: not an offline message for a server: %w", codec.ErrMalformed)
	errNoPong     = fmt.Errorf("raknet: no server has a text for server lists, and pong is empty: %w", codec.ErrRefused)
	errPingSize   = fmt.Errorf("raknet: ping without a GUID: %w", codec.ErrMalformed)
	errProbeSize  = fmt.Errorf("raknet: probe shorter than the least MTU: %w", codec.ErrMalformed)
	errVersion    = fmt.Errorf("raknet: protocol version not accepted: %w", codec.ErrRefused)
	errChallenge  = fmt.Errorf("raknet: client wants to encrypt: %w", codec.ErrRefused)
	errNoCookie   = fmt.Errorf("raknet: client did not return the cookie; set cookie_mode = \"none\" if its library "+
		"cannot: %w", codec.ErrNoProof)
	errCookie    = fmt.Errorf("raknet: cookie wrong or too old: %w", codec.ErrRefused)
	errOffloaded = fmt.Errorf("raknet: first request is for the front proxy (offloaded cookies): %w", codec.ErrRefused)
)

// Protocol is RakNet with its options. It is safe for concurrent use. It learns nothing but the versions of servers.
type Protocol struct {
	spec    codec.Spec
	o       Options
	cookies cookies
	shared  *sharedCookies // nil: no use of CookieSecret
	spaces  *workspaces    // workspaces of one loop's connections; nil: each connection has its own
	servers *serverVersions
	clients *versionTable // only without cookies
}

var _ codec.PerLoop = (*Protocol)(nil)

// New returns the protocol with the given options.
func New(o Options) *Protocol {
	p := &Protocol{o: o.withDefaults(), servers: new(serverVersions)}
	p.spec = specOf(&p.o)
	p.cookies = cookies{&p.o.Seed}
	if o.Cookies == CookiesNone {
		p.clients = new(versionTable)
	}
	if o.Cookies == CookiesActive || o.Cookies == CookiesOffloadedPSK {
		p.shared = newSharedCookies(o.CookieSecret)
	}
	return p
}

// specOf returns the Spec of a Protocol with the given options. A game's message begins with its packet identifier.
// Clients send the requests of the handshake, pings without a connection, and datagrams of a connection. The cookie in
// the second request proves an address. There is no proof without cookies, or if only the cookie's age is checked.
func specOf(o *Options) codec.Spec {
	s := codec.Spec{
		Name: o.Name,
		Modes: codec.ModesOf(codec.Unreliable, codec.UnreliableSequenced, codec.Reliable, codec.ReliableOrdered,
			codec.ReliableSequenced),
		IDs:         codec.IDFirstByte,
		Channels:    maxChannels,
		Proof:       codec.ProvedAccept,
		IdleTimeout: o.Timeout,
		Openings:    codec.ByteSetOf(forServers...),
	}
	s.FirstBytes = s.Openings
	s.FirstBytes.Add(bitValid, 0xff)
	s.FirstBytes.Add(idDisconnectionNotification, idDisconnectionNotification)
	if o.OrderedOnly {
		s.Modes = codec.ModesOf(codec.Unreliable, codec.UnreliableSequenced, codec.ReliableOrdered)
	}
	if o.Cookies == CookiesNone || o.Cookies == CookiesOffloaded {
		s.Proof = codec.NoProof
	}
	return s
}

// Spec implements codec.Protocol.
func (p *Protocol) Spec() *codec.Spec { return &p.spec }

// ForLoop implements codec.PerLoop.
func (p *Protocol) ForLoop() codec.Protocol {
	local := *p
	local.spaces = new(workspaces)
	return &local
}

// Sniff recognizes pings and the two requests that open a connection.
func (p *Protocol) Sniff(datagram []byte) bool {
	id, ok := offlineID(datagram)
	return ok && isForServers(id)
}

// forServers are the offline messages that a client sends.
var forServers = []byte{idUnconnectedPing, idUnconnectedPingOpen, idOpenConnectionRequest1, idOpenConnectionRequest2}

func isForServers(id byte) bool { return slices.Contains(forServers, id) }

// Accept answers pings and the first request statelessly. The second request makes a Conn, once its cookie has proved
// the address.
func (p *Protocol) Accept(now time.Time, from netip.AddrPort, datagram, reply []byte) (codec.Conn, []byte, error) {
	id, ok := offlineID(datagram)
	if !ok || !isForServers(id) {
		return nil, reply, errNotOffline
	}
	if id != idOpenConnectionRequest2 {
		reply, err := p.answer(now, from, datagram, reply, 0)
		return nil, reply, err
	}
	request, origin, err := p.parseRequest2(now, from, datagram)
	if err != nil {
		return nil, reply, err
	}
	if request.challenged {
		to := address{from, request.server.family}
		return nil, p.appendPlainGrant(reply, p.o.GUID, to, request.mtu), errChallenge
	}
	return accept(p, now, from, request, origin), reply, nil
}

// Refuse answers the second request with the offline message for the reason. Most reasons have no message of their
// own, and become NO_FREE_INCOMING_CONNECTIONS.
func (p *Protocol) Refuse(datagram, reply []byte, reason codec.Reason) []byte {
	if id, ok := offlineID(datagram); !ok || id != idOpenConnectionRequest2 {
		return reply
	}
	id, ok := refusalID(reason)
	if !ok || id == idInvalidPassword { // INVALID_PASSWORD is an online message
		id = idNoFreeConnections
	}
	return p.appendRefusal(reply, id, p.self())
}

// Dial opens a connection to a server. The client's GUID is the Identity of hello. If that is 0, the GUID is derived
// from Seed, to and now. Two connections dialed to one server at the same instant therefore need an Identity each.
func (p *Protocol) Dial(now time.Time, to netip.AddrPort, hello codec.Hello) codec.Conn {
	return p.dial(now, to, hello)
}

func (p *Protocol) dial(now time.Time, to netip.AddrPort, hello codec.Hello) *Conn {
	if hello.Identity == 0 {
		label, _ := to.MarshalBinary()
		hello.Identity = guidFrom(&p.o.Seed, binary.BigEndian.AppendUint64(label, uint64(now.UnixNano())))
	}
	return dial(p, now, to, hello)
}

// answer appends the answer to a ping or to the first request, with a cookie of the given round. An answer to a first
// request is never longer than the request.
func (p *Protocol) answer(now time.Time, from netip.AddrPort, datagram, reply []byte, round uint8) ([]byte, error) {
	if datagram[0] != idOpenConnectionRequest1 {
		return p.answerPing(datagram, reply)
	}
	if p.o.Cookies.offloaded() {
		return reply, errOffloaded
	}
	var request openConnectionRequest1
	if err := request.parse(datagram); err != nil {
		return reply, err
	}
	if request.length+udpOverhead < p.o.MinMTU {
		return reply, errProbeSize
	}
	if !slices.Contains(p.o.Versions, request.version) {
		return p.appendRefusal(reply, idIncompatibleVersion, p.self()), errVersion
	}
	answer := openConnectionReply1{guid: p.o.GUID, mtu: uint16(min(request.length+udpOverhead, p.o.MaxMTU))}
	if p.o.Cookies == CookiesNone {
		p.clients.note(from, request.version)
	} else {
		answer.hasCookie = true
		answer.cookie = p.giveCookie(now, from, request.version, round)
	}
	return answer.append(reply), nil
}

func (p *Protocol) answerPing(datagram, reply []byte) ([]byte, error) {
	var ping unconnectedPing
	if err := ping.parse(datagram); err != nil {
		return reply, err
	}
	if len(datagram) < pingSize {
		return reply, errPingSize
	}
	pong := Pong{Time: ping.time, GUID: p.o.GUID, Data: p.o.Pong}
	if p.o.PongText != nil {
		switch text := p.o.PongText(); {
		case len(text) > 0:
			pong.Data = text[:min(len(text), maxPong)]
		case text == nil && len(p.o.Pong) == 0:
			return reply, errNoPong
		}
	}
	return pong.append(reply, p.o.SizedPong), nil
}

// parseRequest2 reads a second request and checks its cookie.
func (p *Protocol) parseRequest2(now time.Time, from netip.AddrPort, datagram []byte) (
	request openConnectionRequest2, o origin, err error,
) {
	if err := request.parse(datagram, p.o.Cookies != CookiesNone); err != nil {
		if new(openConnectionRequest2).parse(datagram, false) == nil {
			err = errNoCookie
		}
		return request, o, err
	}
	if p.o.Cookies == CookiesNone {
		return request, origin{version: p.clients.of(from, p.o.DialVersion)}, nil
	}
	o, ok := p.checkCookie(now, from, request.cookie)
	if !ok {
		return request, o, errCookie
	}
	return request, o, nil
}

// appendPlainGrant appends the second reply without an answer to a challenge. A stock client that demands encryption
// then ends its attempt, and reports ID_OUR_SYSTEM_REQUIRES_SECURITY to its application.
func (p *Protocol) appendPlainGrant(b []byte, server uint64, client address, mtu uint16) []byte {
	m := openConnectionReply2{guid: server, client: client, mtu: uint16(p.clampMTU(mtu))}
	return m.append(b)
}

// clampMTU limits the peer's requested MTU to our bounds.
func (p *Protocol) clampMTU(mtu uint16) int { return min(max(int(mtu), p.o.MinMTU), p.o.MaxMTU) }

// maxServerVersions bounds the remembered servers' versions. At the bound all are forgotten.
const maxServerVersions = 1024

// refusalLife is how long a server's refusal counts if the server has granted no version. It may be forged. It outlasts
// the 10 s for which a go-raknet server ignores an address after a first request of another version.
const refusalLife = 20 * time.Second

// serverVersions are what servers have told about their protocol versions. The next connections begin with those.
type serverVersions struct {
	of atomic.Pointer[map[netip.AddrPort]serverVersion] // the map it points to is never changed
}

type serverVersion struct {
	granted uint32    // bit n: the server has let in a client of version n
	named   uint8     // by a refusal; 0: there was none
	at      time.Time // when it came
}

func (v serverVersion) grants(version uint8) bool { return v.granted>>version&1 != 0 }

// isFresh reports whether a refusal counts by itself.
func (v serverVersion) isFresh(now time.Time) bool { return now.Sub(v.at) < refusalLife }

func (v *serverVersions) know(server netip.AddrPort) (known serverVersion) {
	if all := v.of.Load(); all != nil {
		known = (*all)[server]
	}
	return known
}

// ask returns the version for a server: ours, unless it has not granted ours and has named another.
func (v *serverVersions) ask(now time.Time, server netip.AddrPort, ours uint8) uint8 {
	known := v.know(server)
	if known.named != 0 && !known.grants(ours) && (known.grants(known.named) || known.isFresh(now)) {
		return known.named
	}
	return ours
}

// refuse records that a server named a version. Once it has granted versions, it can name only those: a forged refusal
// would keep out their players.
func (v *serverVersions) refuse(now time.Time, server netip.AddrPort, version uint8) {
	known := v.know(server)
	if known.granted == 0 && known.isFresh(now) || known.granted != 0 && !known.grants(version) ||
		known.named == version && known.grants(version) {
		return
	}
	known.named, known.at = version, now
	v.learn(server, known)
}

// grant records that a server let in a client of a version.
func (v *serverVersions) grant(server netip.AddrPort, version uint8) {
	known := v.know(server)
	if with := known.granted | 1<<version; with != known.granted {
		known.granted = with
		v.learn(server, known)
	}
}

// learn replaces what a server has told. Of two concurrent calls, one may be lost until the next.
func (v *serverVersions) learn(server netip.AddrPort, told serverVersion) {
	next := make(map[netip.AddrPort]serverVersion)
	if known := v.of.Load(); known != nil && len(*known) < maxServerVersions {
		maps.Copy(next, *known)
	}
	next[server] = told
	v.of.Store(&next)
}

// Options are the settings of a Protocol. The zero value of a setting means its default.
type Options struct {
	// Name is the protocol's name in configuration and logs. Default "raknet".
	Name string
	// Versions are the protocol versions that our server side accepts. Our client side changes to one of them if a server
	// asks for it. Default 6 (stock 4.081) and 9, 10, 11 (Bedrock).
	Versions []uint8
	// DialVersion is the first version of our client side. Default 6. From version 7 on handshakes list 20 addresses, not
	// 10.
	DialVersion uint8
	// KeepVersion lets our client side begin with the version of the Hello, if it has one. Servers choose the first
	// compression by it (Cloudburst). A go-raknet server ignores our address for 10 s after another version than its own.
	KeepVersion bool
	// GUID identifies our server side. It must not be 0 on the wire, because go-raknet takes that for a fault. By default
	// it is derived from Seed.
	GUID uint64
	// Seed is the secret for cookies and GUIDs. Servers with the same clients share it.
	Seed [32]byte
	// Cookies says how clients prove their address. Stock clients built with libcat cannot read a cookie, and need
	// CookiesNone. CookieSecret is shared with the other hosts that give or check cookies: CookiesActive and
	// CookiesOffloadedPSK need it.
	Cookies      CookieMode
	CookieSecret [32]byte
	// Pong is our server side's answer to a ping; at most 400 bytes of it are sent. SizedPong puts its length before it.
	// The Bedrock dialect demands the length, and stock RakNet does not know it.
	Pong      []byte
	SizedPong bool
	// PongText, if not nil, returns the answer to each ping. Pong is the answer only if PongText returns nothing. If Pong
	// is empty and PongText returns nil, there is none, as of a server that is away. PongText must be safe for concurrent
	// use, and should not allocate; its result is only read.
	PongText func() []byte

	// OrderedOnly removes Reliable and ReliableSequenced from Modes. Peers such as go-raknet deliver repeated messages of
	// those modes twice. Received messages of those modes are still accepted.
	OrderedOnly bool

	// Bits lets our client side send messages and passwords that end within a byte. Only C++ servers read them. Others
	// take them for broken, and block our address. By default such a message is filled up to whole bytes.
	Bits bool

	// Blocks says that servers may block an address for a datagram that opens a connection wrongly, and OnlyVersion that
	// another version is such a fault; 0: not known, AnyVersion: none is. A proxy that passes datagrams unchanged holds
	// those back.
	Blocks      bool
	OnlyVersion uint8

	// MaxMTU and MinMTU bound the MTU of a connection: the length of a datagram plus 28. They are at most 1492 and at
	// least 400; default 1492 and 400.
	MaxMTU, MinMTU int
	// MaxMessage is the largest message in bytes that Send takes. Default 2 MiB.
	MaxMessage int
	// MaxParts bounds the parts of a message that our client side sends. A server may take more parts for an attack, and
	// block our address. Default 500.
	MaxParts int
	// MaxQueued bounds the bytes of messages that wait to be sent or acknowledged. Each message counts 64 bytes more than
	// its length. Default 8 MiB.
	MaxQueued int
	// MaxAssembly bounds the bytes of incomplete split messages, and MaxHeld those of messages that wait for an earlier
	// one. Default 8 MiB and 4 MiB. A message whose parts would not fit into MaxAssembly ends the connection.
	MaxAssembly, MaxHeld int

	// Timeout is the silence after which a peer is given up. Default 10 s; a ping is sent after half of it.
	Timeout time.Duration
	// HandshakeTimeout bounds the time until Connected. Default 10 s.
	HandshakeTimeout time.Duration
	// CloseTimeout bounds the time from Close to Disconnected. Default 3 s. The goodbye leaves after two thirds of it
	// even if earlier messages are still unacknowledged.
	CloseTimeout time.Duration
	// AckDelay is how long an acknowledgement waits for others, and for data with which it can travel. It waits less if
	// the peer has more waiting than it may send. Default 25 ms, as in QUIC.
	AckDelay time.Duration
}

// AnyVersion is the OnlyVersion of servers that block no address for a version.
const AnyVersion = 0xff

// maxPong bounds the answer to a ping, as in stock RakNet.
const maxPong = 400

func (o Options) withDefaults() Options {
	setDefault(&o.Name, "raknet")
	if len(o.Versions) == 0 {
		o.Versions = usualVersions
	}
	setDefault(&o.DialVersion, 6)
	setDefault(&o.GUID, guidFrom(&o.Seed, []byte("server")))
	setDefault(&o.MaxMTU, 1492)
	setDefault(&o.MinMTU, 400)
	setDefault(&o.MaxMessage, 2<<20)
	setDefault(&o.MaxParts, goRaknetParts)
	setDefault(&o.MaxQueued, 8<<20)
	setDefault(&o.MaxAssembly, 8<<20)
	setDefault(&o.MaxHeld, 4<<20)
	setDefault(&o.Timeout, 10*time.Second)
	setDefault(&o.HandshakeTimeout, 10*time.Second)
	setDefault(&o.CloseTimeout, 3*time.Second)
	setDefault(&o.AckDelay, 25*time.Millisecond)
	o.Pong = o.Pong[:min(len(o.Pong), maxPong)]
	return o
}

func setDefault[T comparable](value *T, def T) {
	var zero T
	if *value == zero {
		*value = def
	}
}

// firstLongList is the first version whose handshakes list 20 addresses, not 10.
const firstLongList = 7

// Bounds on the parts of a message for servers. go-raknet blocks our address for a message of more than 512 parts.
// RakLib acknowledges a message of 128 or more and drops it.
const (
	goRaknetParts = 500
	rakLibParts   = 127
)

// profile is what the servers of a library in server_library take. Forms that some library punishes and none needs go
// to no server: empty messages, first bytes of RakNet's own messages, unused channels, split messages of one part.
type profile struct {
	bits   bool  // messages and passwords may end within a byte
	blocks bool  // it blocks an address for a datagram of a wrong form
	keeps  bool  // it takes versions other than its own, or ignores them
	only   uint8 // as Options.OnlyVersion
	parts  int   // of a message; 0: as configured
}

// profiles are those of the known libraries. Only C++ RakNet is known never to block an address.
var profiles = map[string]profile{
	"stock":      {bits: true, keeps: true, parts: math.MaxInt},
	"go-raknet":  {blocks: true, only: 11},
	"cloudburst": {blocks: true, keeps: true, only: AnyVersion},
	"raklib":     {blocks: true, keeps: true, only: AnyVersion},
}

// Suit fits the options to servers of a library: stock, go-raknet, cloudburst or raklib. Servers of Bedrock may be of
// any. An unknown one may be go-raknet, so it hears other versions only if the options have chosen them.
func (o *Options) Suit(library string) {
	p, known := profiles[library]
	if !known {
		usual := len(o.Versions) == 0 || slices.Equal(o.Versions, usualVersions)
		p.keeps = !usual && !slices.Equal(o.Versions, bedrockVersions)
	}
	o.Bits, o.KeepVersion, o.OnlyVersion = p.bits, p.keeps, p.only
	o.Blocks = p.blocks || !p.bits && o.SizedPong
	if o.MaxParts = cmp.Or(p.parts, o.MaxParts); library == "raklib" {
		setDefault(&o.MaxParts, rakLibParts)
	}
}

// Bedrock returns the options of Minecraft: Bedrock Edition's dialect.
func Bedrock() Options {
	return Options{
		Name: "bedrock", Versions: slices.Clone(bedrockVersions), DialVersion: 11, SizedPong: true, MaxParts: rakLibParts,
		OrderedOnly: true, // as Minecraft does; go-raknet needs it
	}
}

// Versions that our server side takes by default.
var usualVersions, bedrockVersions = []uint8{6, 9, 10, 11}, []uint8{9, 10, 11}
