package relay

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"tidegate/codec"
	"tidegate/internal/joining"
	"tidegate/internal/source"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
	"tidegate/session"
)

// journal writes a Relay's log: a line for the beginning and end of each session, and lines about drops. The lines of
// each kind and source are bounded. The access log is not: it has one line for each session.
type journal struct {
	log    zerolog.Logger
	access zerolog.Logger
	hide   bool // log the networks of clients, not their addresses
	lines  logLimiter
	causes map[session.ID]string // bans, rules and limits that end sessions, until their lines are written

	wrong      int               // states that could not follow
	forwarding ratelimit.Limiter // for lines about sessions that the kernel does not forward
}

func newJournal(now time.Time, log, access zerolog.Logger, hide bool, seed uint64) journal {
	return journal{
		log: log, access: access, hide: hide, lines: newLogLimiter(now, seed), causes: make(map[session.ID]string),
		forwarding: ratelimit.Limiter{Every: dropLogEvery, Burst: dropLogBurst},
	}
}

// JoinLog writes lines about joins of NetherNet clients that came to nothing, within the limits of a Relay's lines
// about drops.
type JoinLog struct {
	mu sync.Mutex
	journal
}

// NewJoinLog returns a JoinLog. hide is as HideAddresses of Options, and the seed should be random.
func NewJoinLog(now time.Time, log zerolog.Logger, hide bool, seed uint64) *JoinLog {
	return &JoinLog{journal: newJournal(now, log, zerolog.Nop(), hide, seed)}
}

// Failed logs a join.
func (l *JoinLog) Failed(now time.Time, j joining.Join) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if suppressed, ok := l.lines.allow(now, lineNoJoin, j.Client); ok {
		client := l.shown(j.Client, j.Client)
		line := counting(l.log.Warn(), suppressed).Str("join", j.ID).Str("route", j.Route).Str("client", client)
		if j.Stage != joining.Malformed { // no server has heard of it
			line.Stringer("server", j.Server)
		}
		line.Str("why", j.Tell(client, l.player(j.From))).Msg("join failed")
	}
}

// CatchUp reports suppressed lines once that is due.
func (l *JoinLog) CatchUp(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.catchUp(now)
}

// drop logs a drop, within the limits of its kind and source. size is in bytes.
func (j *journal) drop(now time.Time, why stats.Drop, listener string, from netip.AddrPort, size int, err error) {
	suppressed, ok := j.lines.allow(now, lineKind(why), from.Addr())
	if !ok {
		return
	}
	e := j.log.Warn()
	if why == stats.DropDuplicate || why == stats.DropWindow || why == stats.DropUnexpected || err == errListPing {
		e = j.log.Debug() // an honest client causes these, on a bad network or with a list of servers
	}
	e.Str("reason", why.String()).Str("listener", listener).Str("address", j.player(from)).Int("bytes", size)
	counting(e, suppressed).AnErr("error", err).Msg("dropped")
}

func (j *journal) established(now time.Time, e *Entry) {
	suppressed, ok := j.lines.allow(now, lineJoined, e.Key.Client.Addr())
	if !ok {
		return
	}
	counting(j.line(j.log.Info(), e).Int64("took_ms", (e.Value.since(now)-e.Value.opened).Milliseconds()), suppressed).
		Msg("session established")
}

// counting adds the number of suppressed lines to a line, if there are any.
func counting(line *zerolog.Event, suppressed uint64) *zerolog.Event {
	if suppressed > 0 {
		line.Uint64("suppressed", suppressed)
	}
	return line
}

// of begins a line about a session with the facts that every such line has.
func (j *journal) of(line *zerolog.Event, e *Entry) *zerolog.Event {
	s := &e.Value
	return line.Stringer("session", s.serial).Str("listener", s.listener.name).Str("route", s.route.Name).
		Str("client", j.player(e.Key.Client))
}

// line begins a line about the beginning or end of a session.
func (j *journal) line(line *zerolog.Event, e *Entry) *zerolog.Event {
	s := &e.Value
	j.of(line, e).Str("protocol", s.protocol.Spec().Name).Str("upstream", s.route.Upstream.Name)
	if s.server != nil { // one was chosen
		line.Stringer("server", s.server.Addr)
	}
	if s.isRelayed() {
		line.Str("mode", "relay")
	}
	return line
}

// mostWrong bounds the lines about states that could not follow.
const mostWrong = 16

