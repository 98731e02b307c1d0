package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"tidegate/internal/fleet/view"
	"tidegate/internal/stray"
)

// Players are the clients of this node's proxy. They are safe for concurrent use.
type Players interface {
	// JoinFleet gives the proxy the way to other nodes.
	JoinFleet(ctx context.Context, carrier stray.Carrier, secret stray.Secret) error
	// HoldForFleet gives a proxy a way to other nodes until JoinFleet. Its loops do not run yet.
	HoldForFleet(carrier stray.Carrier, secret stray.Secret)
	// PlayerChanges returns the clients that have joined and left since the last call, or the whole set.
	PlayerChanges(whole bool) (opened, closed []stray.Key, isWhole bool)
	// TakeStrays takes datagrams of this node's clients; an empty node is this one.
	TakeStrays(node string, all []stray.Datagram)
	// SendAnswers sends another node's datagrams to its clients.
	SendAnswers(node string, all []stray.Datagram)

	// CopyPlayers returns copies of sessions that can move: at most a number, of clients that choose accepts.
	CopyPlayers(most int, choose func(stray.Key) bool) ([]stray.Session, error)
	// TakeOutPlayers takes sessions out for other nodes, at most a number of them. gone is called for each one at once.
	TakeOutPlayers(most int, choose func(stray.Key) bool, gone func(stray.Key)) ([]stray.Session, error)
	// PlayersLeft returns the number of sessions.
	PlayersLeft(ctx context.Context) (int, error)
	// CheckPlayers returns for each session why it cannot be taken in, or nil.
	CheckPlayers(ctx context.Context, records [][]byte) []error
	// PutInPlayers begins to take sessions in. Datagrams that TakeStrays gets later find them. The function that it
	// returns waits until ctx is done, and has an error for each session that is not taken in. An empty node of a session
	// is this one.
	PutInPlayers(all []stray.Session) (faults func(ctx context.Context) []error)
	// PutBackPlayers takes sessions in again that no other node has taken in.
	PutBackPlayers(all []stray.Session) (faults func(ctx context.Context) []error)
}

// Times of messages about players.
const (
	playersRepeat = time.Second     // a message without a change: the node lives
	wholeEvery    = 3 * time.Second // at least, between two whole sets
)

// players tells the other nodes which clients this node has, hears of theirs, and passes datagrams on. All are plain
// messages of NATS: they need no bucket.
type players struct {
	identity
	proxy  Players
	every  time.Duration
	secret stray.Secret

	where    *whereabouts
	out      *outboxes
	joins    chan []byte // of this node, for others
	takeJoin func([]byte)
	coming   *coming     // sessions from other nodes
	going    going       // sessions to other nodes
	asks     chan func() // about where, while runs
	runs     atomic.Bool
	instance string
	number   uint64    // of the last message
	tellAt   time.Time // of the next message, at the latest
	wholeAt  time.Time // of the next whole set; zero: none is wanted
	last     time.Time // of the last whole set

	connection atomic.Pointer[nats.Conn] // in use
	own        *nats.Conn
	held       *Held // nil: none
	status     playerStatus
}

// playerStatus counts messages and datagrams.
type playerStatus struct {
	taken, answered atomic.Uint64 // datagrams of other nodes
	invalid, noRoom atomic.Uint64 // messages
	beyond          atomic.Uint64
}

func newPlayers(o *Options) *players {
	p := &players{
		identity: o.identity(), proxy: o.Players, every: cmp.Or(o.ReportEvery, reportEvery), where: newWhereabouts(),
		instance: rand.Text(), out: newOutboxes(o.Node), secret: secretOf(o), coming: newComing(o.Players, o.Node),
		asks: make(chan func()), held: o.Held, joins: make(chan []byte, maxPending), takeJoin: o.TakeJoin,
	}
	p.where.inherit(time.Now(), o.Pending.Players)
	p.wholeAt = time.Now()
	return p
}

// secretOf returns the secret of the players' keys. Without an embedded server it is only the fleet's name: the keys
// then are short, but not secret. A forger who knows a player's address needs no key.
func secretOf(o *Options) (s stray.Secret) {
	text := "tidegate players\x00" + o.Name + "\x00"
	if o.Embedded != nil {
		text += o.Embedded.Secret
	}
	sum := sha256.Sum256([]byte(text))
	s[0], s[1] = binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])
	return s
}

