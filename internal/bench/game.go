package bench

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
)

// game is a server of a protocol that says every message back.
type game struct {
	*crowd
	house   *house
	stopped atomic.Bool
	done    chan struct{}
	guests  uint16
}

func startGame(p codec.Protocol) (*game, error) {
	g := &game{done: make(chan struct{})}
	var err error
	if g.crowd, err = newCrowd(g.heed); err != nil {
		return nil, err
	}
	if g.house, err = g.open(p, netio.SocketOptions{ReceiveBuffer: 8 << 20, SendBuffer: 8 << 20}); err != nil {
		g.close()
		return nil, err
	}
	go g.run()
	return g, nil
}

func (g *game) addr() netip.AddrPort { return g.house.socket.Addr() }

func (g *game) run() {
	defer close(g.done)
	for !g.stopped.Load() && g.turn(time.Time{}) == nil {
	}
}

func (g *game) heed(e *entry, ev *codec.Event) {
	switch ev.Kind {
	case codec.Asked:
		g.guests++
		e.Value.conn.Admit(g.now, g.guests)
	case codec.Received:
		m := ev.Message
		m.Receipt = 0
		_ = e.Value.conn.Send(g.now, m) // a reply that finds no room is lost, and counted by the client
	}
}

func (g *game) stop() {
	g.stopped.Store(true)
	g.poller.Wake()
	<-g.done
	g.close()
}

// gameLoad is players who send messages.
type gameLoad struct {
	*traffic
	*crowd
	speaks  codec.Protocol
	form    form
	to      netip.AddrPort
	wanted  int // players
	players []*entry
	next    int // player who sends next
	said    int // how much it has said at a time
	playing int
	left    int          // players who lost their connection
	why     codec.Reason // of the last of them
	idle    bool         // they are to say nothing
	message []byte
}

// messagesInFlight is how many messages are under way at once where there is no timetable.
const messagesInFlight = 256

// newGameLoad makes players of a subject at an address, who are yet to join.
func newGameLoad(p codec.Protocol, players, size int, to netip.AddrPort) (*gameLoad, error) {
	l := &gameLoad{
		traffic: newTraffic(messagesInFlight), speaks: p, form: formOf(p), message: make([]byte, size), to: to, wanted: players,
	}
	var err error
	l.crowd, err = newCrowd(l.heed)
	return l, err
}

// crowded has more under way than is usual, of which each takes its time, and players say several messages at a time. 0 changes
// nothing.
func (l *gameLoad) crowded(flight, burst int) {
	if flight > 0 {
		l.flight = flight
		l.patience = max(l.patience, time.Duration(flight)*slowMessage)
	}
	l.burst = max(burst, 1)
}

// slowMessage is how long a slow subject takes for a message and its answer.
const slowMessage = 200 * time.Microsecond

func (l *gameLoad) books() *traffic { return l.traffic }

func (l *gameLoad) heed(_ *entry, ev *codec.Event) {
	switch ev.Kind {
	case codec.Connected:
		l.playing++
	case codec.Received:
		l.traffic.now = l.crowd.now
		l.form.stamps(ev.Payload, l.read)
	case codec.Disconnected:
		l.left++
		l.why = ev.Reason
	}
}

// firstWords is how many messages everybody says before what is said counts: connections get their memory with them.
const firstWords = 8

// greet has all players join, a few at a time, and those who are to play say their first words.
func (l *gameLoad) greet() error {
	for i := range l.wanted {
		e, err := l.come(l.speaks, l.to, uint64(i))
		if err != nil {
			return fmt.Errorf("player %d: %w", i, err)
		}
		l.players = append(l.players, e)
		if err := l.await(len(l.players) - joinsInFlight); err != nil {
			return err
		}
	}
	if err := l.await(l.wanted); err != nil {
		return err
	}
	for range firstWords * l.wanted {
		if l.idle {
			break
		}
		for l.inFlight >= l.flight {
			if err := l.turn(time.Now().Add(lostAfter / 5)); err != nil {
				return err
			}
			l.giveUp()
		}
		l.send(time.Now())
	}
	for quiet := time.Now().Add(300 * time.Millisecond); time.Now().Before(quiet); {
		if err := l.turn(quiet); err != nil {
			return err
		}
	}
	return nil
}

// await waits until so many are connected, who have at most joinTime from one to the next.
func (l *gameLoad) await(players int) error {
	const joinTime = 5 * time.Second
	for n, give := l.playing, time.Now().Add(joinTime); l.playing < players; {
		if err := l.turn(give); err != nil {
			return err
		}
		if time.Now().After(give) {
			return fmt.Errorf("%d of %d players are connected, and no more can", l.playing, l.wanted)
		}
		if l.playing > n {
			n, give = l.playing, time.Now().Add(joinTime)
		}
	}
	return nil
}

func (l *gameLoad) send(at time.Time) {
	e := l.players[l.next]
	if l.said++; l.said >= l.burst {
		l.next, l.said = (l.next+1)%len(l.players), 0
	}
	l.stamp(l.message[l.form.head:], at)
	_ = e.Value.conn.Send(l.crowd.now, l.form.message(l.message)) // what finds no room is lost, and counted as that
	l.mark(e)
}

func (l *gameLoad) turn(until time.Time) error {
	err := l.crowd.turn(until)
	l.traffic.now = l.crowd.now
	if err == nil {
		err = l.interruption.err()
	}
	if err == nil && l.left > 0 {
		err = fmt.Errorf("%d of %d players are connected, %d were thrown out: %v", l.playing-l.left, l.wanted, l.left, l.why)
	}
	return err
}
