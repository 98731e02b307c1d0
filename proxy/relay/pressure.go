package relay

import (
	"time"

	"tidegate/codec"
)

// The Relay slows a side that sends more than the other side takes, where its protocol can do that. From half of the
// other side's queue on, its messages are acknowledged late. From three quarters on, they are refused. The messages
// that still come find room, and so do messages behind a lost one. So a game server may send a whole world to a slow
// client at once, as it may without a proxy. The rest of the world waits in the server's own queue.
const (
	hesitateAt = 0.5
	refuseAt   = 0.75
)

// press sets the pressure on each side of a session whose other side was touched. It returns the sides with another
// pressure than before.
func (s *link) press(now time.Time, touched sides) (pressed sides) {
	limit, ends := float64(s.route.Bridge.Queue), s.life.isEnding()
	if s.upstream.up && touched != 0 && s.upstream.press(now, s.client.fill(limit)+s.upstream.waiting(limit), ends) {
		pressed |= serverSide
	}
	// The client is pressed also while the session has no server.
	if s.client.up && touched != 0 && s.client.press(now, s.upstream.fill(limit)+s.client.waiting(limit), ends) {
		pressed |= clientSide
	}
	if touched != 0 { // after each input, so that a restored session knows the same
		pressed |= s.tellRoundTrips()
	}
	return pressed | s.reflect(now)
}

// reflect shows each side the silence of the other one, where both protocols can. So the players and the servers decide
// how long they wait for each other. A server whose loss the Relay hides from its clients is not shown. It returns the
// sides with something to send.
func (s *link) reflect(now time.Time) (released sides) {
	client, ok := s.client.Conn.(codec.Reflector)
	server, both := s.upstream.Conn.(codec.Reflector)
	steady := ok && both && s.isSteady()
	up, down := steady && server.Reflects(), ok && s.route.Failover.Hold == 0 && client.Reflects()
	if ok && client.Reflect(steady && down && server.IsSilent(now), up) {
		released |= clientSide
	}
	if both && server.Reflect(up && client.IsSilent(now), down) {
		released |= serverSide
	}
	return released
}

// tellRoundTrips tells each side how far the other one is, where peers decide by the whole round trip. It returns the
// sides that were told another figure: their deadlines have moved.
func (s *link) tellRoundTrips() (told sides) {
	client, isClient := s.client.Conn.(codec.Relayer)
	server, isServer := s.upstream.Conn.(codec.Relayer)
	if !isClient && !isServer || !s.client.Live() || !s.upstream.Live() {
		return 0
	}
	if isServer && server.FarRTT(s.client.Conn.Stats().RTT) {
		told |= serverSide
	}
	far := time.Duration(0)
	switch {
	case isClient && isServer:
		far = server.ServerRTT()
	case isClient:
		far = s.upstream.Conn.Stats().RTT
	}
	if isClient && client.FarRTT(far) {
		told |= clientSide
	}
	return told
}

// mostWaiting is the largest share of a queue that messages without an earlier one count for. They must not refuse the
// earlier one while the queue is empty.
const mostWaiting = 0.5

// waiting returns the part of the other side's queue that the peer's messages will need when an earlier one comes.
func (s *side) waiting(limit float64) float64 {
	if t, ok := s.Conn.(codec.Throttler); ok && s.Live() {
		return min(float64(t.Waiting())/limit, mostWaiting)
	}
	return 0
}

// press sets the pressure on the side's peer, and reports whether it has changed. full is the fill of the other side.
func (s *side) press(now time.Time, full float64, ending bool) (changed bool) {
	level := codec.NoPressure
	switch {
	case ending || full < hesitateAt:
	case full < refuseAt:
		level = codec.Hesitate
	default:
		level = codec.Refuse
	}
	if level == s.pressure || !s.Live() {
		return false
	}
	t, ok := s.Conn.(codec.Throttler)
	if ok {
		s.pressure = level
		t.Throttle(now, level)
	}
	return ok
}

// fill returns how full the queue to the side's peer is, from 0 to 1. limit is the size of the queue where the
// protocol does not know it.
func (s *side) fill(limit float64) float64 {
	if !s.Live() {
		return 0
	}
	waiting, copied := s.Fill(limit)
	if t, ok := s.Conn.(codec.Throttler); ok {
		return max(waiting+t.Fill(), copied) // the connection has the messages of the copies, too
	}
	return max(waiting+float64(s.Conn.Stats().Queued)/limit, copied)
}
