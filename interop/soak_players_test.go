//go:build interop && soak && linux

package interop_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/endpoint"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
)

const (
	soakTick  = 20 * time.Millisecond
	soakPause = 500 * time.Millisecond // between two messages of a player
	soakLate  = 20 * time.Second       // a later echo is lost
	soakLarge = 40                     // one message in so many is large
	soakJoin  = 15 * time.Second       // a longer handshake has failed
)

// soakLoad says which players of one protocol come and go.
type soakLoad struct {
	protocol string
	stream   bool
	port     string
	host     string        // of the proxy; empty: 127.0.0.1
	from     netip.Addr    // of all players; zero: one of the loopback interface for each
	steady   int           // players that stay to the end
	joins    float64       // further players, a second
	largest  int           // bytes of a large message
	lossy    bool          // messages and sessions may be lost
	silent   bool          // players only listen
	pause    time.Duration // between two messages of a player; zero: soakPause
	stay     time.Duration // of further players; zero: 4 to 12 seconds
}

// soakBooks are the books of the players of one protocol.
type soakBooks struct {
	Joined, Left       int // players
	Failed             int // handshakes that failed
	Ended              int // sessions that the proxy ended
	Sent, Back         int // messages, and their echoes
	Missing, Doubled   int // echoes
	Disordered         int // echoes that came too early
	Heard              int // messages of a game, for players that only listen
	Datagrams, Unsent  uint64
	Reasons            map[string]int `json:",omitempty"` // of failed handshakes and ended sessions
	open               int
	slowest            time.Duration // handshake
	waited             waited        // since the last call of wait
	SlowestHandshakeMS int64
	LongestPauseMS     int64 // of the players' goroutine: a busy machine
}

// waited is the longest time of a message there and back, and the longest pause of the players themselves: a busy
// machine.
type waited struct {
	message, pause time.Duration
	of             string // the protocol of the message
}

func (w waited) String() string {
	return fmt.Sprintf("%v of %s (the players paused for %v)", w.message, w.of, w.pause)
}

// soakPlayers are the players of one protocol. One goroutine drives them.
type soakPlayers struct {
	soakLoad
	codec    codec.Protocol
	prefix   int
	to       netip.AddrPort
	ordered  bool
	rng      *rand.Rand
	endpoint *endpoint.Endpoint[*soakPlayer]
	players  []*soakPlayer
	began    time.Time
	settled  int // steady players so far
	came     int // others so far
	books    soakBooks
	leaving  atomic.Bool // all players leave
	stopped  atomic.Bool
	mu       sync.Mutex // guards the rest between turns
}

// soakPlayer is one player.
type soakPlayer struct {
	conn     *endpoint.Conn[*soakPlayer]
	dialed   time.Time
	speaks   time.Time            // when it sends the next message
	leaves   time.Time            // when it leaves; zero: at the end
	silent   time.Time            // when it stopped sending
	next     uint32               // number of the next message
	expected uint32               // number of the next echo, if they come in order
	awaited  map[uint32]time.Time // when each message was sent
	up, gone bool
	leaving  bool
	said     bool // goodbye
}

// newSoakPlayers begins to play.
func newSoakPlayers(t *testing.T, load soakLoad, seed uint64) *soakPlayers {
	t.Helper()
	d := protocols.Find(load.protocol)
	s := &soakPlayers{
		soakLoad: load, codec: d.NewCalm(registry.Use{Stream: load.stream, Seed: [32]byte{byte(seed)}}),
		to:  netip.MustParseAddrPort(net.JoinHostPort(cmp.Or(load.host, "127.0.0.1"), load.port)),
		rng: rand.New(rand.NewPCG(seed, 1)), began: time.Now(),
	}
	s.books.Reasons = make(map[string]int)
	s.ordered = s.codec.Spec().Modes.Has(codec.ReliableOrdered)
	if load.stream {
		s.prefix = d.Stream.Prefix
	}
	var err error
	if s.endpoint, err = endpoint.New(endpoint.Options[*soakPlayer]{Event: s.event}); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(s.run)
	t.Cleanup(func() {
		s.stopped.Store(true)
		s.endpoint.Wake()
		running.Wait()
		_ = s.endpoint.Close() // nothing can be lost any more
	})
	return s
}

// name names the players in the summary.
func (s *soakPlayers) name() string {
	if s.stream {
		return s.protocol + " tcp"
	}
	return s.protocol
}

// snapshot returns the books so far.
func (s *soakPlayers) snapshot() soakBooks {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.books
	b.SlowestHandshakeMS = b.slowest.Milliseconds()
	return b
}

// wait returns what the players have waited for since the last call.
func (s *soakPlayers) wait() waited {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.books.waited
	s.books.waited = waited{}
	return w
}