// ShareJoin tells other nodes of a join whose player may come to them, or has come here. It does not block.
func (f *Fleet) ShareJoin(join []byte) {
	if f.players != nil {
		select {
		case f.players.joins <- join:
		default: // NATS is away
		}
	}
}

// PassOn implements stray.Carrier.
func (p *players) PassOn(client stray.Key, d *stray.Datagram) bool {
	node, ok := p.going.find(client)
	if ok && node == limbo {
		p.out.put(limbo, d, false)
		return true
	}
	if !ok {
		node, ok = p.where.find(client)
	}
	if !ok {
		return false
	}
	if c := p.connection.Load(); c == nil || !c.IsConnected() {
		p.out.lose() // it is no stranger's, and must not join here
		return true
	}
	p.out.pass(time.Now(), node, client, d)
	return true
}

// PassHere implements stray.Carrier.
func (p *players) PassHere(d *stray.Datagram) { p.out.put(p.node, d, false) }

// Answer implements stray.Carrier.
func (p *players) Answer(node string, d *stray.Datagram) { p.out.put(node, d, true) }

// Has implements stray.Carrier. A node that has just got a session from here has not told it yet.
func (p *players) Has(node string, client stray.Key) bool {
	at, ok := p.going.find(client)
	return ok && at == node || p.where.has(node, client)
}

// start follows players until ctx is done. The function that it returns waits for the end.
func (p *players) start(ctx context.Context, connection *nats.Conn) (wait func()) {
	p.begin(connection)
	sets, asks := make(chan *nats.Msg, maxPending), make(chan *nats.Msg, 1)
	_, err := connection.ChanSubscribe(p.subject("players.>"), sets) // the library repeats it after each reconnect
	if err == nil {
		_, err = connection.ChanSubscribe(p.subject("player_asks."+p.node), asks)
	}
	if err == nil {
		_, err = connection.Subscribe(p.subject("strays."+p.node), func(m *nats.Msg) {
			p.letGo() // other nodes reach this connection
			p.takeStrays(m)
		})
	}
	if err == nil {
		_, err = connection.Subscribe(p.subject("moves."+p.node), p.takeOffer)
	}
	if err == nil && p.takeJoin != nil {
		_, err = connection.Subscribe(p.subject("joins.>"), func(m *nats.Msg) {
			if m.Subject != p.subject("joins."+p.node) {
				p.takeJoin(m.Data)
			}
		})
	}
	if err != nil {
		p.log.Error().Err(err).Msg("players are not followed until a restart")
		p.letGo()
		return func() {}
	}
	ended := runs(func() {
		if err := p.proxy.JoinFleet(ctx, p, p.secret); err != nil {
			p.log.Error().Err(err).Msg("players are not followed until a restart")
			return
		}
		p.run(ctx, connection, sets, asks)
	})
	sent := runs(func() { p.out.run(ctx, p.send) })
	return func() {
		ended()
		sent()
		p.letGo()
	}
}

// run exchanges sets. It is the only one that changes the whereabouts.
func (p *players) run(ctx context.Context, connection *nats.Conn, sets, asks <-chan *nats.Msg) {
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	p.runs.Store(true)
	defer p.runs.Store(false)
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-sets:
			p.hear(connection, strings.TrimPrefix(m.Subject, p.subject("players.")), m.Data)
		case <-asks:
			p.wantWhole()
		case ask := <-p.asks:
			ask()
		case join := <-p.joins:
			_ = connection.Publish(p.subject("joins."+p.node), join) // else its player comes here, or asks again
		case now := <-tick.C:
			p.where.expire(now)
			p.coming.expire(now)
			p.tell(connection, now)
		}
	}
}

