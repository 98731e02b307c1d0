package fleet

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tidegate/internal/stray"
)

// Times of moves.
const (
	moveTime   = time.Second // for an answer of another node
	moveAgain  = 250 * time.Millisecond
	quietAfter = 3 * time.Second // without a datagram for a moved session, the paths have changed
)

// limbo is the outbox of datagrams for sessions that are between two nodes.
const limbo = ""

var (
	errNoFollow = errors.New("fleet.follow is off: players of this node cannot move to others")
	errNoNode   = errors.New("no other node takes sessions")
	// ErrMoving reports that Empty runs already.
	ErrMoving = errors.New("the sessions move already")
)

// going are the sessions that have left this node.
type going struct {
	busy  sync.Mutex  // held while sessions move
	some  atomic.Bool // there are sessions
	mu    sync.RWMutex
	to    map[stray.Key]string // the node that has the session; limbo: not decided
	moved atomic.Uint64
}

func (g *going) set(client stray.Key, node string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.to == nil {
		g.to = make(map[stray.Key]string)
	}
	g.to[client] = node
	g.some.Store(true)
}

func (g *going) remove(client stray.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.to, client)
	g.some.Store(len(g.to) > 0)
}

// find returns the node that a session has moved to.
func (g *going) find(client stray.Key) (node string, ok bool) {
	if !g.some.Load() {
		return "", false
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	node, ok = g.to[client]
	return node, ok
}

// Emptied is the result of Empty.
type Emptied struct {
	Moved int // sessions
	Left  int // sessions that no node took, or that cannot move
	// Standstill is the longest time for which a session was between two nodes.
	Standstill time.Duration
}

// Empty moves all sessions to other nodes, or to the one that is named, until none is left. It then passes their
// clients' datagrams on until the paths have changed. It returns when ctx is done, at the latest.
func (f *Fleet) Empty(ctx context.Context, node string) (done Emptied, err error) {
	p := f.players
	if p == nil || p.connection.Load() == nil {
		return done, errNoFollow
	}
	if !p.going.busy.TryLock() {
		return done, ErrMoving
	}
	defer p.going.busy.Unlock()
	m := &mover{players: p, only: node, refused: make(map[stray.Key]time.Time), load: f.load()}
	for {
		var moved int
		moved, err = m.round(ctx)
		done.Moved, done.Standstill = done.Moved+moved, m.standstill
		done.Left = p.left()
		if done.Left == 0 || !pause(ctx, moveAgain) {
			break
		}
	}
	for last, quiet := uint64(0), time.Duration(0); quiet < quietAfter && pause(ctx, moveAgain); quiet += moveAgain {
		if passed, _, _ := p.out.counts(); passed != last {
			last, quiet = passed, 0
		}
	}
	return done, err
}

// left returns the number of sessions of this node, or one if a loop does not answer.
func (p *players) left() int {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	n, err := p.proxy.PlayersLeft(ctx)
	if err != nil {
		return 1
	}
	return n
}

// pause waits, and reports whether ctx is not done.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// load returns the sessions of each node, as far as they are known.
func (f *Fleet) load() map[string]int {
	all := make(map[string]int)
	for _, n := range f.Nodes() {
		for _, p := range n.Protocols {
			all[n.Name] += p.Established + p.HalfOpen
		}
	}
	return all
}

// mover moves this node's sessions.
type mover struct {
	*players
	only    string                  // the node that gets all; empty: any
	load    map[string]int          // sessions of each node
	refused map[stray.Key]time.Time // sessions that no node has taken

	standstill time.Duration // the longest time of a batch
}

// refusedTime is how long a session stays that no node has taken.
const refusedTime = 2 * time.Second

// round moves sessions until no further one can move now.
func (m *mover) round(ctx context.Context) (moved int, err error) {
	deaf := make(map[string]bool)
	choose := func(client stray.Key) bool { return time.Since(m.refused[client]) > refusedTime }
	gone := func(client stray.Key) { m.going.set(client, limbo) }
	for ctx.Err() == nil {
		if len(m.targets("", deaf)) == 0 {
			return moved, errNoNode
		}
		began := time.Now()
		all, err := m.proxy.TakeOutPlayers(mostMoving, choose, gone)
		if len(all) == 0 || err != nil {
			m.keep(all)
			return moved, err
		}
		moved += m.batch(all, deaf)
		m.release()
		m.standstill = max(m.standstill, time.Since(began))
	}
	return moved, ctx.Err()
}

// targets returns the nodes that may take sessions: first the one where the client's datagrams arrive, then those with
// the fewest sessions.
func (m *mover) targets(at string, deaf map[string]bool) []string {
	all := m.where.awake()
	all = slices.DeleteFunc(all, func(node string) bool { return deaf[node] || m.only != "" && node != m.only })
	slices.SortFunc(all, func(a, b string) int {
		if a == at || b == at {
			return map[bool]int{true: -1, false: 1}[a == at]
		}
		return m.load[a] - m.load[b]
	})
	return all
}

// batch moves sessions that have been taken out. Sessions that no node takes stay here.
func (m *mover) batch(all []stray.Session, deaf map[string]bool) (moved int) {
	byNode := make(map[string][]stray.Session)
	for _, s := range all {
		byNode[s.At] = append(byNode[s.At], s)
	}
	for at, rest := range byNode {
		for _, node := range m.targets(at, deaf) {
			before := len(rest)
			var answered bool
			if rest, answered = m.offer(node, rest); !answered {
				deaf[node] = true
			}
			moved += before - len(rest)
			m.load[node] += before - len(rest)
			if len(rest) == 0 {
				break
			}
		}
		for _, s := range rest {
			m.refused[s.Client] = time.Now()
		}
		m.keep(rest)
	}
	m.going.moved.Add(uint64(moved))
	return moved
}

// keep takes sessions in again that have not moved.
func (m *mover) keep(all []stray.Session) {
	records := make([][]byte, len(all))
	for i, s := range all {
		records[i] = s.Record
	}
	for i, err := range m.proxy.PutInPlayers(context.Background(), records) {
		if err != nil {
			m.log.Error().Err(err).Msg("session lost: it cannot be taken in again")
		}
		m.going.remove(all[i].Client)
	}
}

// offer offers sessions to a node in messages of bounded size, and gives the ones that it can take. It returns the
// others.
func (m *mover) offer(node string, all []stray.Session) (rest []stray.Session, answered bool) {
	for len(all) > 0 {
		n, size := 1, len(all[0].Record)
		for n < len(all) && size+len(all[n].Record) <= maxMoveBatch {
			size += len(all[n].Record)
			n++
		}
		part := all[:n]
		all = all[n:]
		id := rand.Text()
		can, err := m.ask(node, stepOffer, id, part)
		if err != nil {
			_, _ = m.ask(node, stepWithdraw, id, part) // the offer also ends by itself
			return append(append(rest, part...), all...), false
		}
		var giving []stray.Session
		for i, s := range part {
			if can[i] {
				giving = append(giving, s)
			} else {
				rest = append(rest, s)
			}
		}
		rest = append(rest, m.give(node, id, giving)...)
	}
	return rest, true
}

// give gives offered sessions to a node, and returns the ones that it has not taken after all. It asks again until the
// node answers or is silent. A silent node has failed, so the sessions are not there. A node that lives and does not
// answer for the time of an offer counts as having them: it also takes an offered session when it hears a datagram for
// it from this node.
func (m *mover) give(node, id string, all []stray.Session) (rest []stray.Session) {
	if len(all) == 0 {
		return nil
	}
	var taken []bool
	var err error
	failed := false
	for until := time.Now().Add(comingTime); time.Now().Before(until) && !failed; {
		if taken, err = m.ask(node, stepGive, id, all); err == nil {
			break
		}
		failed = !slices.Contains(m.where.awake(), node)
		pause(context.Background(), moveTime/10) // NATS says at once that nothing listens
	}
	for i, s := range all {
		if failed || err == nil && !taken[i] {
			rest = append(rest, s)
		} else {
			m.going.set(s.Client, node)
		}
	}
	return rest
}

// ask sends a step of a move to a node, and waits for its answer.
func (m *mover) ask(node, step, id string, all []stray.Session) ([]bool, error) {
	w := moveWire{Step: step, Node: m.node, Move: id, Sessions: make([]sessionWire, len(all))}
	for i, s := range all {
		w.Sessions[i].Client = s.Client
		if step == stepOffer {
			w.Sessions[i].Record = s.Record
		}
	}
	b, err := json.Marshal(&w)
	if err != nil {
		return nil, err
	}
	answer, err := m.connection.Load().Request(m.prefix+"moves."+node, b, moveTime)
	if err != nil {
		return nil, err
	}
	return parseMoved(answer.Data, len(all))
}

// release passes the datagrams on that have waited for the end of a move.
func (p *players) release() {
	batch := p.out.take(limbo)
	if batch == nil {
		return
	}
	_, all, _, err := stray.Parse(batch)
	if err != nil {
		return
	}
	var here []stray.Datagram
	for i := range all {
		if !p.PassOn(p.secret.Key(all[i].Listener, all[i].Client), &all[i]) {
			here = append(here, all[i])
		}
	}
	p.proxy.TakeStrays("", here)
}
