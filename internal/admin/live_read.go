package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"tidegate/internal/pause"
	"tidegate/proxy/relay"
)

// fewSessions is the number of sessions up to which Watch takes the mean round trips of all of them. With more, they
// are those of the last samples.
const fewSessions = 2000

func (l *Live) hasFew() bool { return l.Sessions+l.HalfOpen <= fewSessions }

// setMeans sets the means of the known round trips.
func (l *Live) setMeans(sessions []Session) {
	var client, server, clients, servers float64
	for i := range sessions {
		one := &sessions[i]
		client, server = client+one.Client.RTT, server+one.Server.RTT
		if one.Client.RTT > 0 {
			clients++
		}
		if one.Server.RTT > 0 {
			servers++
		}
	}
	l.Client.RTTMean, l.Server.RTTMean = client/max(clients, 1), server/max(servers, 1)
}

// silence is how long a live stream may say nothing before it counts as dead.
const silence = 10 * time.Second

// Watch gives take the figures of the proxy's live stream, until take returns an error, or the stream ends or stops.
func (c *Client) Watch(ctx context.Context, take func(*Live) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watchdog := time.AfterFunc(silence, cancel)
	defer watchdog.Stop()
	events, err := c.Stream(ctx, "/api/v1/live")
	if err != nil {
		return err
	}
	defer func() { _ = events.Close() }()
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 2*maxEvent)
	for lines.Scan() {
		watchdog.Reset(silence)
		text, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		var l Live
		if err := json.Unmarshal(text, &l); err != nil {
			return fmt.Errorf("figures of the proxy at %s: %w", c.address, err)
		}
		if l.hasFew() {
			var all Sessions
			if err := c.Get(ctx, fmt.Sprint("/api/v1/sessions?limit=", fewSessions), &all); err != nil {
				return err
			}
			l.setMeans(all.Sessions)
		}
		if err := take(&l); err != nil {
			return err
		}
	}
	return lines.Err()
}

// Watch yields the figures of a proxy in this process as its live stream has them, until ctx is done.
func Watch(ctx context.Context, p Proxy) iter.Seq[*Live] {
	return func(yield func(*Live) bool) {
		var m meter
		for now := range pause.Every(ctx, liveEvery) {
			q := &relay.ListSessions{Limit: fewSessions}
			figures, err := p.Figures(ctx)
			if err != nil || p.Ask(ctx, q) != nil {
				continue // the next second tries again
			}
			l := m.read(now, &figures)
			if l.hasFew() {
				l.setMeans(sessionsOf(q.Sessions))
			}
			if !yield(&l) {
				return
			}
		}
	}
}
