package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"tidegate/internal/pause"
	"tidegate/internal/upstream"
	"tidegate/proxy/relay"
	"tidegate/ratelimit"
)

// Bounds of the history: an hour takes some 250 KiB.
const (
	pastEvery   = 5 * time.Second
	maxPast     = int(time.Hour / pastEvery)
	maxPastDrop = 6 // reasons of drops of one point, those with the highest rates
)

// quietTime is the time without a breach after which the next breach of a limit is an event again.
const quietTime = time.Minute

// pastNames are the names of the series, as the dashboard's charts have them.
var pastNames = [...]string{"sessions", "half", "joins", "failed", "ended", "up", "down", "cin", "cout", "sin", "sout",
	"cinB", "coutB", "sinB", "soutB", "rttC", "rttS", "lostC", "lostS", "resentC", "resentS", "queuedC", "queuedS",
	"turn50", "turn99", "socket"}

// point has the figures of a moment.
type point struct {
	at     time.Time
	values [len(pastNames)]float32
	drops  []LiveRate
}

// pointOf returns the figures of an event of the live stream.
func pointOf(l *Live) point {
	p := point{at: l.At}
	for i, v := range [...]float64{
		float64(l.Sessions), float64(l.HalfOpen), l.Joins, l.JoinsFailed, l.Ended, l.FromClients.Count, l.FromServers.Count,
		l.ClientIn.Count, l.ClientOut.Count, l.ServerIn.Count, l.ServerOut.Count, l.ClientIn.Bytes, l.ClientOut.Bytes,
		l.ServerIn.Bytes, l.ServerOut.Bytes, l.Client.RTTMedian, l.Server.RTTMedian, l.Client.Lost, l.Server.Lost,
		l.Client.Resent, l.Server.Resent, float64(l.Client.Queued), float64(l.Server.Queued), l.TurnMedian, l.TurnP99,
		l.SocketDrops,
	} {
		p.values[i] = float32(v)
	}
	p.drops = append(p.drops, l.Drops[:min(len(l.Drops), maxPastDrop)]...)
	return p
}

// past collects the figures of the last hour, and finds events in them.
type past struct {
	server *Server
	meter  meter

	mu     sync.Mutex // guards the fields below
	points []point
	next   int
	limits [ratelimit.Quantities][ratelimit.Scopes]pastLimit

	known    bool // the fields below are of a collection before
	bans     int
	draining bool
	floods   map[string]bool
	drained  map[serverKey]bool
	lost     uint64    // datagrams of servers for which the kernel had no room
	untold   uint64    // those of them that no line of the log has told
	told     time.Time // by the log
	lostAt   time.Time // to within pastEvery
}

// pastLimit has the breaches of a limit until the last collection.
type pastLimit struct {
	observed, enforced uint64
	last               time.Time
}

// run collects until ctx is done, the first time at once.
func (p *past) run(ctx context.Context) {
	for range pause.Every(ctx, pastEvery) {
		p.collect(ctx)
	}
}

func (p *past) collect(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if figures, err := p.server.Proxy.Figures(asking); err == nil {
		p.take(time.Now(), &figures)
	}
}

// take adds figures, and reports what has changed.
func (p *past) take(now time.Time, f *relay.Figures) {
	l := p.meter.read(now, f)
	upstreams := p.server.Proxy.Upstreams()
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := pointOf(&l); len(p.points) < maxPast {
		p.points = append(p.points, one)
	} else {
		p.points[p.next] = one
		p.next = (p.next + 1) % maxPast
	}
	events, drained := p.server.Events, make(map[serverKey]bool)
	for i := range upstreams {
		for j := range upstreams[i].Servers {
			if s := &upstreams[i].Servers[j]; s.State == upstream.Draining {
				drained[serverKey{upstreams[i].Name, s.Addr.String()}] = true
			}
		}
	}
	p.findLimits(now, f)
	p.findFloods(&l)
	p.findLost(now, f)
	if p.known {
		tellChanges(drained, p.drained, func(s serverKey, is bool) {
			events.Add("drain", false, "server %s of %s: %s", s.server, s.upstream, words(is, "drained", "takes players again"))
		})
		if l.Bans != p.bans {
			events.Add("ban", false, "%d networks are banned, before %d", l.Bans, p.bans)
		}
		if l.Draining != p.draining {
			events.Add("drain", true, "the proxy %s", words(l.Draining, "admits no new players", "admits players again"))
		}
	}
	p.known, p.bans, p.draining, p.drained = true, l.Bans, l.Draining, drained
}

