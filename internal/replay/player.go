package replay

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"time"

	"tidegate/codec"
	"tidegate/internal/endpoint"
	"tidegate/internal/netio"
	"tidegate/internal/registry"
)

// player plays one script.
type player struct {
	*script
	conn      *endpoint.Conn[*player]
	starts    time.Time // when it dials
	connected time.Time // zero: not yet
	next      int       // index of the next line to say
	sent      int
	unsent    map[string]int   // lines that the codec refused, by its error
	joins     bool             // several messages may arrive as one
	present   registry.Numbers // of the present session; nil: messages contain none
	scratch   []byte
	answers   []codec.Message
	moved     time.Time // of the last answer, or when the queue last shrank
	queued    int       // bytes
	ended     ending
	closing   bool
	over      bool
}

// Speed divides the times of a script; 0 means as fast as possible.
type Speed float64

// of returns a duration of a script as it is played.
func (s Speed) of(d time.Duration) time.Duration {
	if s == 0 {
		return 0
	}
	return time.Duration(float64(d) / float64(s))
}

// dial begins to play.
func (p *player) dial(e *endpoint.Endpoint[*player], o *Options) error {
	hello := p.hello
	hello.Identity = rand.Uint64() | 1
	spoken := p.protocol.NewLike(registry.Use{Stream: p.of.Stream}, p.opening)
	p.joins = spoken.Spec().Joins
	if p.protocol.Number != nil {
		p.present = p.protocol.Number()
	}
	var err error
	if p.of.Stream {
		options := netio.StreamOptions{Prefix: netio.PrefixOf(p.protocol.Stream.Prefix)}
		p.conn, err = e.DialStreamHello(spoken, o.To, hello, options)
	} else {
		p.conn, err = e.DialHello(spoken, o.To, hello, netio.SocketOptions{})
	}
	if err == nil {
		p.conn.Value = p
	}
	return err
}

// event handles an event of the connection.
func (p *player) event(now time.Time, e *codec.Event) {
	switch e.Kind {
	case codec.Connected:
		p.connected, p.moved = now, now
	case codec.Received:
		m := e.Message
		m.Payload = bytes.Clone(m.Payload)
		if p.present != nil {
			p.present.ToCommon(true, m.Payload)
		}
		p.answers, p.moved = append(p.answers, m), now
	case codec.Disconnected:
		p.over = true
		if !p.closing {
			p.ended = byServer(e.Reason)
		}
	}
}

// play says the lines that are due, and leaves when the script is over. It reports whether there may be something to
// send, and when it wants to be called next.
func (p *player) play(now time.Time, o *Options) (said bool, next time.Time) {
	if p.connected.IsZero() || p.closing || p.over {
		return false, time.Time{}
	}
	for p.next < len(p.said) {
		l := &p.said[p.next]
		if at := p.connected.Add(o.Speed.of(l.at)); now.Before(at) {
			return said, at
		}
		err := p.say(now, l.Message)
		if errors.Is(err, codec.ErrFull) || errors.Is(err, errUnmade) && now.Before(p.moved.Add(o.Wait)) {
			return said, now.Add(fullPause)
		}
		p.next++
		if err != nil {
			p.unsent[err.Error()]++
			continue
		}
		p.sent++
		said = true
	}
	leave := p.leaves(now, o)
	if now.Before(leave) {
		return said, leave
	}
	p.closing, p.ended = true, byClient
	p.conn.Close(now, codec.Goodbye{Reason: codec.Closed})
	return true, time.Time{}
}

// errUnmade says that a message names a thing that the server has not made in this session.
var errUnmade = errors.New("the server has not made the named entity")

// say sends a message with the numbers of the present session.
func (p *player) say(now time.Time, m codec.Message) error {
	if p.present != nil {
		p.scratch = append(p.scratch[:0], m.Payload...)
		m.Payload = p.scratch
		if !p.present.FromCommon(m.Payload) {
			return errUnmade
		}
	}
	return p.conn.Send(now, m)
}

// fullPause is the time until a full queue is tried again.
const fullPause = 5 * time.Millisecond

// leaves returns when the player leaves: at the end of its script, and once no answer is missing, or the server has
// been silent and the queue has not moved for long enough.
func (p *player) leaves(now time.Time, o *Options) time.Time {
	end := p.lasts
	if p.end == byClient {
		end = p.leftAt
	}
	at := p.connected.Add(o.Speed.of(end))
	queued := p.conn.Stats().Queued // messages that wait, or that the server has not acknowledged
	if queued != p.queued {
		p.queued, p.moved = queued, now
	}
	if len(p.answers) < len(p.heard) || queued > 0 {
		if quiet := p.moved.Add(o.Wait); quiet.After(at) {
			at = quiet
		}
	}
	return at
}