// astray logs a state that cannot follow the session's own, which is a fault of the Relay.
func (j *journal) astray(e *Entry, last, next life) {
	if j.wrong++; j.wrong <= mostWrong {
		j.of(j.log.Error(), e).Stringer("state", last).Stringer("next", next).Msg("fault: a session cannot enter a state")
	}
}

// because stores the ban, rule or limit that ends a session, for its last line.
func (j *journal) because(e *Entry, cause string) { j.causes[e.Value.serial] = cause }

// becauseBanned is because for a ban. A log without addresses does not name the network, which can be one address.
func (j *journal) becauseBanned(e *Entry, network netip.Prefix) {
	if j.hide {
		j.because(e, "ban")
		return
	}
	j.because(e, "ban of "+network.String())
}

// ended writes the lines about a session's end.
func (j *journal) ended(now time.Time, e *Entry, blame stats.Party, why codec.Reason) {
	s, kind := &e.Value, lineFailed
	if s.life.hasJoined() {
		kind = lineEnded
	}
	cause := j.causes[s.serial]
	// A client that is not known may have a forged address. Without an access log the line is nil, and its facts would be
	// put together for nothing.
	if s.life.hasJoined() || s.isKnown() {
		if line := j.access.Log(); line != nil {
			j.last(now, j.line(line, e), s, blame, why, cause).Time("opened", s.at(s.opened)).Send()
		}
	}
	if suppressed, ok := j.lines.allow(now, kind, e.Key.Client.Addr()); ok {
		counting(j.last(now, j.line(j.log.Info(), e), s, blame, why, cause), suppressed).Msg("session ended")
	}
}

// last adds the figures of a whole session to a line.
func (j *journal) last(now time.Time, line *zerolog.Event, s *link, blame stats.Party, why codec.Reason,
	cause string) *zerolog.Event {
	unit := "messages"
	if s.isRelayed() {
		unit = "datagrams"
	}
	line.Str("reason", why.String()).Stringer("by", blame)
	if cause != "" {
		line.Str("cause", cause)
	}
	line.Int64("lasted_ms", (s.since(now)-s.opened).Milliseconds()).
		Uint64(unit+"_up", s.fromClient.Messages).Uint64("bytes_up", s.fromClient.Bytes).
		Uint64(unit+"_down", s.fromServer.Messages).Uint64("bytes_down", s.fromServer.Bytes)
	if !s.isRelayed() {
		connection(line, "client", &s.client)
		connection(line, "server", &s.upstream)
	}
	return line
}

// connection adds the figures of one side's connection to a line.
func connection(line *zerolog.Event, name string, s *side) {
	if s.Conn == nil {
		return
	}
	of := s.Conn.Stats()
	line.Float64(name+"_rtt_ms", float64(of.RTT.Microseconds())/1000).
		Uint64(name+"_resent", of.Resent).Uint64(name+"_lost", of.Lost)
	if of.MTU > 0 {
		line.Int(name+"_mtu", of.MTU)
	}
}

// notForwarded logs why the kernel does not forward a session, within a limit.
func (j *journal) notForwarded(now time.Time, e *Entry, err error) {
	if j.forwarding.Allow(now) {
		j.of(j.log.Info(), e).Err(err).Msg("session stays in user space")
	}
}

// banned logs an automatic ban.
func (j *journal) banned(now time.Time, e *Entry, ban *ratelimit.Ban) {
	suppressed, ok := j.lines.allow(now, lineBanned, e.Key.Client.Addr())
	if !ok {
		return
	}
	counting(j.of(j.log.Warn(), e).Str("reason", ban.Reason).Time("until", ban.Until).Int("times", ban.Times), suppressed).
		Msg("banned")
}

// player returns a client's address as logs show it.
func (j *journal) player(addr netip.AddrPort) string { return j.shown(addr.Addr(), addr) }

// shown returns the full text about a client's address, or the network.
func (j *journal) shown(a netip.Addr, full fmt.Stringer) string {
	network := source.Of(a).Network()
	switch {
	case !j.hide:
		return full.String()
	case !network.IsValid():
		return "hidden"
	}
	return network.String()
}

// held logs that a session has lost its server and is kept.
func (j *journal) held(e *Entry, why codec.Reason) {
	s := &e.Value
	j.of(j.log.Info(), e).Str("upstream", s.route.Upstream.Name).Stringer("server", s.server.Addr).
		Str("reason", why.String()).Msg("session held")
}

