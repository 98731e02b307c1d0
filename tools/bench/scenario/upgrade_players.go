package scenario

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/codec/endpoint"
)

// upgradePlayer is a client that numbers its messages.
type upgradePlayer struct {
	*endpoint.Conn[*upgradePlayer]
	protocol  string
	form      form
	seen      []bool // by number
	got       int
	longest   time.Duration
	connected bool
	ended     ending
	why       codec.Reason // of the end
}

// ending is the time at which a session ended.
type ending uint8

const (
	endedNever ending = iota
	endedBefore
	endedSince // the beginning of the upgrade
)

// join connects the clients, some at a time.
func (b *upgradeBench) join(listeners []upgradeListener) error {
	for i := range b.Sessions {
		l := listenerOf(listeners, i)
		conn, err := b.dial(l, i)
		if err != nil {
			return err
		}
		p := &upgradePlayer{Conn: conn, protocol: l.name, form: formOf(l.protocol, l.protocol)}
		conn.Value = p
		b.players = append(b.players, p)
		if err := b.connected(len(b.players) - joinsInFlight); err != nil {
			return err
		}
	}
	if err := b.connected(b.Sessions); err != nil {
		return err
	}
	b.plan()
	return nil
}

func (b *upgradeBench) connected(wanted int) error {
	for give := time.Now().Add(startTimeout); ; {
		n := 0
		for _, p := range b.players[max(0, len(b.players)-2*joinsInFlight):] {
			if !p.connected {
				n++
			}
		}
		if len(b.players)-n >= wanted {
			return nil
		}
		if time.Now().After(give) {
			return fmt.Errorf("%d of %d clients are connected, and no more connect", len(b.players)-n, b.Sessions)
		}
		if err := b.endpoint.Turn(time.Now().Add(time.Millisecond)); err != nil {
			return err
		}
	}
}

func (b *upgradeBench) event(c *endpoint.Conn[*upgradePlayer], e *codec.Event) {
	p := c.Value
	switch e.Kind {
	case codec.Connected:
		p.connected = true
	case codec.Disconnected:
		p.ended, p.why = b.phase, e.Reason
	case codec.Received:
		p.form.stamps(&e.Message, func(m codec.Message) {
			if len(m.Payload) < minStamp {
				return
			}
			sent := b.epoch.Add(time.Duration(binary.LittleEndian.Uint64(m.Payload)))
			n := int(number(m.Payload))
			if n >= len(p.seen) || p.seen[n] {
				b.doubled++
				return
			}
			p.seen[n] = true
			p.got++
			p.longest = max(p.longest, b.endpoint.Now().Sub(sent))
		})
	}
}

// play lets the clients send on their timetable until a time.
func (b *upgradeBench) play(until time.Time) error {
	for now := time.Now(); now.Before(until); now = time.Now() {
		for i := range b.plans {
			b.plans[i].send(b, now)
		}
		if err := b.endpoint.Turn(earlier(until, now.Add(time.Millisecond))); err != nil {
			return err
		}
		if err := context.Cause(b.Context); err != nil {
			return err
		}
	}
	return nil
}

// timetable has the times at which clients send, in turn.
type timetable struct {
	players []*upgradePlayer
	rate    int // messages a second of all
	next    int // number of the next message
}

// plan makes the timetables, once all clients have joined.
func (b *upgradeBench) plan() {
	var rare []*upgradePlayer
	for _, p := range b.players {
		if !p.isReliable() {
			rare = append(rare, p)
		}
	}
	b.plans = []timetable{{players: b.players, rate: b.Rate}, {players: rare, rate: often * len(rare)}}
	b.skip()
}

// skip leaves out the messages so far.
func (b *upgradeBench) skip() {
	for i := range b.plans {
		b.plans[i].next = b.plans[i].due(time.Since(b.epoch))
	}
}

// due returns the number of messages until a time.
func (t *timetable) due(since time.Duration) int { return int(since.Seconds() * float64(t.rate)) }

// send sends the messages that are due.
func (t *timetable) send(b *upgradeBench, now time.Time) {
	due := t.due(now.Sub(b.epoch))
	if due-t.next > t.rate { // the clients have waited for something else
		t.next = due
	}
	for ; t.next < due; t.next++ {
		t.players[t.next%len(t.players)].send(b)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (p *upgradePlayer) send(b *upgradeBench) {
	body := make([]byte, max(b.Size-p.form.head, minStamp))
	binary.LittleEndian.PutUint64(body, uint64(b.endpoint.Now().Sub(b.epoch)))
	binary.LittleEndian.PutUint64(body[8:], uint64(len(p.seen)))
	if p.Send(b.endpoint.Now(), p.form.message(body)) == nil {
		p.seen = append(p.seen, false)
	}
	b.endpoint.Touch(p.Conn)
}

// isReliable reports whether the client's messages are sent until they arrive. Those of RUDP and R-Type are not.
func (p *upgradePlayer) isReliable() bool {
	return p.form.mode == codec.ReliableOrdered || p.form.mode == codec.Reliable
}

// lost returns the number of reliable messages without an answer.
func (p *upgradePlayer) lost() int {
	if !p.isReliable() {
		return 0
	}
	return len(p.seen) - p.got
}

// waits returns the longest waits of the clients since the last call, in ms, the shortest one first.
func (b *upgradeBench) waits() (all []float64) {
	for _, p := range b.players {
		all = append(all, millis(p.longest))
		p.longest = 0
	}
	slices.Sort(all)
	return all
}

// slowest returns the longest wait of a client with reliable messages, in ms. RUDP's messages also wait for the next
// packet at each step.
func (b *upgradeBench) slowest() (ms float64) {
	for _, p := range b.players {
		if p.isReliable() {
			ms = max(ms, millis(p.longest))
		}
	}
	return ms
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// settle waits for the answers under way.
func (b *upgradeBench) settle() error {
	for give := time.Now().Add(3 * time.Second); time.Now().Before(give); {
		if err := b.endpoint.Turn(time.Now().Add(10 * time.Millisecond)); err != nil {
			return err
		}
		if !slices.ContainsFunc(b.players, func(p *upgradePlayer) bool { return p.ended == endedNever && p.lost() > 0 }) {
			break
		}
	}
	b.skip()
	return nil
}
