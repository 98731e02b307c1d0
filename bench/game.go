package bench

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"tidegate/codec"
	"tidegate/netio"
)

// game is a server of a protocol that says every message back.
type game struct {
	*crowd
	stopped atomic.Bool
	done    chan struct{}
	guests  uint16
}

func startGame(p codec.Protocol) (*game, error) {
	g := &game{done: make(chan struct{})}
	var err error
	if g.crowd, err = newCrowd(p, g.heed); err != nil {
		return nil, err
	}
	o := netio.SocketOptions{ReceiveBuffer: 8 << 20, SendBuffer: 8 << 20}
	if g.door, err = g.poller.Listen(netip.AddrPortFrom(home, 0), o); err != nil {
		_ = g.poller.Close() // the error that matters is the one before
		return nil, err
	}
	go g.run()
	return g, nil
}

func (g *game) addr() netip.AddrPort { return g.door.Addr() }

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
	_ = g.poller.Close()
}

// gameLoad is players who send messages.
type gameLoad struct {
	*traffic
	*crowd
	form    form
	players []*entry
	next    int // player who sends next
	playing int
	left    int  // players who lost their connection
	idle    bool // they are to say nothing
	message []byte
}

// messagesInFlight is how many messages are under way at once where there is no timetable.
const messagesInFlight = 256

// newGameLoad opens players of a subject at an address, who are not connected yet.
func newGameLoad(p codec.Protocol, players, size int, to netip.AddrPort) (*gameLoad, error) {
	l := &gameLoad{traffic: newTraffic(messagesInFlight), form: formOf(p), message: make([]byte, size)}
	var err error
	if l.crowd, err = newCrowd(p, l.heed); err != nil {
		return nil, err
	}
	for i := range players {
		e, err := l.join(to, uint64(i))
		if err != nil {
			l.close()
			return nil, fmt.Errorf("player %d: %w", i, err)
		}
		l.players = append(l.players, e)
		if i%listenBatch == 0 {
			if err := l.turn(time.Now().Add(time.Millisecond)); err != nil {
				l.close()
				return nil, err
			}
		}
	}
	return l, nil
}

func (l *gameLoad) books() *traffic { return l.traffic }

func (l *gameLoad) close() { _ = l.poller.Close() }

func (l *gameLoad) heed(_ *entry, ev *codec.Event) {
	switch ev.Kind {
	case codec.Connected:
		l.playing++
	case codec.Received:
		l.traffic.now = l.crowd.now
		l.form.stamps(ev.Payload, l.read)
	case codec.Disconnected:
		l.left++
	}
}

// firstWords is how many messages everybody says before what is said counts: connections get their memory with them.
const firstWords = 8

// greet waits until all are connected, and has all who are to play say their first words.
func (l *gameLoad) greet() error {
	for give := time.Now().Add(30 * time.Second); l.playing < len(l.players); {
		if err := l.turn(give); err != nil {
			return err
		}
		if l.left > 0 || time.Now().After(give) {
			return fmt.Errorf("%d of %d players are connected, %d were thrown out", l.playing, len(l.players), l.left)
		}
	}
	if !l.idle {
		for i := range firstWords * len(l.players) {
			l.send(l.begun) // which counts as of long ago
			if i%listenBatch != 0 {
				continue
			}
			if err := l.turn(time.Now().Add(time.Millisecond)); err != nil {
				return err
			}
		}
	}
	for quiet := time.Now().Add(300 * time.Millisecond); time.Now().Before(quiet); {
		if err := l.turn(quiet); err != nil {
			return err
		}
	}
	return nil
}

func (l *gameLoad) send(at time.Time) {
	e := l.players[l.next]
	l.next = (l.next + 1) % len(l.players)
	l.stamp(l.message[l.form.head:], at)
	_ = e.Value.conn.Send(l.crowd.now, l.form.message(l.message)) // what finds no room is lost, and counted as that
	l.mark(e)
}

func (l *gameLoad) turn(until time.Time) error {
	err := l.crowd.turn(until)
	l.traffic.now = l.crowd.now
	return err
}
