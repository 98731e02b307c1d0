package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"tidegate/internal/pause"
	"tidegate/proxy/relay"
	"tidegate/session"
)

// Bounds of the live stream.
const (
	liveEvery  = time.Second
	maxStreams = 16       // open pages and commands
	maxEvent   = 64 << 10 // bytes of one event
)

// errStreams says that too many pages are open.
var errStreams = errors.New("too many live streams are open: close a page")

// errLong says that an event is too long to send.
var errLong = errors.New("the figures do not fit in one event")

// live collects the figures of all live streams. While there is no stream, it does nothing.
type live struct {
	server  *Server
	mu      sync.Mutex
	streams map[*stream]struct{}
	stop    context.CancelFunc // of the collector; nil: it does not run
}

// stream is one reader of the live figures. A slow reader misses events; no event waits for it.
type stream struct {
	session session.ID  // 0: none
	events  chan []byte // holds the newest event
}

// stream answers with server-sent events, one a second, until the client disconnects. The event "live" has the
// figures of the proxy. With the parameter session, the event "session" has those of a session.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	if err := checkQuery(r, []string{"session"}); err != nil {
		refuse(w, statusOf(err), err.Error())
		return
	}
	one := &stream{events: make(chan []byte, 1)}
	if text := r.URL.Query().Get("session"); text != "" {
		id, err := session.ParseID(text)
		if err != nil {
			refuse(w, http.StatusBadRequest, err.Error())
			return
		}
		one.session = id
	}
	if err := s.pages.open(one); err != nil {
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	defer s.pages.close(one)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	_ = http.NewResponseController(w).Flush()
	for event := range pause.On(r.Context(), one.events) {
		limitTime(w, writeTimeout) // extended each time
		if _, err := w.Write(event); err != nil || http.NewResponseController(w).Flush() != nil {
			return
		}
	}
}

// open adds a stream. The first one starts the collector.
func (l *live) open(one *stream) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.streams) >= maxStreams {
		return errStreams
	}
	l.streams[one] = struct{}{}
	if l.stop == nil {
		var ctx context.Context
		ctx, l.stop = context.WithCancel(context.Background())
		go l.run(ctx)
	}
	return nil
}

// close removes a stream. The last one stops the collector, and the last one of a session ends its watch.
func (l *live) close(one *stream) {
	l.mu.Lock()
	delete(l.streams, one)
	last := one.session != 0
	for other := range l.streams {
		last = last && other.session != one.session
	}
	if len(l.streams) == 0 {
		l.stop()
		l.stop = nil
	}
	l.mu.Unlock()
	if last {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = l.server.Proxy.Ask(ctx, &relay.UnwatchSession{ID: one.session}) // the session may have ended
	}
}

// run collects until ctx is done.
func (l *live) run(ctx context.Context) {
	var meter meter
	for range pause.Every(ctx, liveEvery) {
		l.collect(ctx, &meter)
	}
}

// collect gives all streams the newest figures. The figures of the proxy are collected once for all streams, and those
// of a session once for all that show it.
func (l *live) collect(ctx context.Context, m *meter) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	now := time.Now()
	figures, err := l.server.Proxy.Figures(ctx)
	if err != nil {
		return // the next round tries again; readers see that no event comes
	}
	read := m.read(now, &figures)
	m.joins(&read, l.server.Joins())
	common := event("live", read)
	sessions := make(map[session.ID][]byte)
	l.mu.Lock()
	present := slices.Collect(maps.Keys(l.streams))
	l.mu.Unlock()
	for _, one := range present {
		text := common
		if one.session != 0 {
			if sessions[one.session] == nil {
				sessions[one.session] = l.session(ctx, one.session)
			}
			text = append(append([]byte(nil), common...), sessions[one.session]...)
		}
		one.offer(text)
	}
}

// session returns the event of a session, or that it has ended.
func (l *live) session(ctx context.Context, id session.ID) []byte {
	q := &relay.WatchSession{ID: id}
	if err := l.server.Proxy.Ask(ctx, q); err != nil {
		return event("ended", refusal{fmt.Sprintf("session %s: %v", id, err)})
	}
	return event("session", watchedOf(q.Watched))
}

// offer replaces an event that the reader has not taken yet.
func (one *stream) offer(text []byte) {
	select {
	case <-one.events:
	default:
	}
	one.events <- text // the collector is the only sender
}

// event returns a server-sent event.
func event(name string, value any) []byte {
	text, err := json.Marshal(value)
	if err == nil && len(text) > maxEvent {
		name, err = "error", errLong
	}
	if err != nil {
		text, _ = json.Marshal(refusal{err.Error()})
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, text)
}

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
