package raknet

import (
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
)

// probes are the MTUs that a client tries. It tries each several times before it takes the path for too narrow
// (docs/protocols/raknet/join.md#open-connection).
var probes = [...]int{1492, 1200, 576}

const (
	triesPerProbe = 4
	// askSizes is the number of sizes that the first requests of a probe have.
	askSizes = 16
	// forgetAsked is when a request without a reply counts as lost, and its size may be that of another.
	forgetAsked = 4 * time.Second
	// requestsPerReply is how often the second request is sent before the first is tried again. The cookie may have
	// expired, or the server may have stored nothing.
	requestsPerReply = 2
	// freshCookie is how long after its request a server's cookie is used. go-raknet takes it for at least 2 s, and blocks
	// the address that sends an older one. After a pause of the process we ask for another. A server that answers late
	// will read the second request late, too, and later still if it has stopped. steadyCookie is the same for a reply that
	// took no longer than the one before it: the path is long, or the server is behind by the same time.
	freshCookie  = time.Second
	steadyCookie = 1850 * time.Millisecond
	firstRetry   = 200 * time.Millisecond
	lastRetry    = 500 * time.Millisecond // stock RakNet's only interval
	// tooSoonRetry is how soon a stock server accepts another client from the same address. All clients of a proxy have
	// one address. tooSoonPatience is how long we try: a stock client waits for 6 s.
	tooSoonRetry    = 100 * time.Millisecond
	tooSoonPatience = 4 * time.Second
	// maxKeyedReplies is the number of such replies after which a server with a key is taken to demand encryption. It may
	// make exceptions.
	maxKeyedReplies = 2
)

// attempt is a client's state until its connection is granted.
type attempt struct {
	from  codec.Addresser      // as in codec.Hello
	reply openConnectionReply1 `record:"inline"`
	due   request              // the next request to send
	named uint8                // by a refusal that may be forged: the version of the next first request

	Password []byte        `cbor:"1,keyasint,omitempty" secret:"true"`
	Pad      uint8         `cbor:"2,keyasint,omitempty"` // of the password
	Version  uint8         `cbor:"3,keyasint"`
	Refused  []uint8       `cbor:"4,keyasint,omitempty"` // versions that the server refused
	Tries    int           `cbor:"5,keyasint,omitempty"` // first requests sent
	Probe    int           `cbor:"6,keyasint,omitempty"` // MTU of the last of them
	Replied  bool          `cbor:"11,keyasint,omitempty"`
	Requests int           `cbor:"12,keyasint,omitempty"` // second requests sent since the reply
	Widest   int           `cbor:"36,keyasint,omitempty"` // the largest MTU of all second requests
	SentAt   time.Duration `cbor:"13,keyasint,omitempty"` // when the last request was sent
	// TooSoon says that the server has accepted another client from our address a moment ago.
	TooSoon bool `cbor:"14,keyasint,omitempty"`
	// KeyedReplies counts the replies of a server with a key whose second requests got no answer.
	KeyedReplies int           `cbor:"15,keyasint,omitempty"`
	RetryAt      time.Duration `cbor:"16,keyasint,omitempty"`

	AskedAt time.Duration                        `cbor:"31,keyasint,omitempty"` // of the request that reply answers
	Asked   [len(probes)][askSizes]time.Duration `cbor:"32,keyasint"`           // of requests that may have no reply yet
	Sent    [len(probes)]uint8                   `cbor:"33,keyasint"`           // first requests of each probe
	Took    time.Duration                        `cbor:"34,keyasint,omitempty"` // the time until the last reply
	Steady  bool                                 `cbor:"35,keyasint,omitempty"` // the reply before it took as long
	strand
}

// request is one of the two requests for a connection.
type request uint8

const (
	noRequest request = iota
	firstRequest
	secondRequest
)

// setPassword copies the password of a Hello.
func (a *attempt) setPassword(hello codec.Hello) {
	a.Password, a.Pad = append(a.Password[:0], hello.Data...), hello.Pad
}

