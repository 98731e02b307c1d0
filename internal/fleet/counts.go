package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/fleet/view"
)

// Times of reports.
const (
	reportEvery = 250 * time.Millisecond // at least, unless Options says otherwise
	repeatEvery = 2 * time.Second        // a report without a change; it also has the newest counts of protocols
	applyEvery  = 20 * time.Millisecond  // at least, for the reports of all nodes together
	paceOfNode  = 20 * time.Millisecond  // between two reports, for each node: all hear each report
)

// early reports whether a report is too early for the number of nodes. Reports leave by a ticker.
func early(since, every time.Duration, nodes int) bool {
	return since+every/2 < min(time.Duration(nodes)*paceOfNode, repeatEvery)
}

var errTwin = errors.New("another process reports by this node's name; give each node its own fleet.node")

// counts tells the other nodes how many sessions this node has, and hears theirs.
type counts struct {
	gossip
	games GameServers

	last   report    // of this node
	tellAt time.Time // of the next report, at the latest

	// The lock of gossip guards these.
	unread  map[string][]byte // the newest report of each node
	size    int               // bytes of unread
	account account
	own     Node
	beyond  int
	lag     time.Duration
}

func newCounts(self identity, every time.Duration, games GameServers) *counts {
	c := &counts{
		games: games, last: report{Instance: rand.Text()}, unread: make(map[string][]byte), account: newAccount(),
		own: Node{Name: self.node},
	}
	c.gossip = gossip{
		identity: self, kind: "counts", every: cmp.Or(every, reportEvery), wake: make(chan struct{}, 1),
		hear: c.hear, read: c.read, tell: c.tell,
	}
	return c
}

// hear keeps the newest report of each node until it is read.
func (c *counts) hear(node string, value []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	older, known := c.unread[node]
	size := c.size + len(value) - len(older)
	switch {
	case len(value) > maxReport:
		c.invalid(node, errReportSize)
	case !known && len(c.unread) > maxNodes, size > maxUnread: // this node's own reports arrive too
		c.status.NoRoom++
	default:
		c.unread[node], c.size = value, size
	}
}

// read takes the reports that have arrived since the last call. All readings together use at most a tenth of a core.
func (c *counts) read() (rest time.Duration) {
	now := time.Now()
	c.mu.Lock()
	unread := c.unread
	c.unread, c.size = make(map[string][]byte), 0
	c.mu.Unlock()
	changed := false
	for node, value := range unread {
		r, err := parseReport(value) // not under the lock: it takes a while
		c.mu.Lock()
		changed = c.take(now, node, r, err) || changed
		c.mu.Unlock()
	}
	if changed {
		c.apply()
	}
	return max(applyEvery, 9*time.Since(now))
}

// take merges the report of a node. It reports whether the sum has changed.
func (c *counts) take(now time.Time, node string, r *report, err error) (changed bool) {
	if err == nil && node == c.node {
		if r.Instance != c.last.Instance {
			c.invalid(node, errTwin)
		}
		return false
	}
	known := err == nil && c.account.nodes[node] != nil && c.account.nodes[node].Instance == r.Instance
	if err == nil {
		changed, err = c.account.take(now, node, r)
	}
	switch {
	case errors.Is(err, errRoom):
		c.status.NoRoom++
		return false
	case errors.Is(err, errOldNews):
		return false
	case err != nil:
		c.invalid(node, err)
		return false
	}
	c.status.Received++
	if changed && known {
		c.lag = lagOf(r.Sent, now)
	}
	if !known {
		c.tellAt = time.Time{} // a new node hears this one soon
	}
	return changed
}

// expire forgets silent nodes.
func (c *counts) expire(now time.Time) {
	c.mu.Lock()
	changed := c.account.expire(now)
	c.mu.Unlock()
	if changed {
		c.apply()
	}
}

// apply hands the sum to the game servers of this node.
func (c *counts) apply() {
	c.mu.Lock()
	sum := c.account.snapshot()
	c.mu.Unlock()
	c.games.SetFleetSessions(sum)
}