// hear takes another node's message about its players.
func (p *players) hear(connection *nats.Conn, node string, data []byte) {
	if node == p.node {
		return // counts report a twin
	}
	m, err := parsePlayerSet(data)
	wanted, isNew := false, false
	if err == nil {
		wanted, isNew, err = p.where.take(time.Now(), node, m)
	}
	switch {
	case errors.Is(err, errRoom):
		p.status.noRoom.Add(1)
	case errors.Is(err, errOldNews):
	case err != nil:
		p.invalid(node, err)
	}
	if isNew {
		p.wantWhole()
	}
	if wanted {
		_ = connection.Publish(p.subject("player_asks."+node), nil) // the next gap asks again
	}
}

// invalid counts a message that is not valid.
func (p *players) invalid(node string, err error) {
	p.refuse("message about players", node, p.status.invalid.Add(1), err)
}

// wantWhole plans a whole set: another node has missed something.
func (p *players) wantWhole() {
	if p.wholeAt.IsZero() {
		p.wholeAt = p.last.Add(wholeEvery)
	}
}

// tell sends this node's changes, or its whole set if it is due.
func (p *players) tell(connection *nats.Conn, now time.Time) {
	if !connection.IsConnected() {
		p.wholeAt = now
		return
	}
	nodes, _ := p.where.len()
	if now.Before(p.tellAt) && early(now.Sub(p.tellAt.Add(-playersRepeat)), p.every, nodes+1) {
		return
	}
	due := !p.wholeAt.IsZero() && !now.Before(p.wholeAt)
	opened, closed, whole := p.proxy.PlayerChanges(due)
	if len(opened)+len(closed) == 0 && !whole && now.Before(p.tellAt) {
		return
	}
	if whole {
		p.wholeAt, p.last = time.Time{}, now
	}
	closed = slices.DeleteFunc(closed, func(key stray.Key) bool {
		_, ok := p.going.find(key)
		return ok // its new node tells that it has come; until then this node is asked
	})
	sets, beyond := playerSets(opened, closed, whole)
	if whole {
		p.status.beyond.Store(uint64(beyond))
	}
	for _, m := range sets {
		p.number++
		m.instance, m.number = p.instance, p.number
		if err := connection.Publish(p.subject("players."+p.node), m.format()); err != nil {
			p.wholeAt = now
			p.log.Debug().Err(err).Msg("players not told")
		}
	}
	p.tellAt = now.Add(playersRepeat)
}

// send sends a batch of datagrams to a node. It owns the batch.
func (p *players) send(node string, batch []byte) {
	if node == p.node {
		if _, asked, _, err := stray.Parse(batch); err == nil {
			p.proxy.TakeStrays("", asked)
		}
		return
	}
	if err := p.connection.Load().Publish(p.subject("strays."+node), batch); err != nil {
		p.log.Debug().Err(err).Msg("datagrams not passed on")
	}
}

// takeStrays takes a batch of another node, or sessions that it gives: datagrams for a session come after it. The
// library calls it, one message after the other.
func (p *players) takeStrays(m *nats.Msg) {
	if m.Reply != "" {
		p.takeGiven(m)
		return
	}
	node, asked, answers, err := stray.Parse(m.Data)
	if err == nil && !p.where.knows(node) {
		err = errNode
	}
	if err != nil {
		p.invalid("?", err)
		return
	}
	p.status.taken.Add(uint64(len(asked)))
	p.status.answered.Add(uint64(len(answers)))
	p.proxy.TakeStrays(node, asked)
	p.proxy.SendAnswers(node, answers)
}

func (p *players) addTo(s *view.Fleet) {
	nodes, known := p.where.len()
	passed, late, tooMany := p.out.counts()
	s.Players = view.Players{
		On: true, Known: known, Nodes: nodes, Passed: passed, Taken: p.status.taken.Load(),
		Answers: p.status.answered.Load(), Late: late, TooMany: tooMany, Invalid: p.status.invalid.Load(),
		NoRoom: p.status.noRoom.Load(), Beyond: p.status.beyond.Load(),
		Left: p.going.moved.Load(), Came: p.coming.taken.Load(),
	}
}

// pending returns the players of other nodes, for a successor.
func (p *players) pending(ctx context.Context) (all []NodePlayers) {
	if !p.runs.Load() {
		return nil
	}
	answer := make(chan []NodePlayers, 1)
	select {
	case p.asks <- func() { answer <- p.where.export() }:
		return <-answer
	case <-ctx.Done():
		return nil
	}
}
