package admin

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
)

// Live is the JSON of the event "live". Rates are per second, since the event before. The first event has no rates.
type Live struct {
	At          time.Time      `json:"at"`
	Over        float64        `json:"over_seconds"` // time since the event before; 0: there was none
	Draining    bool           `json:"draining"`
	Sessions    uint64         `json:"sessions"` // established
	HalfOpen    uint64         `json:"half_open"`
	Joins       float64        `json:"joins"`        // handshakes that succeeded
	JoinsFailed float64        `json:"joins_failed"` // handshakes that failed
	Ended       float64        `json:"ended"`
	FromClients LiveTraffic    `json:"from_clients"` // messages; in relay mode, datagrams do not count here
	FromServers LiveTraffic    `json:"from_servers"`
	ClientIn    LiveTraffic    `json:"client_in"` // datagrams, without IP and UDP headers
	ClientOut   LiveTraffic    `json:"client_out"`
	ServerIn    LiveTraffic    `json:"server_in"`
	ServerOut   LiveTraffic    `json:"server_out"`
	Client      LiveLeg        `json:"client"`
	Server      LiveLeg        `json:"server"`
	TurnMedian  float64        `json:"turn_median_ms"` // estimated, of the loops' turns since the event before
	TurnP99     float64        `json:"turn_p99_ms"`
	TurnLongest float64        `json:"turn_longest_ms"` // of the last minute or two
	Drops       []LiveRate     `json:"drops"`           // by reason; only reasons with drops
	Kernel      []LiveRate     `json:"kernel"`          // datagrams judged by kernel filters, by hook and verdict
	Stages      []LiveRate     `json:"join_stages"`     // of NetherNet clients; only stages that joins have reached
	SocketDrops float64        `json:"socket_drops"`
	Bans        int            `json:"bans"`
	Floods      []LiveFlood    `json:"floods"` // under way
	Listeners   []LiveListener `json:"listeners"`
	Servers     []LiveServer   `json:"servers"`
}

// LiveTraffic is traffic per second.
type LiveTraffic struct {
	Count float64 `json:"count"`
	Bytes float64 `json:"bytes"`
}

// LiveLeg has the figures of one side of all sessions. Each session is sampled every 5 s.
type LiveLeg struct {
	RTTMedian float64 `json:"rtt_median_ms"` // estimated
	RTTP90    float64 `json:"rtt_p90_ms"`
	RTTMean   float64 `json:"rtt_mean_ms"`
	Resent    float64 `json:"resent"` // per second
	Lost      float64 `json:"lost"`   // per second
	Queued    int     `json:"queued_bytes"`
}

// LiveRate is a count per second.
type LiveRate struct {
	Name string  `json:"name"`
	Rate float64 `json:"rate"`
}

// LiveFlood is a flood of strangers at a listener.
type LiveFlood struct {
	Listener string     `json:"listener"`
	Rate     float64    `json:"rate"` // dropped datagrams of strangers per second
	Drops    []LiveRate `json:"drops"`
}

// LiveListener has the sessions of a listener.
type LiveListener struct {
	Listener string `json:"listener"`
	Protocol string `json:"protocol"`
	Sessions uint64 `json:"sessions"`
	HalfOpen uint64 `json:"half_open"`
}

// LiveServer has the figures of a configured server. Round trips are of the sessions at the server.
type LiveServer struct {
	Upstream  string  `json:"upstream"`
	Server    string  `json:"server"`
	Joins     float64 `json:"joins"`
	Refused   float64 `json:"refused"`
	PlayerRTT float64 `json:"player_rtt_median_ms"`
	ServerRTT float64 `json:"server_rtt_median_ms"`
	Lost      float64 `json:"lost"` // between Tidegate and the server, per second
}

// Bounds of an event's lists.
const (
	maxListeners   = 32
	maxFloods      = 8
	maxLiveServers = 64
	maxKernel      = 32
)

// floodRate is the rate of strangers' dropped datagrams at a listener from which it is called a flood, per second.
const floodRate = 200