// tell returns this node's counts if they have changed, or if the last report is old.
func (c *counts) tell(ctx context.Context, now time.Time) ([]byte, error) {
	c.expire(now)
	servers := c.games.ServerCounts()
	slices.SortFunc(servers, func(a, b ServerCount) int {
		return cmp.Or(cmp.Compare(a.Upstream, b.Upstream), a.Addr.Compare(b.Addr))
	})
	c.mu.Lock()
	due, nodes := !now.Add(c.every/2).Before(c.tellAt), len(c.account.nodes)+1
	c.mu.Unlock()
	if !due && (early(now.Sub(c.last.Sent), c.every, nodes) || slices.Equal(servers, c.own.Servers)) {
		return nil, nil
	}
	protocols := c.own.Protocols
	if due {
		asking, cancel := context.WithTimeout(ctx, lastChances)
		defer cancel()
		if fresh, err := c.games.ProtocolCounts(asking); err == nil { // else a loop is late
			protocols = fresh
		}
	}
	shared, beyond := shareable(servers)
	c.last.Number++
	c.last.Sent, c.last.Servers, c.last.Protocols = time.Now().UTC(), shared, protocols
	c.mu.Lock()
	c.own = Node{Name: c.node, Servers: servers, Protocols: protocols}
	c.beyond = beyond
	if due {
		c.tellAt = now.Add(repeatEvery)
	}
	c.mu.Unlock()
	return c.last.format()
}

// shareable returns the servers that a report has room for, those with the most sessions first if there are too many.
func shareable(all []ServerCount) (shared []ServerCount, beyond int) {
	for _, s := range all {
		if (gameServer{s.Upstream, s.Addr}).valid() && isCount(s.Sessions) {
			shared = append(shared, s)
		}
	}
	if len(shared) > maxServers {
		slices.SortStableFunc(shared, func(a, b ServerCount) int { return cmp.Compare(b.Sessions, a.Sessions) })
		shared = shared[:maxServers]
	}
	return shared, len(all) - len(shared)
}

func (c *counts) addTo(s *view.Fleet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Nodes = len(c.account.nodes)
	s.Reports = view.Reports{Exchange: c.status, Beyond: c.beyond, Lag: c.lag.Round(time.Microsecond).Seconds()}
}

// nodes returns the number of nodes whose counts are known, with this one.
func (c *counts) nodes() int {
	if c == nil {
		return 1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.account.nodes) + 1
}

