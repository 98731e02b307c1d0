package rtype

import (
	"time"

	"tidegate/codec"
)

// The last networked game has a handshake of its own, the lobby:
//
//	client  00               opens
//	server  05, index, name  each component
//	server  06, count        how many the client uses, big-endian; every lobbyTick until it starts
//	client  01, index        has no use for a component, and is not told of it any more
//	client  02               starts: from now on it is told the world
//
// A client counts three 06 at least and starts once the count is that of the components it knows.
// docs/protocols/rtype.md#last-game
const (
	openLobby     = 0x00
	ignoreOpcode  = 0x01
	startOpcode   = 0x02
	nameOpcode    = 0x05
	countOpcode   = 0x06
	ignoreLen     = 3
	lobbyTick     = 500 * time.Millisecond
	lobbyTimeout  = 30 * time.Second // of a client that says nothing more
	silentTellers = 4                // how often names are repeated to a client that has not answered
	lateTellers   = 4                // and to one that has started
	startAfter    = 8                // rounds with one that has, before its start counts as lost: it says it once
)

// lobby is how far a client of the last game is on its way into the world.
type lobby struct {
	arrived bool // it counts as connected
	started bool
	heard   bool      // the client has answered
	told    int       // how often the names went out
	rounds  int       // of these since the client has answered
	next    time.Time // when the count is due again; zero: not
	ignored [256 / 64]uint64
}

func (l *lobby) ignores(component uint16) bool {
	return component < 256 && l.ignored[component/64]&(1<<(component%64)) != 0
}

// hides reports whether the client is not told an instruction: it ignores the component, or has not started.
func (s *server) hides(in *instruction) bool {
	if !s.format.isFinal() {
		return false
	}
	return !s.lobby.started || in.op >= attach && in.op <= detach && s.lobby.ignores(in.component)
}

// receiveLobby takes what only clients of the last game say.
func (s *server) receiveLobby(now time.Time, d []byte) error {
	switch {
	case len(d) == 1 && d[0] == openLobby:
		if s.lobby.told > 0 && !s.lobby.started && now.Sub(s.restored) >= lobbyTick/5 {
			s.restored = now
			s.tellNames(now)
		}
		return codec.ErrDuplicate
	case len(d) == ignoreLen && d[0] == ignoreOpcode:
		return s.ignore(now, le.Uint16(d[1:]))
	case len(d) == 1 && d[0] == startOpcode:
		return s.startGame(now)
	}
	return errOpcode
}

// ignore takes a component from the client's world, and tells it the new count, as the game's server does. What no
// component has is the client's proof, see secret.go.
func (s *server) ignore(now time.Time, component uint16) error {
	known := int(component) < len(s.initial.names)
	if !known && !s.secret.take(component) {
		return errComponent
	}
	if !s.rate.allow(now) {
		return errRate
	}
	s.lobby.heard = true
	s.hear(now)
	if s.secret.proved {
		s.arrive()
	}
	if known {
		s.lobby.ignored[component/64] |= 1 << (component % 64)
		s.tellCount()
	}
	return nil
}

// arrive reports that the client is there: it has started, or proved its address before the server was asked.
func (s *server) arrive() {
	if !s.lobby.arrived {
		s.lobby.arrived = true
		s.events.Push(codec.Event{Kind: codec.Connected})
	}
}

// startGame tells the client the world. A client that starts again has begun anew.
func (s *server) startGame(now time.Time) error {
	switch {
	case !s.initial.known():
		return codec.ErrUnexpected
	case s.lobby.started && (now.Sub(s.restored) < minReplayed || s.secret.isFresh(now)):
		return codec.ErrDuplicate
	}
	s.hear(now)
	s.lobby.started, s.lobby.heard, s.lobby.rounds = true, true, 0
	s.arrive()
	s.restore(now)
	return nil
}

// tellNames queues the components, and those that nobody has: a client says that it has no use for these.
func (s *server) tellNames(now time.Time) {
	s.lobby.told++
	for i := range s.initial.names {
		s.tellName(uint16(i), s.initial.names[i])
	}
	for i := range s.secret.indexes {
		if s.secret.awaits(i) {
			s.tellName(s.secret.indexes[i], secretNames[i])
		}
	}
	if !s.lobby.started {
		s.tellCount()
	}
	s.lobby.next = now.Add(lobbyTick)
}

func (s *server) tellName(index uint16, name []byte) {
	if s.hasRoom(3 + len(name)) {
		s.out.end(append(le.AppendUint16(append(s.out.begin(), nameOpcode), index), name...), true)
	}
}

// tellCount queues how many components the client uses.
func (s *server) tellCount() {
	n := len(s.initial.names)
	for i := range s.initial.names {
		if s.lobby.ignores(uint16(i)) {
			n--
		}
	}
	if s.initial.known() && s.hasRoom(3) {
		s.out.end(be.AppendUint16(append(s.out.begin(), countOpcode), uint16(n)), true)
	}
}

// lobbyDue repeats the count, and the names with it: a lost one would keep the client from starting for ever. So would
// its own lost start. One that has started may still lack names: it only counts.
func (s *server) lobbyDue(now time.Time) {
	if s.lobby.next.IsZero() || now.Before(s.lobby.next) {
		return
	}
	if s.lobby.heard {
		s.lobby.rounds++
	}
	switch {
	case s.lobby.started && s.lobby.rounds > lateTellers:
		s.lobby.next = time.Time{}
		return
	case !s.lobby.started && s.lobby.rounds > startAfter && s.startGame(now) == nil:
		return
	}
	if s.lobby.heard || s.lobby.told < silentTellers {
		s.tellNames(now)
		return
	}
	if !s.lobby.started {
		s.tellCount()
	}
	s.lobby.next = now.Add(lobbyTick)
}