// meter turns totals into rates. It keeps the totals of the event before.
type meter struct {
	at      time.Time
	before  relay.Figures
	trips   [2][3]float64 // of the last interval with samples: medians, 90 % and means, of clients and servers
	servers map[serverKey][2]float64
	stages  map[string]uint64 // of joins
}

// read returns the figures since the last call.
func (m *meter) read(now time.Time, f *relay.Figures) Live {
	before, over := &m.before, now.Sub(m.at).Seconds()
	if m.at.IsZero() {
		before, over = f, 0
	}
	rate := rates(over)
	l := Live{At: now.UTC(), Over: over, Draining: f.Draining, Bans: f.Bans}
	c, was := &f.Counters, &before.Counters
	l.FromClients, l.FromServers = rate.of(c.FromClients, was.FromClients), rate.of(c.FromUpstreams, was.FromUpstreams)
	l.ClientIn, l.ServerIn = rate.of(c.Clients.In, was.Clients.In), rate.of(c.Upstreams.In, was.Upstreams.In)
	l.ClientOut = rate.of(both(c.Clients.Out, c.RelayedDown), both(was.Clients.Out, was.RelayedDown))
	l.ServerOut = rate.of(both(c.Upstreams.Out, c.RelayedUp), both(was.Upstreams.Out, was.RelayedUp))
	l.Client = m.leg(0, rate, &f.ToClients, &before.ToClients)
	l.Server = m.leg(1, rate, &f.ToUpstreams, &before.ToUpstreams)
	turns := f.Turns.Since(&before.Turns)
	l.TurnMedian, l.TurnP99 = milliseconds(turns.Quantile(0.5)), milliseconds(turns.Quantile(0.99))
	for _, longest := range f.Longest {
		l.TurnLongest = max(l.TurnLongest, milliseconds(longest.Took))
	}
	m.sessions(&l, rate, f, before)
	m.drops(&l, rate, f, before)
	m.kernel(&l, rate, f, before)
	m.perServer(&l, rate, f, before)
	m.at, m.before = now, *f
	return l
}

// milliseconds returns a time with three decimals.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func both(a, b stats.Traffic) stats.Traffic {
	a.Join(b)
	return a
}

// rates divides by a time in seconds.
type rates float64

func (r rates) per(now, before uint64) float64 {
	if r <= 0 || now < before {
		return 0
	}
	return float64(now-before) / float64(r)
}

func (r rates) of(now, before stats.Traffic) LiveTraffic {
	return LiveTraffic{r.per(now.Messages, before.Messages), r.per(now.Bytes, before.Bytes)}
}

// leg returns one side's figures. An interval without samples shows the round trips of the one before.
func (m *meter) leg(i int, rate rates, now, before *stats.Samples) LiveLeg {
	since := now.RTT.Since(&before.RTT)
	if n := since.Count(); n > 0 {
		mean := since.Sum() / time.Duration(n)
		m.trips[i] = [3]float64{milliseconds(since.Quantile(0.5)), milliseconds(since.Quantile(0.9)), milliseconds(mean)}
	}
	t := &m.trips[i]
	return LiveLeg{t[0], t[1], t[2], rate.per(now.Resent, before.Resent), rate.per(now.Lost, before.Lost), now.Queued}
}

func (m *meter) sessions(l *Live, rate rates, f, before *relay.Figures) {
	var now, was [3]uint64
	for _, t := range f.Sessions {
		l.Sessions += t.Open() - t.HalfOpen()
		l.HalfOpen += t.HalfOpen()
		now[0], now[1], now[2] = now[0]+t.Established, now[1]+t.Unestablished, now[2]+t.Opened-t.Open()
		if len(l.Listeners) < maxListeners {
			l.Listeners = append(l.Listeners, LiveListener{t.Listener, t.Protocol, t.Open() - t.HalfOpen(), t.HalfOpen()})
		}
	}
	for _, t := range before.Sessions {
		was[0], was[1], was[2] = was[0]+t.Established, was[1]+t.Unestablished, was[2]+t.Opened-t.Open()
	}
	l.Joins, l.JoinsFailed = rate.per(now[0], was[0]), rate.per(now[1], was[1])
	l.Ended = max(rate.per(now[2], was[2])-l.JoinsFailed, 0)
}

