package rtype

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"time"

	"tidegate/codec"
)

// The last networked game has a handshake of its own, the lobby:
//
//	client  00               opens
//	server  05, index, name  each component
//	server  06, count        number of components that the client uses, big-endian; every lobbyTick until it starts
//	client  01, index        ignores a component, and gets no more instructions for it
//	client  02               starts: from now on it receives the world
//
// A client waits for at least three 06. It starts once the count equals the number of components that it knows.
// docs/protocols/rtype/wire.md#last-game
const (
	openLobby    = 0x00
	ignoreOpcode = 0x01
	startOpcode  = 0x02
	nameOpcode   = 0x05
	countOpcode  = 0x06
	ignoreLen    = 3
	lobbyTick    = 500 * time.Millisecond
	lobbyTimeout = 30 * time.Second // for a client that falls silent
	silentRounds = 4                // repetitions of the names for a client that has not answered
	lateRounds   = 4                // repetitions of the names for a client that has started
	startAfter   = 8                // rounds with an answering client before its only start counts as lost
)

// lobby says how far a client of the last game is in its handshake.
type lobby struct {
	arrived bool             `cbor:"1,keyasint,omitempty"` // the client counts as connected
	started bool             `cbor:"2,keyasint,omitempty"`
	heard   bool             `cbor:"3,keyasint,omitempty"` // the client has answered
	sent    int              `cbor:"4,keyasint,omitempty"` // how often the names were sent
	rounds  int              `cbor:"5,keyasint,omitempty"` // how often they were sent since the client has answered
	next    time.Time        `cbor:"6,keyasint,omitempty"` // when the count is due again; zero: never
	ignored [256 / 64]uint64 `cbor:"7,keyasint,omitempty"`
}

func (l *lobby) ignores(component uint16) bool {
	return component < 256 && l.ignored[component/64]&(1<<(component%64)) != 0
}

// hides reports whether an instruction is kept from the client, because it ignores the component or has not started.
func (s *server) hides(in *instruction) bool {
	if !s.format.isFinal() {
		return false
	}
	return !s.lobby.started || in.op >= attach && in.op <= detach && s.lobby.ignores(in.component)
}

// receiveLobby handles the messages that only clients of the last game send.
func (s *server) receiveLobby(now time.Time, d []byte) error {
	switch {
	case len(d) == 1 && d[0] == openLobby:
		if s.lobby.sent > 0 && !s.lobby.started && now.Sub(s.restored) >= lobbyTick/5 {
			s.restored = now
			s.sendNames(now)
		}
		return codec.ErrDuplicate
	case len(d) == ignoreLen && d[0] == ignoreOpcode:
		return s.ignore(now, le.Uint16(d[1:]))
	case len(d) == 1 && d[0] == startOpcode:
		return s.startGame(now)
	}
	return errOpcode
}

// ignore removes a component from the client's world, and sends it the new count, as the game's server does. A
// component of the secret is the client's proof, see lobby.go.
func (s *server) ignore(now time.Time, component uint16) error {
	known := int(component) < len(s.initial.Names)
	if !known && !s.secret.take(component) {
		return errComponent
	}
	if !s.rate.allow(now) {
		return errRate
	}
	s.lobby.heard = true
	s.markHeard(now)
	if s.secret.proved {
		s.arrive()
	}
	if !known || s.lobby.ignores(component) {
		return nil // the game's client says so again for each sixth count: an answer would go on for ever
	}
	s.lobby.ignored[component/64] |= 1 << (component % 64)
	if !s.lobby.started {
		s.sendCount()
	}
	return nil
}

// arrive reports Connected: the client has started, or has proved its address before the server was asked.
func (s *server) arrive() {
	if !s.lobby.arrived {
		s.lobby.arrived = true
		s.events.Push(codec.Event{Kind: codec.Connected})
	}
}

// startGame sends the client the world. A client that starts again gets it from the beginning.
func (s *server) startGame(now time.Time) error {
	switch {
	case !s.initial.known():
		return codec.ErrUnexpected
	case s.lobby.started && (now.Sub(s.restored) < minReplayed || s.secret.isFresh(now)):
		return codec.ErrDuplicate
	}
	s.markHeard(now)
	s.lobby.started, s.lobby.heard, s.lobby.rounds = true, true, 0
	s.arrive()
	s.restore(now)
	return nil
}

