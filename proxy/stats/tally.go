package stats

import (
	"net/netip"
	"strings"
	"time"

	"tidegate/codec"
)

// Party is the client, upstream or proxy that ended a session.
type Party uint8

// Parties.
const (
	ByClient Party = iota
	ByUpstream
	ByProxy
	Parties
)

var partyNames = [Parties]string{"client", "upstream", "proxy"}

// String returns the party's name, as in logs and metrics.
func (p Party) String() string { return partyNames[p] }

// Tally counts sessions and messages of one listener's clients of one protocol. Counts never decrease.
type Tally struct {
	Listener, Protocol string // Protocol is the clients' protocol
	Opened             uint64 // sessions asked for
	Established        uint64 // sessions with both sides connected
	Ended              [Parties][codec.ReasonCount]uint64
	Unestablished      uint64                   // ended sessions that were never established
	Handshakes         Histogram                // time from the first datagram until both sides are connected
	FromClients        [codec.ModeCount]Traffic // by the mode in which clients sent
	FromUpstreams      [codec.ModeCount]Traffic // by the mode in which servers sent
}

// Open returns the number of open sessions.
func (t *Tally) Open() uint64 { return t.Opened - t.ended() }

// HalfOpen returns the number of open sessions that are not established.
func (t *Tally) HalfOpen() uint64 { return t.Opened - t.Established - t.Unestablished }

func (t *Tally) ended() (n uint64) {
	for by := range t.Ended {
		for _, count := range t.Ended[by] {
			n += count
		}
	}
	return n
}

// Establish counts a session whose sides are both connected, after a handshake of a duration.
func (t *Tally) Establish(took time.Duration) {
	t.Established++
	t.Handshakes.observe(took)
}

// End counts the end of a session.
func (t *Tally) End(blame Party, why codec.Reason, established bool) {
	t.Ended[blame][why]++
	if !established {
		t.Unestablished++
	}
}

// DropTally counts one listener's drops by reason, for client and upstream datagrams together. Counts never decrease.
type DropTally struct {
	Listener string
	Drops    [DropCount]uint64 // by Drop
}

// Tallies has one tally for each listener and protocol that a Relay ever had. A reload that removes a listener keeps
// its tallies, so totals never decrease.
type Tallies struct {
	Sessions []*Tally
	Drops    []*DropTally
	Servers  []*ServerTally
	sessions map[[2]string]*Tally  // by listener and protocol; of a Relay, not of a copy, as are those below
	drops    map[string]*DropTally // by listener
	servers  map[serverKey]*ServerTally
}

// Of returns the tally of a listener and protocol. It makes a missing one.
func (t *Tallies) Of(listener, protocol string) *Tally {
	if t.sessions == nil || len(t.sessions) != len(t.Sessions) { // a copy has no map
		t.sessions = make(map[[2]string]*Tally, len(t.Sessions))
		for _, one := range t.Sessions {
			t.sessions[[2]string{one.Listener, one.Protocol}] = one
		}
	}
	key := [2]string{listener, protocol}
	one := t.sessions[key]
	if one == nil {
		one = &Tally{Listener: listener, Protocol: protocol}
		t.Sessions, t.sessions[key] = append(t.Sessions, one), one
	}
	return one
}

// DropsOf returns the tally of a listener's drops. It makes a missing one.
func (t *Tallies) DropsOf(listener string) *DropTally {
	if t.drops == nil || len(t.drops) != len(t.Drops) {
		t.drops = make(map[string]*DropTally, len(t.Drops))
		for _, one := range t.Drops {
			t.drops[one.Listener] = one
		}
	}
	one := t.drops[listener]
	if one == nil {
		one = &DropTally{Listener: listener}
		t.Drops, t.drops[listener] = append(t.Drops, one), one
	}
	return one
}

// Clone returns a copy. It compares no names, because it runs in a loop's time.
func (t *Tallies) Clone() Tallies {
	return Tallies{Sessions: copies(t.Sessions), Drops: copies(t.Drops), Servers: copies(t.Servers)}
}

// copies returns pointers to copies, which lie together.
func copies[T any](all []*T) (list []*T) {
	memory := make([]T, len(all))
	for i, one := range all {
		memory[i] = *one
		list = append(list, &memory[i])
	}
	return list
}

// Add adds the tallies of another Relay.
func (t *Tallies) Add(o *Tallies) {
	for _, one := range o.Sessions {
		Add(t.Of(one.Listener, one.Protocol), one)
	}
	for _, one := range o.Drops {
		Add(t.DropsOf(one.Listener), one)
	}
	t.joinServers(o.Servers)
}

// MaxServers bounds the servers that a Tallies names. Reloads can bring new servers without end.
const MaxServers = 256

// OtherServers is the name under which servers count that have no tally of their own.
const OtherServers = "other"

// ServerTally counts the joins and checks of one configured server, and samples the connections of its sessions.
// Counts never decrease.
type ServerTally struct {
	Upstream, Server string
	Joined           uint64                    // connections that the server accepted
	Refused          [codec.ReasonCount]uint64 // connections that it refused or did not answer
	Checks           Histogram                 // round trips of passed health checks
	FailedChecks     uint64
	ToClients        Leg // of the sessions at this server
	ToServer         Leg
}

