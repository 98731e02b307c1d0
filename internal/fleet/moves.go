package fleet

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"tidegate/internal/pause"
	"tidegate/internal/stray"
)

// Times of moves.
const (
	moveTime   = time.Second // for an answer of another node
	moveAgain  = 250 * time.Millisecond
	quietAfter = 3 * time.Second // without a datagram for a moved session, the paths have changed
)

var (
	errNoFollow = errors.New("fleet.follow is off: players of this node cannot move to others")
	errNoNode   = errors.New("no other node takes sessions")
	// ErrMoving reports that Empty runs already.
	ErrMoving = errors.New("the sessions move already")
)

// Emptied is the result of Empty.
type Emptied struct {
	Moved int // sessions
	Left  int // sessions that no node took, or that cannot move
	// Standstill is the longest time from the end of a session at this node until another one has said that it has it.
	Standstill time.Duration
}

// empty moves all sessions to other nodes, or to the one that is named. load has the sessions of each node.
func (p *players) empty(ctx context.Context, node string, load map[string]int) (done Emptied, err error) {
	if !p.going.busy.TryLock() {
		return done, ErrMoving
	}
	defer p.going.busy.Unlock()
	m := &mover{
		players: p, only: node, refused: make(map[stray.Key]time.Time), load: load, inbox: nats.NewInbox() + ".",
	}
	if m.answers, err = p.connection.Load().SubscribeSync(m.inbox + "*"); err != nil {
		return done, err
	}
	defer func() { _ = m.answers.Unsubscribe() }()
	for {
		var moved int
		moved, err = m.round(ctx)
		done.Moved, done.Standstill = done.Moved+moved, m.standstill
		done.Left = p.left()
		if done.Left == 0 || !pause.For(ctx, moveAgain) {
			break
		}
	}
	for last, quiet := uint64(0), time.Duration(0); quiet < quietAfter && pause.For(ctx, moveAgain); quiet += moveAgain {
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

// mover moves this node's sessions.
type mover struct {
	*players
	only    string                  // the node that gets all; empty: any
	load    map[string]int          // sessions of each node
	refused map[stray.Key]time.Time // sessions that no node has taken
	inbox   string                  // of the answers to stepGive
	answers *nats.Subscription

	standstill time.Duration // the longest one
}

// refusedTime is how long a session stays that no node has taken.
const refusedTime = 2 * time.Second

// round moves sessions until no further one can move now.
func (m *mover) round(ctx context.Context) (moved int, err error) {
	deaf := make(map[string]bool)
	choose := func(client stray.Key) bool { return time.Since(m.refused[client]) > refusedTime }
	for ctx.Err() == nil {
		if len(m.targets("", deaf)) == 0 {
			return moved, errNoNode
		}
		all, err := m.proxy.CopyPlayers(mostMoving, choose)
		if len(all) == 0 || err != nil {
			return moved, err
		}
		moved += m.batch(all, deaf)
	}
	return moved, ctx.Err()
}

// targets returns the nodes that may take sessions: first the one where the client's datagrams arrive, then those with
// the fewest sessions.
func (m *mover) targets(at string, deaf map[string]bool) []string {
	all := m.where.awake()
	all = slices.DeleteFunc(all, func(node string) bool { return deaf[node] || m.only != "" && node != m.only })
	slices.SortFunc(all, func(a, b string) int { return m.load[a] - m.load[b] })
	if i := slices.Index(all, at); i > 0 {
		all = slices.Insert(slices.Delete(all, i, i+1), 0, at)
	}
	return all
}

// batch moves sessions, of which it has copies. Sessions that no node takes stay here.
func (m *mover) batch(all []stray.Session, deaf map[string]bool) (moved int) {
	byNode := make(map[string][]stray.Session)
	for _, s := range all {
		byNode[s.At] = append(byNode[s.At], s)
		m.refused[s.Client] = time.Now() // until it has moved
	}
	for at, rest := range byNode {
		for _, node := range m.targets(at, deaf) {
			can, answered := m.offer(node, rest)
			if !answered {
				deaf[node] = true
			}
			n := m.give(node, can)
			moved += n
			m.load[node] += n
			rest = slices.DeleteFunc(rest, func(s stray.Session) bool { return can[s.Client] != "" })
			if len(rest) == 0 {
				break
			}
		}
	}
	m.going.moved.Add(uint64(moved))
	return moved
}

// parts cuts sessions into parts that fit in a message.
func parts(all []stray.Session) (of [][]stray.Session) {
	for len(all) > 0 {
		n, size := 1, len(all[0].Record)
		for n < len(all) && size+len(all[n].Record) <= maxMoveBatch {
			size += len(all[n].Record)
			n++
		}
		of, all = append(of, all[:n]), all[n:]
	}
	return of
}

// offer offers copies of sessions to a node. It returns the sessions that the node can take, with the names of their
// moves.
func (m *mover) offer(node string, all []stray.Session) (can map[stray.Key]string, answered bool) {
	can = make(map[stray.Key]string)
	for _, part := range parts(all) {
		id := rand.Text()
		b, err := m.format(stepOffer, id, part)
		if err != nil {
			return can, false
		}
		answer, err := m.connection.Load().Request(m.subject("moves."+node), b, moveTime)
		if err != nil {
			return can, false
		}
		taken, err := parseMoved(answer.Data, len(part))
		if err != nil {
			return can, false
		}
		for i, s := range part {
			if taken[i] {
				can[s.Client] = id
			}
		}
	}
	return can, true
}

// give takes sessions out that a node can take, and gives them to it. It returns the number of those sessions that
// have moved.
func (m *mover) give(node string, can map[stray.Key]string) (moved int) {
	if len(can) == 0 {
		return 0
	}
	began := time.Now()
	choose := func(client stray.Key) bool { return can[client] != "" }
	gone := func(client stray.Key) { m.going.set(client, limbo) }
	all, err := m.proxy.TakeOutPlayers(len(can), choose, gone)
	if err != nil {
		m.keep(all)
		return 0
	}
	byMove := make(map[string][]stray.Session)
	for _, s := range all {
		byMove[can[s.Client]] = append(byMove[can[s.Client]], s)
	}
	for id, of := range byMove {
		for i, part := range parts(of) {
			rest := m.giveTo(node, id, m.inbox+id+strconv.Itoa(i), part)
			m.keep(rest)
			moved += len(part) - len(rest)
			m.standstill = max(m.standstill, time.Since(began))
		}
	}
	return moved
}

// giveTo gives sessions to a node, and returns the ones that it has not taken after all. It asks again until the node
// answers or is silent. A silent node has failed, so the sessions are not there. A node that lives and does not answer
// for the time of an offer counts as having them: it gets the sessions with each question.
func (m *mover) giveTo(node, id, inbox string, all []stray.Session) (rest []stray.Session) {
	b, err := m.format(stepGive, id, all)
	if err != nil {
		return all
	}
	var taken []bool
	failed := false
	for until := time.Now().Add(comingTime); taken == nil && !failed && time.Now().Before(until); {
		if err = m.connection.Load().PublishRequest(m.subject("strays."+node), inbox, b); err == nil {
			for _, s := range all {
				m.going.set(s.Client, node)
			}
			m.release()
			taken = m.answer(inbox, len(all))
		}
		if taken == nil {
			failed = !slices.Contains(m.where.awake(), node)
			pause.For(context.Background(), moveTime/10) // NATS says at once that nothing listens
		}
	}
	for i, s := range all {
		if failed || taken != nil && !taken[i] {
			rest = append(rest, s)
		} else {
			delete(m.refused, s.Client)
		}
	}
	return rest
}

// answer waits for the answer to stepGive; nil: none came in time.
func (m *mover) answer(inbox string, sessions int) []bool {
	for until := time.Now().Add(moveTime); ; {
		answer, err := m.answers.NextMsg(time.Until(until))
		if err != nil {
			return nil
		}
		if answer.Subject == inbox { // else it is late
			taken, _ := parseMoved(answer.Data, sessions)
			return taken
		}
	}
}

// format returns a step of a move.
func (m *mover) format(step, id string, all []stray.Session) ([]byte, error) {
	w := moveWire{Step: step, Node: m.node, Move: id, Sessions: make([]sessionWire, len(all))}
	for i, s := range all {
		w.Sessions[i] = sessionWire{s.Client, s.At, s.Record}
	}
	return json.Marshal(&w)
}

// keep takes sessions in again that have not moved.
func (m *mover) keep(all []stray.Session) {
	for i, err := range m.proxy.PutBackPlayers(all)(context.Background()) {
		if err != nil {
			m.log.Error().Err(err).Msg("session lost: it cannot be taken in again")
		}
		m.going.remove(all[i].Client)
	}
	m.release()
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

// takeOffer answers an offer of another node. The library calls it.
func (p *players) takeOffer(m *nats.Msg) {
	if move := p.readMove(m, stepOffer); move != nil {
		ctx, cancel := context.WithTimeout(context.Background(), moveTime)
		defer cancel()
		p.answerMove(m, p.coming.offer(ctx, time.Now(), move))
	}
}

// takeGiven takes sessions in that another node gives, and answers later: it holds no datagrams up.
func (p *players) takeGiven(m *nats.Msg) {
	move := p.readMove(m, stepGive)
	if move == nil {
		return
	}
	answer := p.coming.give(time.Now(), move)
	p.coming.later(func() {
		ctx, cancel := context.WithTimeout(context.Background(), moveTime)
		defer cancel()
		if taken := answer(ctx); taken != nil {
			p.answerMove(m, taken)
		}
	})
}

// readMove reads a step of another node, or returns nil.
func (p *players) readMove(m *nats.Msg, step string) *moveWire {
	move, err := parseMove(m.Data)
	switch {
	case err != nil:
	case move.Step != step:
		err = errMove
	case !p.where.knows(move.Node):
		err = errNode
	}
	if err != nil {
		p.invalid("?", err)
		return nil
	}
	return move
}

func (p *players) answerMove(m *nats.Msg, taken []bool) {
	answer, err := json.Marshal(movedWire{taken})
	if err == nil {
		err = m.Respond(answer)
	}
	if err != nil {
		p.log.Debug().Err(err).Msg("move of sessions not answered")
	}
}

// Bounds of a move.
const (
	mostMoving   = 16        // sessions in a message
	maxMoving    = 512 << 10 // bytes of a session; the proxy's bound
	maxMove      = 960 << 10 // bytes of a message; below the 1 MiB that NATS allows by default
	maxMoveBatch = 640 << 10 // bytes of all sessions in a message, of which one may be larger
)

var errMove = errors.New("a move of sessions that no node sends")

// Steps of a move. The node that has the sessions offers copies of them. It takes out the ones that the other node can
// take, and gives them.
const (
	stepOffer = "offer"
	stepGive  = "give"
)

// moveWire is a step of a move.
type moveWire struct {
	Step     string        `json:"step"`
	Node     string        `json:"node"` // that has the sessions
	Move     string        `json:"move"` // names the move
	Sessions []sessionWire `json:"sessions"`
}

// sessionWire is a session, or the copy of one.
type sessionWire struct {
	Client stray.Key `json:"client"`
	At     string    `json:"at,omitempty"` // the node at which the client's datagrams arrive; absent: the sender
	Record []byte    `json:"record"`
}

// movedWire is the answer: which of the sessions the node can take, or has taken.
type movedWire struct {
	Taken []bool `json:"taken"`
}

// parseMove reads a step. Its sender may be hostile: all parts are checked and bounded.
func parseMove(b []byte) (*moveWire, error) {
	m := new(moveWire)
	if len(b) > maxMove || json.Unmarshal(b, m) != nil {
		return nil, errMove
	}
	if m.Step != stepOffer && m.Step != stepGive || !isName(m.Node, maxNode) ||
		!isWord(m.Move) || len(m.Sessions) == 0 || len(m.Sessions) > mostMoving {
		return nil, errMove
	}
	seen := make(map[stray.Key]bool)
	for _, s := range m.Sessions {
		if seen[s.Client] || len(s.Record) > maxMoving || len(s.Record) == 0 || s.At != "" && !isName(s.At, maxNode) {
			return nil, errMove
		}
		seen[s.Client] = true
	}
	return m, nil
}

// parseMoved reads the answer for a number of sessions.
func parseMoved(b []byte, sessions int) ([]bool, error) {
	var m movedWire
	if len(b) > maxMove || json.Unmarshal(b, &m) != nil || len(m.Taken) != sessions {
		return nil, errMove
	}
	return m.Taken, nil
}