// regained logs that a server has taken a held or moved session. client is the server's ID for the client, if its
// protocol has IDs.
func (j *journal) regained(e *Entry, held time.Duration, client uint16) {
	s := &e.Value
	line := j.of(j.log.Info(), e).Str("upstream", s.route.Upstream.Name).Stringer("server", s.server.Addr).
		Int64("took_ms", held.Milliseconds())
	if client > 0 {
		line.Uint16("client_id", client).Bool("same_id", client == s.id)
	}
	line.Msg("session regained")
}

// checked logs that checks have found a server up again, or down.
func (j *journal) checked(upstream string, server netip.AddrPort, passed bool, why string) {
	if passed {
		j.serverUp(upstream, server)
		return
	}
	j.log.Warn().Str("reason", why).Str("upstream", upstream).Stringer("server", server).Msg("server down")
}

// serverUp logs that a server that was down is up again.
func (j *journal) serverUp(upstream string, server netip.AddrPort) {
	j.log.Info().Str("upstream", upstream).Stringer("server", server).Msg("server up")
}

// paced logs the pace that a server has told, in packets a second. With servers of different paces, each join may.
func (j *journal) paced(now time.Time, s *link, pace uint8) {
	if suppressed, ok := j.lines.allow(now, linePaced, s.server.Addr.Addr()); ok {
		line := j.log.Info().Str("upstream", s.route.Upstream.Name).Uint8("pace", pace)
		counting(line, suppressed).Msg("server's pace")
	}
}

// catchUp reports all suppressed lines once that is due.
func (j *journal) catchUp(now time.Time) {
	h := &j.lines
	if h.due.IsZero() || now.Before(h.due) {
		return
	}
	h.due = time.Time{}
	for k := range h.suppressed {
		if h.suppressed[k] > 0 {
			j.log.Warn().Str("about", lineKind(k).String()).Uint64("suppressed", h.suppressed[k]).Msg("lines left out")
			h.suppressed[k] = 0
		}
	}
}

// settle reports all suppressed lines at once, since the Relay may end.
func (j *journal) settle(now time.Time) {
	if !j.lines.due.IsZero() {
		j.lines.due = now
		j.catchUp(now)
	}
}

// errListPing is the note of a drop that is no reason for a warning: server browsers and "tidegate ping" ask any port.
var errListPing = errors.New("a server list asks in RakNet")

// mostRemembered and rememberedOf choose the drops to remember in a flood. To remember all of them would take as long
// as all other work on them.
const (
	mostRemembered = 32 // the first ones of a turn
	rememberedOf   = 8  // then one of so many
)

// dropped is a datagram or message that goes no further.
type dropped struct {
	why  stats.Drop
	at   *listener
	from netip.AddrPort
	size int   // in bytes
	err  error // may be nil; names the rule or limit
}

// dropLog counts drops, remembers the last ones, and logs some of them.
type dropLog struct {
	counters *stats.Counters
	journal  *journal
	recent   *stats.Recent
	turn     int        // drops in this turn
	fate     stats.Fate // of the datagram that the Relay is receiving
}

// has notes a fate of the datagram that the Relay is receiving.
func (l *dropLog) has(f stats.Fate) { l.fate = max(l.fate, f) }

// add is count for the datagram that the Relay is receiving.
func (l *dropLog) add(now time.Time, d dropped) {
	l.has(stats.FateDropped)
	l.count(now, d)
}

// passes adds a drop if a datagram has a fault. It reports whether there is none.
func (l *dropLog) passes(now time.Time, at *listener, from netip.AddrPort, size int, f admission.Fault) bool {
	if f.Drops {
		l.add(now, dropped{f.Why, at, from, size, f.Err})
	}
	return !f.Drops
}

// shed drops a stranger's datagram because the loop is overloaded. The first of many is logged as any drop is. The
// others are only counted, since this path must be the cheapest.
func (l *dropLog) shed(now time.Time, b *admission.Backlog, listener *listener, from netip.AddrPort, size int) {
	if b.Tell() {
		l.add(now, dropped{stats.DropOverload, listener, from, size, nil})
		return
	}
	l.turn++
	l.has(stats.FateDropped)
	l.counters.Drops[stats.DropOverload]++
	listener.drops.Drops[stats.DropOverload]++
	l.journal.lines.suppressed[stats.DropOverload]++
}

// errMaxMessage names the key that ended a session.
var errMaxMessage = errors.New("a message beyond max_message of its protocol")

// countGiant counts a message that was too large, and so ended its connection.
func (l *dropLog) countGiant(now time.Time, e *Entry, why codec.Reason) {
	if why == codec.Overflow {
		l.count(now, dropped{stats.DropMaxMessage, e.Value.listener, e.Key.Client, 0, errMaxMessage})
	}
}