// Leg has the samples of one side of the sessions at a server.
type Leg struct {
	RTT    Histogram
	Resent uint64 // transmissions of messages to the side after their first
	Lost   uint64 // messages or datagrams to the side whose first transmission is known to be lost
}

// Legs returns both legs. A nil tally has none.
func (t *ServerTally) Legs() (toClients, toServer *Leg) {
	if t == nil {
		return nil, nil
	}
	return &t.ToClients, &t.ToServer
}

// AllRefused returns the number of refused connections.
func (t *ServerTally) AllRefused() (all uint64) {
	for _, n := range t.Refused {
		all += n
	}
	return all
}

// Checked counts a health check.
func (t *ServerTally) Checked(passed bool, rtt time.Duration) {
	if !passed {
		t.FailedChecks++
		return
	}
	t.Checks.observe(rtt)
}

// serverKey names a server. The zero address stands for OtherServers.
type serverKey struct {
	upstream string
	server   netip.AddrPort
}

// ServerOf returns the tally of a server, and makes a missing one. Servers beyond MaxServers share one for each
// upstream. So do servers with the zero address.
func (t *Tallies) ServerOf(upstream string, server netip.AddrPort) *ServerTally {
	upstream, _, _ = strings.Cut(upstream, ":") // without the port of a listener with many ports
	key := serverKey{upstream, server}
	if one := t.servers[key]; one != nil {
		return one
	}
	if len(t.servers) >= MaxServers {
		key.server = netip.AddrPort{}
	}
	name := OtherServers
	if key.server.IsValid() {
		name = server.String()
	}
	return t.addServer(key, name)
}

func (t *Tallies) addServer(key serverKey, name string) *ServerTally {
	if one := t.servers[key]; one != nil {
		return one
	}
	if t.servers == nil {
		t.servers = make(map[serverKey]*ServerTally)
	}
	one := &ServerTally{Upstream: key.upstream, Server: name}
	t.servers[key] = one
	t.Servers = append(t.Servers, one)
	return one
}

// joinServers adds the tallies of another Relay's servers.
func (t *Tallies) joinServers(servers []*ServerTally) {
next:
	for _, o := range servers {
		for _, one := range t.Servers {
			if one.Upstream == o.Upstream && one.Server == o.Server {
				Add(one, o)
				continue next
			}
		}
		t.Servers = append(t.Servers, o)
	}
}

// histogramBounds are the upper ends of a Histogram's buckets. They reach from a short turn of a loop to the round
// trip of a bad connection.
var histogramBounds = [...]time.Duration{
	10 * time.Microsecond, 20 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	1 * time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	1 * time.Second, 2 * time.Second, 5 * time.Second,
}

// Histogram counts durations by size, in fixed buckets from 10 µs to 5 s.
type Histogram struct {
	counts [len(histogramBounds) + 1]uint64 // the last one counts durations beyond every bound
	sum    time.Duration
}

func (h *Histogram) observe(d time.Duration) {
	i := 0
	for i < len(histogramBounds) && d > histogramBounds[i] {
		i++
	}
	h.counts[i]++
	h.sum += d
}

// Since returns the durations that were counted after an earlier copy.
func (h *Histogram) Since(before *Histogram) Histogram {
	since := Histogram{sum: h.sum - before.sum}
	for i := range h.counts {
		since.counts[i] = h.counts[i] - before.counts[i]
	}
	return since
}

// Quantile estimates a quantile, from 0 to 1, along the bucket that holds it. Without durations it returns 0.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := q * float64(h.Count())
	var below uint64
	var low time.Duration
	for i, bound := range histogramBounds {
		if n := h.counts[i]; n > 0 && float64(below+n) >= rank {
			return low + time.Duration((rank-float64(below))/float64(n)*float64(bound-low))
		}
		below, low = below+h.counts[i], bound
	}
	if below == h.Count() {
		return 0
	}
	return low
}

// Sum returns the sum of all counted durations.
func (h *Histogram) Sum() time.Duration { return h.sum }

// Count returns the number of counted durations.
func (h *Histogram) Count() (n uint64) {
	for _, c := range h.counts {
		n += c
	}
	return n
}

// Buckets yields each bucket's upper end and the number of durations up to that end, in rising order. Only Count
// includes durations beyond the last end.
func (h *Histogram) Buckets(yield func(bound time.Duration, count uint64) bool) {
	var n uint64
	for i, bound := range histogramBounds {
		n += h.counts[i]
		if !yield(bound, n) {
			return
		}
	}
}

// sizeBounds are the upper ends of the buckets of Sizes, in bytes.
var sizeBounds = [...]int{0, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20}

// Sizes counts sizes in bytes, in fixed buckets.
type Sizes struct {
	counts [len(sizeBounds) + 1]uint64 // the last one counts sizes beyond every bound
	Sum    uint64
}

func (h *Sizes) observe(n int) {
	i := 0
	for i < len(sizeBounds) && n > sizeBounds[i] {
		i++
	}
	h.counts[i]++
	h.Sum += uint64(max(n, 0))
}

// Cumulative returns the number of sizes up to each bound in bytes, and of all sizes.
func (h *Sizes) Cumulative() (upTo map[float64]uint64, all uint64) {
	upTo = make(map[float64]uint64, len(sizeBounds))
	for i, bound := range sizeBounds {
		all += h.counts[i]
		upTo[float64(bound)] = all
	}
	return upTo, all + h.counts[len(sizeBounds)]
}