// list returns the accounts of all nodes, by name.
func (c *counts) list(now time.Time) []Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := append(c.account.list(now), c.own)
	slices.SortFunc(all, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Bounds of a report.
const (
	maxReport    = 768 << 10 // bytes; below the 1 MiB that NATS allows by default
	maxServers   = 2000      // of one node
	maxProtocols = 64
	maxSessions  = 1 << 24 // in one number
)

var (
	errReportSize = fmt.Errorf("more than %d bytes, %d servers or %d protocols", maxReport, maxServers, maxProtocols)
	errReport     = errors.New("a report with a number, a word or a server that no node has")
	errTwice      = errors.New("a report with a server or a protocol twice")
)

// report is what a node tells all others about its sessions. Each report is complete, so a lost one does no harm.
// Readers ignore fields that they do not know.
type report struct {
	Instance  string          `json:"instance"` // of the node's process
	Number    uint64          `json:"number"`   // grows with each report of an instance
	Sent      time.Time       `json:"sent"`
	Servers   []ServerCount   `json:"servers"`
	Protocols []ProtocolCount `json:"protocols"`
}

// format returns a report as other nodes read it. Its caller keeps the bounds.
func (r *report) format() ([]byte, error) { return json.Marshal(r) }

// parseReport reads a report. Its sender may be hostile: all parts are checked and bounded.
func parseReport(value []byte) (*report, error) {
	r := new(report)
	if len(value) > maxReport {
		return nil, errReportSize
	}
	if err := json.Unmarshal(value, r); err != nil {
		return nil, err
	}
	if len(r.Servers) > maxServers || len(r.Protocols) > maxProtocols {
		return nil, errReportSize
	}
	if r.Sent = r.Sent.UTC(); r.Sent.Year() < 1 || r.Sent.Year() > 9999 || r.Sent.IsZero() {
		return nil, errTime
	}
	if !isWord(r.Instance) {
		return nil, errReport
	}
	if err := r.checkServers(); err != nil {
		return nil, err
	}
	return r, r.checkProtocols()
}

// checkServers checks the servers, and lets them share the few names that most of them have.
func (r *report) checkServers() error {
	seen, names := make(map[gameServer]struct{}, len(r.Servers)), make(map[string]string)
	intern := func(name *string) {
		if _, ok := names[*name]; !ok {
			names[*name] = *name
		}
		*name = names[*name]
	}
	for i := range r.Servers {
		s := &r.Servers[i]
		one := gameServer{s.Upstream, s.Addr}
		if !one.valid() || !isCount(s.Sessions) || !isWord(s.State) {
			return errReport
		}
		if seen[one] = struct{}{}; len(seen) != i+1 {
			return errTwice
		}
		intern(&s.Upstream)
		intern(&s.State)
	}
	return nil
}

func (r *report) checkProtocols() error {
	seen := make(map[string]struct{}, len(r.Protocols))
	for i, p := range r.Protocols {
		if !isWord(p.Protocol) || !isCount(p.Established) || !isCount(p.HalfOpen) {
			return errReport
		}
		if seen[p.Protocol] = struct{}{}; len(seen) != i+1 {
			return errTwice
		}
	}
	return nil
}

func isCount(n int) bool { return n >= 0 && n <= maxSessions }

// GameServers are the game servers of this node. It must be safe for concurrent use.
type GameServers interface {
	// Drained returns the drained servers by upstream.
	Drained() map[string][]netip.AddrPort
	// SetFleetDrain drains a server, or ends the drain if since is zero. The server may be unknown at this node.
	SetFleetDrain(upstream string, server netip.AddrPort, since time.Time)
	// OnDrain sets the function that hears of changes by operators.
	OnDrain(tell func(upstream string, server netip.AddrPort, drain bool) (known bool))
	// ServerCounts returns this node's account of its servers.
	ServerCounts() []ServerCount
	// ProtocolCounts returns this node's account of its clients. It waits for the loops, as long as ctx allows.
	ProtocolCounts(ctx context.Context) ([]ProtocolCount, error)
	// SetFleetSessions replaces the counts of the sessions that other nodes have. They may have servers that this node
	// does not have. The caller does not change the maps any more.
	SetFleetSessions(counts map[string]map[netip.AddrPort]int)
}

// ServerCount is a node's account of one game server.
type ServerCount struct {
	Upstream string         `json:"u"`
	Addr     netip.AddrPort `json:"s"`
	Sessions int            `json:"n"`
	State    string         `json:"state"` // by the node's own checks
}

// ProtocolCount is a node's account of the clients of one protocol.
type ProtocolCount struct {
	Protocol    string `json:"p"`
	Established int    `json:"n"`
	HalfOpen    int    `json:"half_open"`
}

// maxUpstream bounds an upstream's name, in bytes.
const maxUpstream = 128

var errServer = errors.New("no name of an upstream and address of a server that can be shared")

// gameServer identifies a game server at all nodes: the name of its upstream and its address.
type gameServer struct {
	upstream string
	addr     netip.AddrPort
}

// valid reports whether the bucket can have a record of the server.
func (s gameServer) valid() bool {
	addr := s.addr.Addr()
	return isName(s.upstream, maxUpstream) && addr.IsValid() && addr.Zone() == "" && addr.Unmap() == addr &&
		s.addr.Port() != 0
}

// key returns the server's key in the bucket: name, address and port. Name and address are in hexadecimal digits.
func (s gameServer) key() string {
	return hex.EncodeToString([]byte(s.upstream)) + "/" + hex.EncodeToString(s.addr.Addr().AsSlice()) + "/" +
		strconv.Itoa(int(s.addr.Port()))
}

// parseServerKey returns the server of a key.
func parseServerKey(key string) (gameServer, error) {
	parts := strings.Split(key, "/")
	if len(parts) != 3 {
		return gameServer{}, errServer
	}
	name, err := hex.DecodeString(parts[0])
	raw, bad := hex.DecodeString(parts[1])
	addr, ok := netip.AddrFromSlice(raw)
	port, wrong := strconv.ParseUint(parts[2], 10, 16)
	s := gameServer{string(name), netip.AddrPortFrom(addr, uint16(port))}
	if err != nil || bad != nil || !ok || wrong != nil || !s.valid() || s.key() != key {
		return gameServer{}, errServer
	}
	return s, nil
}
