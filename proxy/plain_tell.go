package proxy

import (
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
)

func (j *journal) plainEstablished(now time.Time, e *plainEntry) {
	suppressed, ok := j.lines.allow(now, lineJoined, e.Key.Client.Addr())
	if !ok {
		return
	}
	p := &e.Value
	j.log.Info().Str("listener", p.door.name).Str("client", j.player(e.Key.Client)).Str("protocol", p.protocol.Spec().Name).
		Str("upstream", p.route.Upstream.Name).Stringer("server", p.server.Addr).Str("mode", "relay").
		Int64("took_ms", now.Sub(p.opened).Milliseconds()).Uint64("suppressed", suppressed).Msg("session established")
}

// plainEnded writes the one line that an established session leaves behind.
func (j *journal) plainEnded(now time.Time, e *plainEntry, blame stats.Party, why codec.Reason) {
	suppressed, ok := j.lines.allow(now, lineEnded, e.Key.Client.Addr())
	if !ok {
		return
	}
	p := &e.Value
	j.log.Info().Str("listener", p.door.name).Str("client", j.player(e.Key.Client)).Str("protocol", p.protocol.Spec().Name).
		Str("upstream", p.route.Upstream.Name).Stringer("server", p.server.Addr).Str("mode", "relay").
		Str("reason", why.String()).Stringer("by", blame).Int64("lasted_ms", now.Sub(p.opened).Milliseconds()).
		Uint64("datagrams_up", p.up.Messages).Uint64("bytes_up", p.up.Bytes).
		Uint64("datagrams_down", p.down.Messages).Uint64("bytes_down", p.down.Bytes).
		Uint64("suppressed", suppressed).Msg("session ended")
}

// notForwarded tells, now and then, why the kernel does not carry a session that it may.
func (j *journal) notForwarded(now time.Time, e *plainEntry, err error) {
	if j.ways.Allow(now) {
		j.log.Info().Str("listener", e.Value.door.name).Str("client", j.player(e.Key.Client)).Err(err).
			Msg("session stays in user space")
	}
}

// plainSession is a session in ModeRelay as a Snapshot has it. Its traffic is datagrams, and of their senders' protocol
// nothing else is known.
func plainSession(now time.Time, e *plainEntry) Session {
	p := &e.Value
	return Session{
		ID:               p.serial,
		Listener:         p.door.name,
		Route:            p.route.Name,
		Client:           e.Key.Client,
		Server:           p.server.Addr,
		ClientProtocol:   p.protocol.Spec().Name,
		UpstreamProtocol: p.route.Upstream.Protocol.Spec().Name,
		Age:              now.Sub(p.opened),
		Established:      p.established,
		Relayed:          true,
		Forwarded:        p.shortcut != nil,
		FromClient:       p.up,
		FromUpstream:     p.down,
	}
}
