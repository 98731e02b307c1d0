package proxy

import (
	"net/netip"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// journal writes a Relay's log: a line for the beginning and end of each session, and lines about drops. The lines of
// each kind and source are bounded.
type journal struct {
	log   zerolog.Logger
	hide  bool // log the networks of clients, not their addresses
	lines logLimiter

	forwarding ratelimit.Limiter // for lines about sessions that the kernel does not forward
}

func newJournal(now time.Time, log zerolog.Logger, hide bool, seed uint64) journal {
	return journal{
		log: log, hide: hide, lines: newLogLimiter(now, seed),
		forwarding: ratelimit.Limiter{Every: dropLogEvery, Burst: dropLogBurst},
	}
}

// drop logs a drop, within the limits of its kind and source. size is in bytes.
func (j *journal) drop(now time.Time, why stats.Drop, listener string, from netip.AddrPort, size int, err error) {
	suppressed, ok := j.lines.allow(now, lineKind(why), from.Addr())
	if !ok {
		return
	}
	e := j.log.Warn()
	if why == stats.DropDuplicate || why == stats.DropWindow || why == stats.DropUnexpected {
		e = j.log.Debug() // an honest client on a bad network causes these
	}
	e.Str("reason", why.String()).Str("listener", listener).Str("address", j.player(from)).Int("bytes", size).
		Uint64("suppressed", suppressed).AnErr("error", err).Msg("dropped")
}

func (j *journal) established(now time.Time, e *entry) {
	suppressed, ok := j.lines.allow(now, lineJoined, e.Key.Client.Addr())
	if !ok {
		return
	}
	j.line(e).Int64("took_ms", now.Sub(e.Value.opened).Milliseconds()).Uint64("suppressed", suppressed).
		Msg("session established")
}

// line begins a line about a session.
func (j *journal) line(e *entry) *zerolog.Event {
	p, server := &e.Value, "" // no server was chosen
	if p.server != nil {
		server = p.server.Addr.String()
	}
	line := j.log.Info().Str("listener", p.listener.name).Str("client", j.player(e.Key.Client)).
		Str("protocol", p.protocol.Spec().Name).Str("upstream", p.route.Upstream.Name).Str("server", server)
	if p.isRelayed() {
		line.Str("mode", "relay")
	}
	return line
}

// ended writes the line about a session's end.
func (j *journal) ended(now time.Time, e *entry, blame stats.Party, why codec.Reason) {
	p, kind, unit := &e.Value, lineFailed, "messages"
	if p.established {
		kind = lineEnded
	}
	suppressed, ok := j.lines.allow(now, kind, e.Key.Client.Addr())
	if !ok {
		return
	}
	if p.isRelayed() {
		unit = "datagrams"
	}
	j.line(e).Str("reason", why.String()).Stringer("by", blame).Int64("lasted_ms", now.Sub(p.opened).Milliseconds()).
		Uint64(unit+"_up", p.fromClient.Messages).Uint64("bytes_up", p.fromClient.Bytes).
		Uint64(unit+"_down", p.fromServer.Messages).Uint64("bytes_down", p.fromServer.Bytes).
		Uint64("suppressed", suppressed).Msg("session ended")
}

// notForwarded logs why the kernel does not forward a session, within a limit.
func (j *journal) notForwarded(now time.Time, e *entry, err error) {
	if j.forwarding.Allow(now) {
		j.log.Info().Str("listener", e.Value.listener.name).Str("client", j.player(e.Key.Client)).Err(err).
			Msg("session stays in user space")
	}
}

// banned logs an automatic ban.
func (j *journal) banned(now time.Time, e *entry, ban *ratelimit.Ban) {
	suppressed, ok := j.lines.allow(now, lineBanned, e.Key.Client.Addr())
	if !ok {
		return
	}
	j.log.Warn().Str("listener", e.Value.listener.name).Str("client", j.player(e.Key.Client)).Str("reason", ban.Reason).
		Time("until", ban.Until).Int("times", ban.Times).Uint64("suppressed", suppressed).Msg("banned")
}

// player returns a client's address as logs show it.
func (j *journal) player(addr netip.AddrPort) string {
	if !j.hide {
		return addr.String()
	}
	ip, bits := addr.Addr().Unmap(), 24
	if ip.Is6() {
		bits = 48
	}
	network, err := ip.Prefix(bits)
	if err != nil || !network.IsValid() {
		return "hidden"
	}
	return network.String()
}

// held logs that a session has lost its server and is kept.
func (j *journal) held(e *entry, why codec.Reason) {
	p := &e.Value
	j.log.Info().Str("listener", p.listener.name).Str("client", j.player(e.Key.Client)).
		Str("upstream", p.route.Upstream.Name).Stringer("server", p.server.Addr).Str("reason", why.String()).
		Msg("session held")
}

// regained logs that a server has taken a held or moved session. client is the server's ID for the client, if its
// protocol has IDs.
func (j *journal) regained(e *entry, held time.Duration, client uint16) {
	p := &e.Value
	j.log.Info().Str("listener", p.listener.name).Str("client", j.player(e.Key.Client)).
		Str("upstream", p.route.Upstream.Name).Stringer("server", p.server.Addr).Int64("took_ms", held.Milliseconds()).
		Uint16("client_id", client).Bool("same_id", client == p.id).Msg("session regained")
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
