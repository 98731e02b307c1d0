package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/record"
	"tidegate/proxy/bridge"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/relay/saved"
	"tidegate/proxy/stats"
)

// restoreTerminated restores the second part of a session whose first part is whole. at stands for the moment of
// saving.
func restoreTerminated(r *Relay, at time.Time, s *link, body []byte) (*terminated, *saved.Terminated, error) {
	v := new(saved.Terminated)
	if err := record.ReadAt(at, body, v); err != nil {
		return nil, nil, err
	}
	if err := check(v, s); err != nil {
		return nil, nil, err
	}
	t := &terminated{
		kept:   v.Kept,
		bridge: bridgeOf(s), dialBy: v.DialBy.Time(at), expires: v.Expires.Time(at),
		hello: v.Hello, knownClients: v.KnownClients, rates: r.guard.Rules().Remember(at, timesOf(at, v.Rates)),
		trust:     v.Trust.Trust,
		sampleDue: v.SampleDue.Time(at).Sub(r.samples.born), askedAt: v.AskedAt.Time(at).Sub(r.born),
		choked: v.Choked, searches: v.Searches,
		why: v.Why, blame: v.Blame,
	}
	t.trust.Bucket = bucketOf(at, r.sockets.allowance.Born(), v.Trust.Bucket)
	if v.Earlier != nil {
		t.earlier = &earlier{preamble: restorePreamble(v.Earlier.Preamble), back: v.Earlier.Back}
	}
	if h := v.Hold; h != nil {
		t.hold = &hold{
			since: h.Since.Time(at), until: h.Until.Time(at), next: h.Next.Time(at), to: h.To,
			departure: departure{h.Limit.Time(at), h.Acked.Time(at), h.Heard.Time(at)},
		}
	}
	var err error
	if t.client, err = restoreSide(at, &v.Client, s.protocol, nil); err != nil {
		return nil, nil, err
	}
	var from codec.Addresser
	if s.socket != nil {
		from = s.socket
	}
	if t.upstream, err = restoreSide(at, &v.Upstream, s.route.speaks, from); err != nil {
		return nil, nil, err
	}
	if v.Admitted {
		t.origin = serversID // unless the first part says that it is the Relay's
	}
	s.life = lifeOf(v, s)
	if err := t.checkConns(v.Ahead); err != nil {
		return nil, nil, err
	}
	return t, v, nil
}

// check holds a record to the bounds of a session. p is its first part.
func check(v *saved.Terminated, s *link) error {
	switch {
	case len(v.Client.Conn) == 0:
		return unusable("client's connection", "missing")
	case v.Earlier != nil && s.socket == nil:
		return unusable("socket to the server", "missing")
	case int(v.Why) >= codec.ReasonCount || v.Blame >= stats.Parties:
		return unusable("reason", v.Why)
	case v.Hello.Pad > 7 || len(v.Hello.Data) > maxLate:
		return unusable("size of the client's data", len(v.Hello.Data))
	case len(v.KnownClients) > 1<<16 || v.Place < 0 || len(v.Closing) > maxClosing:
		return unusable("number of known clients", len(v.KnownClients))
	case v.Client.Pressure > codec.Refuse || v.Upstream.Pressure > codec.Refuse:
		return unusable("pressure", v.Upstream.Pressure)
	}
	if err := keptBytes(v.Kept).check(); err != nil {
		return err
	}
	h := v.Hold
	if h == nil {
		return nil
	}
	if h.Phase > uint8(leaving-seeking) || h.Phase != 0 && (len(v.Upstream.Conn) == 0 || s.socket == nil) {
		return unusable("phase of a move", h.Phase)
	}
	return nil
}

// lifeOf returns the state of a session by its record. The first part has said whether it has joined.
func lifeOf(v *saved.Terminated, s *link) life {
	switch {
	case v.Ending:
		return s.life.ended()
	case v.Hold != nil:
		return seeking + life(v.Hold.Phase)
	case s.life == joined:
		return joined
	case v.Ahead:
		return asking
	case len(v.Upstream.Conn) > 0 || v.DialBy != 0:
		return dialing
	}
	return opening
}

// checkConns checks that the connections have the features that the state needs.
func (t *terminated) checkConns(ahead bool) error {
	if !ahead {
		return nil
	}
	_, defers := t.client.Conn.(codec.Deferrer)
	_, introduces := t.upstream.Conn.(codec.Introducer)
	if !defers || t.upstream.Conn != nil && !introduces {
		return unusable("server asked ahead", ahead)
	}
	return nil
}

func restoreSide(at time.Time, v *saved.Side, protocol codec.Protocol, from codec.Addresser) (side, error) {
	sender, err := v.Sender.Restore()
	if err != nil {
		return side{}, err
	}
	s := side{Sender: sender, up: v.Up, pressure: v.Pressure, sampled: v.Sampled}
	if len(v.Conn) > 0 {
		s.Conn, err = protocol.Restore(at, from, v.Conn)
	}
	return s, err
}

// bridgeOf returns the bridge of a session: its listener's, if the listener still has the session's route.
func bridgeOf(s *link) *bridge.Bridge {
	if s.listener.route == s.route {
		if entry := s.listener.entryOf(s.protocol); entry != nil {
			return entry.bridge
		}
	}
	return bridge.New(s.protocol, s.route.Upstream.Protocol, &s.route.Bridge)
}

func timesOf(at time.Time, moments []record.Moment) []time.Time {
	times := make([]time.Time, len(moments))
	for i, m := range moments {
		times[i] = m.Time(at)
	}
	return times
}

// recallMeter sets the buckets of a session, its address and its network to those of a record.
func recallMeter(now time.Time, g *admission.Guard, m *admission.Meter, v *saved.Meter) {
	own, address, network := m.Buckets()
	recallBuckets(now, g.Start(), own, v.Own)
	if address != nil {
		recallBuckets(now, g.Start(), address, v.Address)
		recallBuckets(now, g.Start(), network, v.Network)
	}
}

// recallBuckets sets buckets to those of a record, where these are used up longer.
func recallBuckets(now, start time.Time, buckets *admission.Buckets, all []record.Moment) {
	for i := range min(len(all), len(buckets)) {
		buckets[i] = max(buckets[i], bucketOf(now, start, all[i]))
	}
}

// complete restores the pending part of a session. It reports whether the session is whole then. A record that cannot
// be used ends its session.
func complete(r *Relay, now time.Time, e *Entry) bool {
	s := &e.Value
	if !s.isPending() {
		return true
	}
	t := s.pending.restored
	if t == nil {
		var err error
		if t, err = restoreCalm(r, s.pending.at, s, s.pending.body); err != nil {
			discard(r, now, e, err)
			return false
		}
	}
	t.pending = nil
	if t.id = s.id; s.origin == ownID {
		t.origin = ownID
	}
	*s.terminated = *t
	r.samples.add(s)
	r.dirty.mark(e)
	return true
}

// restoreCalm restores the second part of a session with nothing else under way.
func restoreCalm(r *Relay, at time.Time, s *link, body []byte) (*terminated, error) {
	t, _, err := restoreTerminated(r, at, s, body)
	if err == nil && (s.life != joined || !t.isCalm()) {
		err = unusable("state", "not established")
	}
	return t, err
}

// discard removes a pending session. Its peers hear nothing, since only the record knew their connections.
func discard(r *Relay, now time.Time, e *Entry, err error) {
	r.journal.of(r.journal.log.Error(), e).Err(err).Msg("session lost: its record is damaged")
	r.remove(now, e, stats.ByProxy, codec.Violation)
}