// dial makes the client's side of a connection, which sends its first request at once.
func dial(p *Protocol, now time.Time, to netip.AddrPort, hello codec.Hello) *Conn {
	c := newConn(p, now, to, probing)
	c.dialed, c.tentative = true, hello.Tentative
	c.sender.bits = c.countsBits()
	c.guid = hello.Identity
	version := p.o.DialVersion
	if p.o.KeepVersion && hello.Version != 0 {
		version = hello.Version
	}
	c.asking = &attempt{from: hello.From, Version: p.servers.ask(now, to, version)}
	c.asking.setPassword(hello)
	c.attempt = c.asking
	c.ask(0)
	return c
}

// ask sends the current request once more.
func (c *Conn) ask(now time.Duration) {
	a := c.attempt
	switch {
	case a.TooSoon && now >= tooSoonPatience:
		c.end(codec.Event{Reason: codec.TooSoon, Identity: c.server})
		return
	case c.p.o.Cookies.offloaded():
		a.reply, a.Replied = c.p.ownReply(c.start.Add(now), a), true
		a.Tries++
		c.request2(now)
	case a.Replied && a.Requests < requestsPerReply && !a.isStale(now):
		c.request2(now)
	case a.Replied && a.reply.encrypts && a.KeyedReplies == maxKeyedReplies-1:
		c.lackKey()
		return
	default:
		if a.Replied {
			a.KeyedReplies++
		}
		a.Replied = false
		a.changeVersion()
		c.request1(now)
	}
	again := max(a.Tries-1, 0) % triesPerProbe
	a.RetryAt = now + min(firstRetry+time.Duration(again)*firstRetry/2, lastRetry)
}

func (c *Conn) request1(now time.Duration) {
	a := c.attempt
	probe := min(a.Tries/triesPerProbe, len(probes)-1)
	size := a.Sent[probe] % askSizes
	if at := a.Asked[probe][size]; at == 0 || now-at > forgetAsked {
		a.Asked[probe][size] = max(now, 1)
	}
	a.Probe = c.probe(probe, int(size))
	a.Tries++
	a.Sent[probe]++
	a.due, a.SentAt = firstRequest, now
}

// probe returns the MTU of a first request. Each repeat is a byte shorter than the one before it, because the reply
// names the size: so we know which request it answers.
func (c *Conn) probe(probe, size int) int { return min(probes[probe], c.p.o.MaxMTU) - size }

// answered takes a reply with an MTU, and returns the number of the probe that it answers. Some servers name a smaller
// MTU of their own. They do not block us for an old cookie, and their replies count for the last request.
func (c *Conn) answered(mtu int) (probe int) {
	a := c.attempt
	for probe := range probes {
		size := c.probe(probe, 0) - mtu
		if 0 <= size && size < askSizes && a.Asked[probe][size] > 0 {
			a.AskedAt, a.Asked[probe][size] = a.Asked[probe][size], 0
			return probe
		}
	}
	for probe = len(probes) - 1; probe > 0 && mtu > probes[probe]; probe-- {
	}
	a.AskedAt = a.SentAt
	return probe
}

// isStale reports whether the server may no longer take the cookie that it gave.
func (a *attempt) isStale(now time.Duration) bool {
	limit := freshCookie
	if a.Steady {
		limit = steadyCookie
	}
	return a.reply.hasCookie && now-a.AskedAt > limit
}

func (c *Conn) request2(now time.Duration) {
	a := c.attempt
	a.Requests++
	a.Widest = max(a.Widest, c.p.clampMTU(a.reply.mtu))
	a.due, a.SentAt = secondRequest, now
	if a.StrandAt == 0 && !a.Back {
		a.StrandAt = now + grantPatience
	}
}

// transmitRequest appends the due request to b, if there is one.
func (c *Conn) transmitRequest(b []byte) []byte {
	a := c.attempt
	due := a.due
	a.due = noRequest
	switch due {
	case firstRequest:
		m := openConnectionRequest1{version: a.Version, length: a.Probe - udpOverhead}
		return m.append(b)
	case secondRequest:
		m := openConnectionRequest2{
			hasCookie: a.reply.hasCookie, cookie: a.reply.cookie, server: c.address(), guid: c.guid,
			mtu: uint16(c.p.clampMTU(a.reply.mtu)),
		}
		return m.append(b)
	}
	return b
}