func (s *soakPlayers) run() {
	for last := time.Now(); !s.stopped.Load(); {
		now := time.Now()
		pause := now.Sub(last) - soakTick
		last = now
		s.mu.Lock()
		s.books.waited.pause = max(s.books.waited.pause, pause)
		s.books.LongestPauseMS = max(s.books.LongestPauseMS, pause.Milliseconds())
		s.play()
		sent := s.endpoint.Stats()
		s.books.Datagrams, s.books.Unsent = sent.Out.Datagrams, sent.WouldBlock+sent.TooLarge
		s.mu.Unlock()
		if s.endpoint.Turn(time.Now().Add(soakTick)) != nil {
			return
		}
	}
}

// play lets players come, speak and leave.
func (s *soakPlayers) play() {
	now := s.endpoint.Now()
	if !s.leaving.Load() {
		if s.settled < s.steady { // one a turn
			s.settled++
			s.dial(now, time.Time{})
		}
		for float64(s.came) < s.joins*time.Since(s.began).Seconds() {
			s.came++
			s.dial(now, now.Add(cmp.Or(s.stay, 4*time.Second+rand.N(8*time.Second))))
		}
	}
	left := s.players[:0]
	for _, p := range s.players {
		if s.step(now, p); !p.gone {
			left = append(left, p)
		}
	}
	clear(s.players[len(left):])
	s.players, s.books.open = left, len(left)
}

// dial lets a player come, from an address of its own.
func (s *soakPlayers) dial(now, leaves time.Time) {
	hello := codec.Hello{Identity: s.rng.Uint64() | 1}
	p := &soakPlayer{dialed: now, leaves: leaves, awaited: make(map[uint32]time.Time)}
	var err error
	if s.stream {
		p.conn, err = s.endpoint.DialStream(s.codec, s.to, hello, endpoint.StreamOptions{Prefix: s.prefix})
	} else {
		from := s.from
		if !from.IsValid() {
			from = netip.AddrFrom4([4]byte{127, byte(1 + s.rng.IntN(200)), byte(s.rng.IntN(250)), byte(1 + s.rng.IntN(250))})
		}
		p.conn, err = s.endpoint.Dial(s.codec, s.to, hello, endpoint.SocketOptions{Local: from})
	}
	if err != nil {
		s.books.Failed++
		s.books.Reasons[err.Error()]++
		return
	}
	p.conn.Value = p
	s.players = append(s.players, p)
}

// step runs one player's due work.
func (s *soakPlayers) step(now time.Time, p *soakPlayer) {
	switch {
	case p.gone || p.said:
	case !p.up:
		if now.Sub(p.dialed) > soakJoin {
			s.fail(p, "handshake too slow")
		}
	case p.leaving || !p.leaves.IsZero() && !now.Before(p.leaves) || s.leaving.Load():
		if !p.leaving {
			p.leaving, p.silent = true, now
		}
		if len(p.awaited) == 0 || now.Sub(p.silent) > soakLate {
			s.books.Missing += len(p.awaited)
			p.said = true
			p.conn.Close(now, codec.Goodbye{Reason: codec.Closed})
			s.endpoint.Touch(p.conn)
		}
	case !now.Before(p.speaks) && !s.silent:
		pause := cmp.Or(s.pause, soakPause)
		p.speaks = now.Add(pause/2 + rand.N(pause))
		s.speak(now, p)
	}
}

func (s *soakPlayers) fail(p *soakPlayer, why string) {
	s.books.Failed++
	s.books.Reasons[why]++
	p.gone = true
}

// speak sends one numbered message, with its length, since RUDP joins messages.
func (s *soakPlayers) speak(now time.Time, p *soakPlayer) {
	size := s.rng.IntN(200)
	if s.largest > 0 && s.rng.IntN(soakLarge) == 0 {
		size = s.largest
	}
	b := binary.BigEndian.AppendUint32([]byte{packetByte}, p.next)
	b = append(binary.BigEndian.AppendUint16(b, uint16(size)), make([]byte, size)...)
	m := codec.Message{Payload: b, Mode: codec.Unreliable, HasID: s.codec.Spec().IDs == codec.IDBeside}
	if m.HasID {
		m.ID = 7
	}
	for _, mode := range []codec.Mode{codec.ReliableOrdered, codec.Reliable} {
		if s.codec.Spec().Modes.Has(mode) {
			m.Mode = mode
			break
		}
	}
	if p.conn.Send(now, m) == nil {
		p.awaited[p.next] = time.Now()
		p.next++
		s.books.Sent++
	}
	s.endpoint.Touch(p.conn)
}