// sendNames queues the components, and those of the secret, which the client will ignore.
func (s *server) sendNames(now time.Time) {
	s.lobby.sent++
	for i := range s.initial.Names {
		if !s.lobby.ignores(uint16(i)) {
			s.tellName(uint16(i), s.initial.Names[i])
		}
	}
	for i := range s.secret.indexes {
		if s.secret.awaits(i) {
			s.tellName(s.secret.indexes[i], secretNames[i])
		}
	}
	if !s.lobby.started {
		s.sendCount()
	}
	s.lobby.next = now.Add(lobbyTick)
}

func (s *server) tellName(index uint16, name []byte) {
	if s.hasRoom(3 + len(name)) {
		s.out.end(append(le.AppendUint16(append(s.out.begin(), nameOpcode), index), name...), true)
	}
}

// sendCount queues the number of components that the client uses.
func (s *server) sendCount() {
	n := len(s.initial.Names)
	for i := range s.initial.Names {
		if s.lobby.ignores(uint16(i)) {
			n--
		}
	}
	if s.initial.known() && s.hasRoom(3) {
		s.out.end(be.AppendUint16(append(s.out.begin(), countOpcode), uint16(n)), true)
	}
}

// lobbyDue repeats the count and the names, since a lost name would keep the client from starting for ever. A lost
// start of the client would do the same. A client that has started may still lack names, because it only compares
// counts.
func (s *server) lobbyDue(now time.Time) {
	if s.lobby.next.IsZero() || now.Before(s.lobby.next) {
		return
	}
	if s.lobby.heard {
		s.lobby.rounds++
	}
	switch {
	case s.lobby.started && s.lobby.rounds > lateRounds:
		s.lobby.next = time.Time{}
		return
	case !s.lobby.started && s.lobby.rounds > startAfter && s.startGame(now) == nil:
		return
	}
	if s.lobby.heard || s.lobby.sent < silentRounds {
		s.sendNames(now)
		return
	}
	if !s.lobby.started {
		s.sendCount()
	}
	s.lobby.next = now.Add(lobbyTick)
}

// secretNames are names of components that no client has.
var secretNames = [2][]byte{[]byte("Tidegate.1"), []byte("Tidegate.2")}

// restartQuiet is how long a proved client must be silent before its hello counts, because the hello may be forged.
const restartQuiet = 10 * time.Second

// secret is a value that a server sends only to its client's address. A client that echoes it has proved its address:
//
//   - Clients of wide entities receive masked ones. They know entities by nothing else, and their updates name them.
//   - Clients of the last game receive two components that no client has. They answer that they ignore these.
//
// docs/protocols/rtype.md#proof
type secret struct {
	mask    uint32                   `cbor:"1,keyasint,omitempty"`
	indexes [len(secretNames)]uint16 `cbor:"2,keyasint,omitempty"` // of the two components; 0: none
	heard   [len(secretNames)]bool   `cbor:"3,keyasint,omitempty"`
	proved  bool                     `cbor:"4,keyasint,omitempty"`
	at      time.Time                `cbor:"5,keyasint,omitempty"` // time of the last proof
}

// newSecret returns the secret of a new client at an address. Without a seed there is none.
func (o *Options) newSecret(now time.Time, from netip.AddrPort) (s secret) {
	if o.Seed == [32]byte{} {
		return s
	}
	b := append(make([]byte, 0, 96), o.Seed[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(now.UnixNano()))
	b, _ = from.AppendBinary(b)
	sum := sha256.Sum256(b)
	s.mask = be.Uint32(sum[:])
	for i := range s.indexes {
		s.indexes[i] = be.Uint16(sum[4+2*i:]) | 0x100 // larger than any component
	}
	if s.indexes[1] == s.indexes[0] {
		s.indexes[1] ^= 1
	}
	return s
}

// awaits reports whether the client has yet to ignore component i of the secret.
func (s *secret) awaits(i int) bool { return s.indexes[i] != 0 && !s.heard[i] }

// take handles a component that the client ignores. It reports whether the component is one of the secret's.
func (s *secret) take(component uint16) bool {
	for i, index := range s.indexes {
		if index == component && index != 0 {
			s.heard[i] = true
			s.proved = s.proved || s.heard[0] && s.heard[1]
			return true
		}
	}
	return false
}

// prove records that the client has named an entity as only it was sent.
func (s *secret) prove(now time.Time) { s.proved, s.at = true, now }

// isFresh reports whether the client has proved its address recently.
func (s *secret) isFresh(now time.Time) bool { return !s.at.IsZero() && now.Sub(s.at) < restartQuiet }