// count counts a drop, remembers it, and logs it within the journal's limits.
func (l *dropLog) count(now time.Time, d dropped) {
	l.turn++
	l.counters.Drops[d.why]++
	d.at.drops.Drops[d.why]++
	if d.err != errListPing && (l.turn < mostRemembered || l.turn%rememberedOf == 0) {
		l.recent.Add(now, d.why, d.at.name, d.from, d.size, d.err)
	}
	l.journal.drop(now, d.why, d.at.name, d.from, d.size, d.err)
}

// lineKind is the subject of a log line: a stats.Drop, or one of the kinds below.
type lineKind uint8

// Kinds of lines in addition to drops.
const (
	lineJoined = lineKind(stats.DropCount) + iota
	lineEnded
	lineFailed // the end of a session that was never established
	lineNoJoin // a join of NetherNet that came to nothing
	lineBanned
	linePaced // as rare as lines about a drop
	lineKinds
)

// dropLogEvery and dropLogBurst bound the lines about one kind of drop: a flood must not fill the disk.
const (
	dropLogEvery = 5 * time.Second
	dropLogBurst = 3
)

// sessionLogEvery and sessionLogBurst bound the lines of each kind about sessions. Ten thousand clients may join and
// leave in an hour.
const (
	sessionLogEvery = 20 * time.Millisecond
	sessionLogBurst = 1000
)

// sourceLog bounds the lines of one kind about one network of sources, in lines per minute. So no network takes all
// lines of a kind.
var sourceLog = ratelimit.Rate{PerSecond: 60, Burst: 60}

// dropSourceLog is the same bound for lines about drops.
var dropSourceLog = ratelimit.Rate{PerSecond: 1, Burst: 2}

// catchUpAfter is the longest time until suppressed lines are reported, if no further line of their kind reports
// them.
const catchUpAfter = time.Minute

// logLimiter decides which lines are written, and counts the suppressed ones. Its memory does not grow.
type logLimiter struct {
	start      time.Time
	limits     [lineKinds]ratelimit.Limiter
	suppressed [lineKinds]uint64 // since the last line of the kind
	sources    *ratelimit.HashedBuckets
	due        time.Time // when suppressed lines are reported; zero: there are none
}

func newLogLimiter(now time.Time, seed uint64) logLimiter {
	h := logLimiter{start: now, sources: ratelimit.NewHashedBuckets(seed)}
	for i := range h.limits {
		h.limits[i] = ratelimit.Limiter{Every: sessionLogEvery, Burst: sessionLogBurst}
		if lineKind(i).isDrop() {
			h.limits[i] = ratelimit.Limiter{Every: dropLogEvery, Burst: dropLogBurst}
		}
	}
	return h
}

func (k lineKind) isDrop() bool {
	return k < lineKind(stats.DropCount) || k == lineFailed || k == lineNoJoin || k == linePaced
}

// allow reports whether a line about a source may be written. If so, it returns how many lines of its kind were
// suppressed since the last one.
func (h *logLimiter) allow(now time.Time, k lineKind, from netip.Addr) (suppressed uint64, ok bool) {
	// The kind is checked first. In a flood it refuses most lines, and its state is in the processor's caches.
	if h.limits[k].Spent(now) || !h.hears(now, k, from) || !h.limits[k].Allow(now) {
		h.suppressed[k]++
		if h.due.IsZero() {
			h.due = now.Add(catchUpAfter)
		}
		return 0, false
	}
	suppressed, h.suppressed[k] = h.suppressed[k], 0
	return suppressed, true
}

// hears reports whether a source's network may have a line of a kind, and counts the line if so.
func (h *logLimiter) hears(now time.Time, k lineKind, from netip.Addr) bool {
	rate, minutes := sourceLog, now.Sub(h.start)/60
	if k.isDrop() {
		rate = dropSourceLog
	}
	return h.sources.OfKind(source.Of(from).Network(), uint8(k)).Take(minutes, rate, 1)
}

// String returns the subject of the lines.
func (k lineKind) String() string {
	switch k {
	case lineJoined:
		return "session established"
	case lineEnded:
		return "session ended"
	case lineFailed:
		return "session never established"
	case lineNoJoin:
		return "join failed"
	case lineBanned:
		return "ban imposed"
	case linePaced:
		return "server's pace"
	}
	return stats.Drop(k).String()
}