// event handles an event of a connection. It runs in a turn, and so beside snapshot.
func (s *soakPlayers) event(c *endpoint.Conn[*soakPlayer], e *codec.Event) {
	p := c.Value
	if p == nil {
		return // dialing
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e.Kind {
	case codec.Connected:
		p.up, p.speaks = true, s.endpoint.Now().Add(rand.N(cmp.Or(s.pause, soakPause)))
		s.books.Joined++
		s.books.slowest = max(s.books.slowest, s.endpoint.Now().Sub(p.dialed))
	case codec.Received:
		s.books.Heard++
		if !s.silent {
			s.hear(p, e.Payload)
		}
	case codec.Disconnected:
		switch {
		case p.said:
			s.books.Left++
		case p.up:
			s.books.Ended++
			s.books.Reasons[e.Reason.String()]++
		case !p.gone:
			s.fail(p, e.Reason.String())
		}
		p.gone = true
	}
}

// hear checks the echoes in a message.
func (s *soakPlayers) hear(p *soakPlayer, b []byte) {
	for len(b) >= 7 && b[0] == packetByte {
		number, size := binary.BigEndian.Uint32(b[1:]), int(binary.BigEndian.Uint16(b[5:]))
		sent, ok := p.awaited[number]
		delete(p.awaited, number)
		switch {
		case !ok:
			s.books.Doubled++
		case s.ordered && number != p.expected:
			s.books.Disordered++
			fallthrough
		default:
			s.books.waited.message = max(s.books.waited.message, time.Since(sent))
		}
		p.expected = number + 1
		s.books.Back++
		b = b[min(7+size, len(b)):]
	}
}

// forgedOnce is of how many messages or handshakes a forger may disturb one, as docs/security.md says.
const forgedOnce = 10000

// faults names what the books of a protocol must not have.
func (b *soakBooks) faults(s *soakPlayers) (all []string) {
	note := func(n int, what string) {
		if n > 0 {
			all = append(all, fmt.Sprintf("%s: %d %s %v", s.name(), n, what, b.Reasons))
		}
	}
	if !*soakHostile { // a forger can deliver messages of its own (docs/security/forgers.md), and the server echoes them
		note(b.Doubled, "echoes came twice, or were never asked for")
	}
	if b.Disordered > 0 && *soakHostile { // a forged message may take the place of one that the kernel has dropped
		b.Disordered = max(0, b.Disordered-1-b.Sent/forgedOnce)
	}
	note(b.Disordered, "echoes out of order")
	if s.lossy { // a busy machine costs such a protocol sessions and messages
		note(max(0, b.Ended+b.Failed-b.Joined/50-2), "sessions ended or failed, more than one of 50")
		note(max(0, b.Missing-b.Sent/100-2), "messages lost, more than one of 100")
		return all
	}
	note(b.Missing, "messages lost")
	note(b.Ended, "sessions ended by others")
	if *soakHostile { // a forger can end an attempt to connect
		b.Failed = max(0, b.Failed-1-b.Joined/forgedOnce)
	}
	note(b.Failed, "handshakes failed")
	if b.Joined == 0 || s.silent && b.Heard == 0 || !s.silent && b.Back == 0 {
		all = append(all, s.name()+": no player sent or heard a message")
	}
	return all
}

// soakServer is a game server of one protocol that returns every message.
type soakServer struct {
	endpoint *endpoint.Endpoint[struct{}]
	port     string
}

func startSoakServer(t *testing.T, protocol string) *soakServer {
	t.Helper()
	return startSoakServerAt(t, protocol, "127.0.0.1")
}

func startSoakServerAt(t *testing.T, protocol, host string) *soakServer {
	t.Helper()
	s := new(soakServer)
	var err error
	s.endpoint, err = endpoint.New(endpoint.Options[struct{}]{Event: func(c *endpoint.Conn[struct{}], e *codec.Event) {
		if e.Kind == codec.Received {
			m := e.Message
			m.Receipt = 0
			_ = c.Send(s.endpoint.Now(), m) // a missing echo shows
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	p := protocols.Find(protocol).NewCalm(registry.Use{Seed: [32]byte{1}})
	l, err := s.endpoint.Listen(p, netip.MustParseAddrPort(host+":0"), endpoint.SocketOptions{ReceiveBuffer: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s.port = portOf(t, l.Addr().String())
	var stopped atomic.Bool
	var running sync.WaitGroup
	running.Go(func() {
		for !stopped.Load() && s.endpoint.Turn(time.Time{}) == nil {
		}
	})
	t.Cleanup(func() {
		stopped.Store(true)
		s.endpoint.Wake()
		running.Wait()
		_ = s.endpoint.Close() // nothing can be lost any more
	})
	return s
}