// drops sets the rates of drops, and the floods.
func (m *meter) drops(l *Live, rate rates, f, before *relay.Figures) {
	l.Drops, l.Floods = []LiveRate{}, []LiveFlood{}
	var all [stats.DropCount]float64
	for _, t := range f.Drops {
		was := new(stats.DropTally)
		for _, b := range before.Drops {
			if b.Listener == t.Listener {
				was = b
			}
		}
		flood := LiveFlood{Listener: t.Listener}
		for why, n := range t.Drops {
			one := rate.per(n, was.Drops[why])
			all[why] += one
			if one > 0 && stats.Drop(why).OfStrangers() {
				flood.Rate += one
				flood.Drops = append(flood.Drops, LiveRate{stats.Drop(why).String(), one})
			}
		}
		if flood.Rate >= floodRate && len(l.Floods) < maxFloods {
			l.Floods = append(l.Floods, flood)
		}
	}
	for why, n := range all {
		if n > 0 {
			l.Drops = append(l.Drops, LiveRate{stats.Drop(why).String(), n})
		}
	}
	slices.SortStableFunc(l.Drops, func(a, b LiveRate) int { return cmp.Compare(b.Rate, a.Rate) })
}

func (m *meter) kernel(l *Live, rate rates, f, before *relay.Figures) {
	l.Kernel = []LiveRate{}
	for i, k := range f.Kernel.Filtered[:min(len(f.Kernel.Filtered), maxKernel)] {
		was := k.Datagrams
		if i < len(before.Kernel.Filtered) {
			was = before.Kernel.Filtered[i].Datagrams
		}
		l.Kernel = append(l.Kernel, LiveRate{k.Hook + " " + k.Verdict, rate.per(k.Datagrams, was)})
	}
	var now, was uint64
	for i := range f.Sockets {
		now += f.Sockets[i].KernelDrops + f.Sockets[i].FilterDrops + f.Sockets[i].DialedDrops
	}
	for i := range before.Sockets {
		was += before.Sockets[i].KernelDrops + before.Sockets[i].FilterDrops + before.Sockets[i].DialedDrops
	}
	l.SocketDrops = rate.per(now, was)
}

// joins sets the rates of joins by stage, after read.
func (m *meter) joins(l *Live, all map[string]Joins) {
	now := make(map[string]uint64)
	for _, one := range all {
		for stage, n := range one.Stages {
			now[stage] += n
		}
	}
	l.Stages = []LiveRate{}
	for _, stage := range slices.Sorted(maps.Keys(now)) {
		if rate := rates(l.Over).per(now[stage], m.stages[stage]); rate > 0 {
			l.Stages = append(l.Stages, LiveRate{stage, rate})
		}
	}
	m.stages = now
}

// perServer sets the figures of each server. An interval without samples shows the round trips of the one before.
func (m *meter) perServer(l *Live, rate rates, f, before *relay.Figures) {
	l.Servers = []LiveServer{}
	if m.servers == nil {
		m.servers = make(map[serverKey][2]float64)
	}
	for _, t := range f.Servers[:min(len(f.Servers), maxLiveServers)] {
		key, was := serverKey{t.Upstream, t.Server}, new(stats.ServerTally)
		for _, b := range before.Servers {
			if b.Upstream == t.Upstream && b.Server == t.Server {
				was = b
			}
		}
		trips := m.servers[key]
		for i, leg := range [][2]*stats.Leg{{&t.ToClients, &was.ToClients}, {&t.ToServer, &was.ToServer}} {
			if since := leg[0].RTT.Since(&leg[1].RTT); since.Count() > 0 {
				trips[i] = milliseconds(since.Quantile(0.5))
			}
		}
		m.servers[key] = trips
		l.Servers = append(l.Servers, LiveServer{
			t.Upstream, t.Server, rate.per(t.Joined, was.Joined), rate.per(t.AllRefused(), was.AllRefused()),
			trips[0], trips[1], rate.per(t.ToServer.Lost, was.ToServer.Lost),
		})
	}
}
