// Package raknet speaks the RakNet protocol, for both ends of a connection. It speaks version 6 (stock RakNet 4.081
// and SLikeNet) and the versions of Minecraft Bedrock. It has every reliability, 32 ordering channels, split messages
// and bit lengths. It does not encrypt (libcat), and it does not read messages.
//
// Start with Protocol for the stateless handshake and Conn for a connection. Then read sender and receiver, its two
// halves. docs/protocols/raknet.md has the facts about the wire.
package raknet

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"tidegate/codec"
)

var (
	errNotOffline = fmt.Errorf("raknet: not an offline message for a server: %w", codec.ErrMalformed)
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
	pong := Pong{Time: ping.time, GUID: p.o.GUID, Data: p.pongText()}
	return pong.append(reply, p.o.SizedPong), nil
}

// pongText returns our server side's present text.
func (p *Protocol) pongText() []byte {
	if p.o.PongText != nil {
		if text := p.o.PongText(); len(text) > 0 {
			return text[:min(len(text), maxPong)]
		}
	}
	return p.o.Pong
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

// serverVersions are the protocol versions that servers named when they refused ours. The next connections ask with
// those. A go-raknet server ignores an address for 10 s after a first request of another version.
type serverVersions struct {
	of atomic.Pointer[map[netip.AddrPort]uint8] // the map it points to is never changed
}

// ask returns the version for a server: the one that it named, or else ours.
func (v *serverVersions) ask(server netip.AddrPort, ours uint8) uint8 {
	if known := v.of.Load(); known != nil {
		if version, ok := (*known)[server]; ok {
			return version
		}
	}
	return ours
}

// learn records the version that a server named. Of two concurrent calls, one may be lost until the next.
func (v *serverVersions) learn(server netip.AddrPort, version uint8) {
	next := make(map[netip.AddrPort]uint8)
	if known := v.of.Load(); known != nil && len(*known) < maxServerVersions {
		maps.Copy(next, *known)
	}
	next[server] = version
	v.of.Store(&next)
}
