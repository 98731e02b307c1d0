package replay

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/decode"
	"tidegate/internal/endpoint"
)

// Options configure a replay.
type Options struct {
	To       netip.AddrPort
	Speed    Speed         // of the capture
	Wait     time.Duration // how long the server may be silent while answers are missing
	Protocol string        // overrides the protocol of the capture; empty: none
	Port     uint16        // only the server at this port; 0: all
	Upstream bool          // of Tidegate's own captures, play Tidegate's side towards its servers, not the clients
}

// Errors of Run.
var (
	errNothing = errors.New("no conversation of a known protocol")
	errSides   = errors.New("no conversation on that side of the proxy")
)

// maxPlayers bounds the conversations that are played.
const maxPlayers = 10_000

// Run plays all conversations of a capture, each at its time, and compares. It returns the report once all of them have
// ended, or ctx is done.
func Run(ctx context.Context, path string, o Options) (*Report, error) {
	scripts, report, err := read(path, &o)
	if err != nil {
		return nil, err
	}
	s := &stage{options: &o}
	s.Endpoint, err = endpoint.New(endpoint.Options[*player]{Event: s.event, Limit: maxPlayers})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }() // all connections have ended, or are given up
	stop := context.AfterFunc(ctx, s.Wake)
	defer stop()
	if err := s.run(ctx, scripts); err != nil {
		return nil, err
	}
	for _, p := range s.players {
		report.add(compare(p))
	}
	return report, nil
}

// read reads the scripts of a capture, and begins the report.
func read(path string, o *Options) ([]*script, *Report, error) {
	all, unknown, err := decode.Conversations(path, decode.Options{Protocol: o.Protocol, Port: o.Port})
	if err != nil && len(all) == 0 {
		return nil, nil, err
	}
	report := &Report{File: path, To: o.To.String(), Unknown: unknown, Same: true}
	if err != nil {
		report.Damage = err.Error()
	}
	sides := 0
	var scripts []*script
	for _, c := range all {
		if c.Upstream != o.Upstream {
			sides++
			continue
		}
		s, err := newScript(c, o.Protocol)
		if err != nil {
			report.Skipped = append(report.Skipped, Skipped{c.Client, err.Error()})
			continue
		}
		if !s.begins && len(s.said) == 0 {
			report.Skipped = append(report.Skipped, Skipped{c.Client, "the client neither joined nor sent a message"})
			continue
		}
		scripts = append(scripts, s)
	}
	switch {
	case len(scripts) > maxPlayers:
		return nil, nil, fmt.Errorf("%d conversations: want at most %d", len(scripts), maxPlayers)
	case len(scripts) == 0 && len(report.Skipped) > 0:
		return nil, nil, fmt.Errorf("nothing can be played: %s: %s", report.Skipped[0].Client, report.Skipped[0].Why)
	case len(scripts) == 0 && sides > 0:
		return nil, nil, errSides
	case len(scripts) == 0:
		return nil, nil, errNothing
	}
	return scripts, report, nil
}

// stage plays all scripts on one goroutine.
type stage struct {
	*endpoint.Endpoint[*player]
	options *Options
	players []*player
}

func (s *stage) event(c *endpoint.Conn[*player], e *codec.Event) {
	if c.Value != nil {
		c.Value.event(s.Now(), e)
	}
}

// run plays until all players are over or ctx is done.
func (s *stage) run(ctx context.Context, scripts []*script) error {
	began := time.Now()
	first := scripts[0].opened
	for _, one := range scripts {
		first = min(first, one.opened)
	}
	for _, one := range scripts {
		s.players = append(s.players, &player{
			script: one, starts: began.Add(s.options.Speed.of(one.opened - first)), unsent: make(map[string]int), ended: open,
		})
	}
	for ctx.Err() == nil {
		next, err := s.step()
		if err != nil {
			return err
		}
		s.Flush() // a goodbye may end a connection at once
		if !slices.ContainsFunc(s.players, func(p *player) bool { return !p.over }) {
			return nil
		}
		if err := s.Turn(next); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// step lets each player do its due work. It returns when the next one has some.
func (s *stage) step() (next time.Time, err error) {
	now := time.Now()
	for _, p := range s.players {
		if p.over {
			continue
		}
		if p.conn == nil {
			if now.Before(p.starts) {
				next = codec.Earliest(next, p.starts)
				continue
			}
			if err := p.dial(s.Endpoint, s.options); err != nil {
				return next, fmt.Errorf("connect to %s: %w", s.options.To, err)
			}
		}
		said, due := p.play(now, s.options)
		if said {
			s.Touch(p.conn)
		}
		next = codec.Earliest(next, due)
	}
	return next, nil
}