// offloadedMTU is the largest MTU that CloudburstMC's servers accept by default.
const offloadedMTU = 1400

// ownReply returns the reply of a server that leaves first requests to us, as its front proxy.
func (p *Protocol) ownReply(now time.Time, a *attempt) openConnectionReply1 {
	reply := openConnectionReply1{hasCookie: true, mtu: uint16(min(p.o.MaxMTU, offloadedMTU))}
	if p.shared != nil {
		var from netip.AddrPort
		if a.from != nil {
			from = a.from.Addr()
		}
		reply.cookie = p.shared.give(now, from, a.Version)
	} else {
		reply.cookie = uint32(minuteOf(now)&0xf)<<4 | uint32(a.Version-1)&0xf
	}
	return reply
}

// receiveReply handles the server's answer to one of our requests.
func (c *Conn) receiveReply(now time.Duration, id byte, b []byte) error {
	if id == idIncompatibleVersion {
		return c.changeVersion(now, b)
	}
	if reason, ok := refusalReason(id); ok {
		return c.refused(now, reason, b)
	}
	a := c.attempt
	switch id {
	case idOpenConnectionReply1:
		var m openConnectionReply1
		if err := m.parse(b); err != nil {
			return err
		}
		a.named = 0
		if a.Replied && a.Requests > 0 {
			return nil // it answers an earlier request, and the second is under way
		}
		probe := c.answered(int(m.mtu))
		took := now - a.AskedAt
		a.reply, a.Steady, a.Took = m, a.Took > 0 && took <= a.Took+a.Took/128, took
		c.sender.RTT.expect(took)
		a.Replied, a.Requests = !a.isStale(now), 0
		a.Tries = probe * triesPerProbe              // the path is as wide as the probe
		if !a.Replied && now < a.RetryAt+lastRetry { // the server is behind, not we
			return nil
		}
		c.ask(now)
		return nil
	case idOpenConnectionReply2:
		var m openConnectionReply2
		if err := m.parse(b); err != nil {
			return err
		}
		if !a.Replied && a.StrandAt == 0 && !a.Back { // no second request has left
			return errPhase
		}
		// The first reply has told the round trip. This one may answer an earlier request than the last.
		c.granted(now, &m)
		return nil
	}
	return errPhase
}

// refused handles an offline refusal.
func (c *Conn) refused(now time.Duration, reason codec.Reason, b []byte) error {
	var m refusal
	if err := m.parse(b); err != nil {
		return err
	}
	c.server = m.guid
	if reason == codec.AlreadyConnected && c.attempt.isKnown() {
		return nil
	}
	if reason == codec.TooSoon {
		c.attempt.TooSoon, c.attempt.Requests, c.attempt.RetryAt = true, 0, now+tooSoonRetry
		c.attempt.StrandAt = 0 // the server has answered, and is asked again
		return nil
	}
	c.end(codec.Event{Reason: reason, Identity: c.server})
	return nil
}

// changeVersion asks again with the server's own version, if we speak that too.
func (c *Conn) changeVersion(now time.Duration, b []byte) error {
	var m incompatible
	if err := m.parse(b); err != nil {
		return err
	}
	a, only := c.attempt, c.p.o.OnlyVersion
	switch {
	case m.version == a.Version && len(a.Refused) > 0:
		return errPhase // it answers a request from before the change
	case m.version == a.Version, slices.Contains(a.Refused, m.version), !slices.Contains(c.p.o.Versions, m.version),
		only != 0 && only != AnyVersion && only != m.version:
		c.end(codec.Event{Reason: codec.Incompatible, Identity: m.guid, Version: m.version})
		return nil
	}
	a.named = m.version
	if c.p.servers.know(c.peer).grants(a.Version) {
		return nil // the server replies before we ask again, if the refusal is forged
	}
	c.p.servers.refuse(c.start.Add(now), c.peer, m.version)
	a.changeVersion()
	a.Replied = false
	c.ask(now)
	return nil
}