func words(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// tellChanges calls tell for each key that only one of two sets has.
func tellChanges[K comparable](now, before map[K]bool, tell func(K, bool)) {
	for k := range now {
		if !before[k] {
			tell(k, true)
		}
	}
	for k := range before {
		if !now[k] {
			tell(k, false)
		}
	}
}

func (p *past) findFloods(l *Live) {
	now := make(map[string]bool)
	for i := range l.Floods {
		now[l.Floods[i].Listener] = true
	}
	tellChanges(now, p.floods, func(listener string, is bool) {
		p.server.Events.Add("flood", is, "flood at listener %s %s", listener, words(is, "began", "is over"))
	})
	p.floods = now
}

// roomRemedy is what helps if the kernel has no room for datagrams.
const roomRemedy = "raise loop.receive_buffer and net.core.rmem_max, or add loops"

// findLost tells of datagrams of servers for which the kernel had no room: the first ones at once, then once a minute.
func (p *past) findLost(now time.Time, f *relay.Figures) {
	was := p.lost
	p.lost = 0
	for i := range f.Sockets {
		p.lost += f.Sockets[i].DialedDrops
	}
	if p.lost > was {
		p.untold, p.lostAt = p.untold+p.lost-was, now
	}
	if p.untold > 0 && now.Sub(p.told) >= quietTime {
		p.server.Log.Warn().Uint64("datagrams", p.untold).Str("remedy", roomRemedy).Msg("no room for what servers send")
		p.untold, p.told = 0, now
	}
}

// kernel says in the answer to why what the kernel had no room for, if it lacked room in the last hour.
func (p *past) kernel() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost == 0 || time.Since(p.lostAt) > time.Hour {
		return ""
	}
	return fmt.Sprintf("no room for %d datagrams of servers since the start, last at %s: %s", p.lost,
		p.lostAt.UTC().Format(time.RFC3339), roomRemedy)
}

// findLimits notes breaches of limits. Only the first one after a quiet minute is an event.
func (p *past) findLimits(now time.Time, f *relay.Figures) {
	for of := range ratelimit.Quantities {
		for per := range ratelimit.Scopes {
			was, b := &p.limits[of][per], &f.Counters.Limits[of][per]
			if b.Observed == was.observed && b.Enforced == was.enforced {
				continue
			}
			last := now
			if !p.known {
				last = time.Time{} // these may be a predecessor's: if they go on, that is an event
			} else if now.Sub(was.last) > quietTime {
				p.server.Events.Add("limit", true, "limit of %v per %v is broken: %s", of, per,
					words(b.Enforced > was.enforced, "enforced", "observed only"))
			}
			*was = pastLimit{b.Observed, b.Enforced, last}
		}
	}
}

// Past is the JSON of the figures of the last hour. Each series has a value for each time.
type Past struct {
	Every  float64      `json:"every_seconds"`
	Times  []float64    `json:"times"` // Unix time in seconds
	Series []PastSeries `json:"series"`
}

// PastSeries is the JSON of one figure over time. Counts are per second.
type PastSeries struct {
	Name   string    `json:"name"`
	Values []float64 `json:"values"`
}

func (s *Server) listPast(*http.Request) (Past, error) {
	p := &s.past
	p.mu.Lock()
	defer p.mu.Unlock()
	out := Past{Every: pastEvery.Seconds(), Times: []float64{}, Series: make([]PastSeries, len(pastNames))}
	for i, name := range pastNames {
		out.Series[i] = PastSeries{name, make([]float64, 0, len(p.points))}
	}
	byReason := make(map[string]int)
	for i := range p.points {
		one := &p.points[(p.next+i)%len(p.points)]
		out.Times = append(out.Times, float64(one.at.UnixMilli())/1000)
		for k, v := range one.values {
			out.Series[k].Values = append(out.Series[k].Values, float64(v))
		}
		for _, d := range one.drops {
			k, ok := byReason[d.Name]
			if !ok {
				k = len(out.Series)
				byReason[d.Name] = k
				out.Series = append(out.Series, PastSeries{"drop " + d.Name, make([]float64, len(p.points))})
			}
			out.Series[k].Values[i] = d.Rate
		}
	}
	return out, nil
}

// LimitList is the JSON of the limits that were broken, and of the bounds of [limits] with their use.
type LimitList struct {
	Limits []LimitState `json:"limits"`
	Bounds []BoundState `json:"bounds"`
}

// LimitState is the JSON of the breaches of one kind of limit since the start.
type LimitState struct {
	Of       string    `json:"of"`
	Per      string    `json:"per"`
	Observed uint64    `json:"observed"` // the traffic passed
	Enforced uint64    `json:"enforced"`
	Last     time.Time `json:"last"` // to within 5 s
}

// BoundState is the JSON of a bound of [limits] and its use now.
type BoundState struct {
	Key   string `json:"key"`
	Used  int    `json:"used"`
	Bound int    `json:"bound"`
}

func (s *Server) listLimits(r *http.Request) (LimitList, error) {
	out := LimitList{[]LimitState{}, []BoundState{}}
	f, err := s.Proxy.Figures(r.Context())
	if err != nil {
		return out, err
	}
	p := &s.past
	p.mu.Lock()
	defer p.mu.Unlock()
	for of := range ratelimit.Quantities {
		for per := range ratelimit.Scopes {
			if b := &f.Counters.Limits[of][per]; b.Observed+b.Enforced > 0 {
				last := p.limits[of][per].last
				out.Limits = append(out.Limits, LimitState{of.String(), per.String(), b.Observed, b.Enforced, last.UTC()})
			}
		}
	}
	bounds, used := s.Limits(), make(map[string]int)
	for _, t := range f.Sessions {
		used["sessions"] += int(t.Open() - t.HalfOpen())
		used["half_open"] += int(t.HalfOpen())
	}
	for _, key := range strings.Fields("sessions half_open") {
		if bounds[key] > 0 {
			out.Bounds = append(out.Bounds, BoundState{key, used[key], bounds[key]})
		}
	}
	return out, nil
}