// changeVersion takes the version that the server has named, if it has.
func (a *attempt) changeVersion() {
	if a.named != 0 {
		a.Refused, a.Version, a.named = append(a.Refused, a.Version), a.named, 0
	}
}

// granted handles the server's grant.
func (c *Conn) granted(now time.Duration, reply *openConnectionReply2) {
	if reply.encrypts {
		c.lackKey()
		return
	}
	c.longList = c.attempt.Version >= firstLongList
	// A server may have accepted an earlier request, of a wider probe. A stock one still echoes the MTU of the last.
	told := c.p.clampMTU(reply.mtu)
	c.setMTU(min(told, c.p.clampMTU(c.attempt.reply.mtu)), max(told, c.attempt.Widest))
	c.server, c.family = reply.guid, reply.client.family
	c.attempt, c.offline = nil, nil
	if c.ahead {
		c.wait()
		return
	}
	c.requestConnection(now)
}

// requestConnection sends the first message of the reliability layer, unless the server could block us for its
// password.
func (c *Conn) requestConnection(now time.Duration) {
	a := c.asking
	if len(a.Password) > maxPassword {
		c.finish(codec.InvalidPassword)
		return
	}
	m := connectionRequest{guid: c.guid, time: c.milliseconds(now), password: a.Password}
	c.sender.enqueueControl(now, codec.Reliable, m.append(c.scratch()), a.Pad)
	c.phase, a.RetryAt = requesting, now+max(answerPatience, 2*c.patience())
	c.expectAnswer(now)
}

// answerPatience is how long a server may take to answer the connection request, once it has acknowledged it.
// Cloudburst's answer is unreliable, and lost once it is lost. It answers each repeated request, and so do the others.
const answerPatience = time.Second

// awaitsAnswer reports whether the server has the connection request and has not answered it.
func (c *Conn) awaitsAnswer() bool {
	return c.phase == requesting && c.asking != nil && c.sender.flight.unacked == 0 && c.sender.control.size == 0
}

// lackKey gives up a server that encrypts, and tells it the reason.
func (c *Conn) lackKey() {
	c.finish(codec.Incompatible)
	m := requiresPublicKey{code: serverKeyMissing}
	c.offline = m.append(nil)
}

// handleClient handles RakNet's own messages of a server's handshake.
func (c *Conn) handleClient(now time.Duration, payload []byte) error {
	switch {
	case c.phase > requesting && payload[0] == idConnectionRequestAccepted:
		return nil // it answers a repeated request
	case c.phase != requesting:
		return errPhase
	}
	if reason, ok := refusalReason(payload[0]); ok {
		c.finish(reason)
		return nil
	}
	if payload[0] != idConnectionRequestAccepted {
		return errPhase
	}
	var m connectionRequestAccepted
	if err := m.parse(payload); err != nil {
		return err
	}
	c.sampleClock(now, m.requestTime, m.replyTime)
	if a := c.asking; a != nil && len(a.Refused) == 0 { // otherwise it may have granted the version before
		c.p.servers.grant(c.peer, a.Version)
	}
	c.phase, c.askedAt, c.asking = accepted, m.replyTime, nil
	if !c.tentative {
		c.join(now)
	}
	c.reportConnected(m.index)
	return nil
}

// Confirm implements codec.Confirmer.
func (c *Conn) Confirm(now time.Time) {
	c.tentative = false
	if c.phase == accepted {
		c.occupy()
		c.join(now.Sub(c.start))
	}
}

// join sends the last step of the handshake. The server then counts us as connected.
func (c *Conn) join(now time.Duration) {
	m := newIncomingConnection{
		server: c.address(), addresses: c.ownAddresses(), serverTime: c.askedAt, clientTime: c.milliseconds(now),
	}
	c.sender.enqueueControl(now, codec.ReliableOrdered, m.append(c.scratch()), 0)
	c.open(now)
}
