package fleet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/banfile"
	"tidegate/internal/fleet/view"
)

// maxDrains bounds the game servers of which a node shares drains. Drains beyond it hold only at their node. A test
// lowers it.
var maxDrains = 10_000

// Drain is a game server that the fleet drains.
type Drain struct {
	Upstream string
	Addr     netip.AddrPort
	Node     string // where an operator drained it
	Since    time.Time
}

// drains shares drains. It hears of changes by this node's operators, and does not compare tables: a server that a node
// does not list any more stays drained.
type drains struct {
	bucketSync[gameServer, *drainRecord]
	ledger ledger[gameServer, *drainRecord]
	games  GameServers
}

func newDrains(self identity, replicas int, games GameServers) *drains {
	d := &drains{games: games}
	d.ledger = newLedger(self.node, d.hasRoom, d.follow)
	d.bucketSync = bucketSync[gameServer, *drainRecord]{
		identity: self, content: content{"drains", "servers", replicas, 32 << 20, maxDrainRecord},
		parseKey: parseServerKey, parse: parseDrain, ledger: &d.ledger,
		merge: d.merge, survey: func(time.Time) {}, complete: d.complete,
	}
	d.prepare()
	return d
}

// hasRoom reports whether the ledger has room for another server. It forgets records without effect first.
func (d *drains) hasRoom(now time.Time) bool {
	if len(d.ledger.entries) >= maxDrains {
		d.ledger.forget(now)
	}
	return len(d.ledger.entries) < maxDrains
}

// follow gives the game servers of this node the state of a record.
func (d *drains) follow(_, r *drainRecord) {
	if r == nil {
		return
	}
	since := time.Time{}
	if r.drained {
		since = r.changed
	}
	d.games.SetFleetDrain(r.server.upstream, r.server.addr, since)
}

// change notes a change by an operator of this node. It reports whether the fleet has a record of the server.
func (d *drains) change(upstream string, addr netip.AddrPort, drained bool) (known bool) {
	d.do(func() { known = d.note(time.Now(), gameServer{upstream, addr}, drained) })
	signal(d.changed)
	return known
}

func (d *drains) note(now time.Time, s gameServer, drained bool) bool {
	l, r := &d.ledger, &drainRecord{s, drained, now, d.node}
	e := l.entries[s]
	switch {
	case e == nil && !drained:
		return false
	case e == nil && (!s.valid() || !d.hasRoom(now)):
		l.beyond++
		return false
	case e == nil:
	case e.record.drained == drained:
		d.follow(nil, e.record)
		return drained
	default:
		r.changed = later(now, e.record.changed)
	}
	l.change(r)
	return true
}

// complete gives the fleet the drains that a predecessor has left.
func (d *drains) complete(now time.Time) {
	for upstream, addrs := range d.games.Drained() {
		for _, addr := range addrs {
			if s := (gameServer{upstream, addr}); d.ledger.entries[s] == nil {
				d.note(now, s, true)
			}
		}
	}
}

// merge takes a record of the bucket.
func (d *drains) merge(now time.Time, r *drainRecord, revision uint64) bool {
	before := d.ledger.entries[r.server]
	was := before != nil && before.record.drained
	applied := d.ledger.take(now, r, revision)
	if applied && was != r.drained && r.node != d.node {
		d.log.Info().Str("upstream", r.server.upstream).Stringer("server", r.server.addr).Str("node", r.node).
			Bool("drained", r.drained).Msg("server drained or undrained by the fleet")
	}
	return applied
}

// list returns the drained servers in order.
func (d *drains) list() (all []Drain) {
	d.do(func() {
		for s, e := range d.ledger.entries {
			if r := e.record; r.drained {
				all = append(all, Drain{s.upstream, s.addr, r.node, r.changed})
			}
		}
	})
	slices.SortFunc(all, func(a, b Drain) int {
		return cmp.Or(cmp.Compare(a.Upstream, b.Upstream), a.Addr.Compare(b.Addr))
	})
	return all
}

func (d *drains) addTo(s *view.Fleet) {
	s.Drained = len(d.list())
	d.do(func() { d.bucketSync.addTo(s) })
}

const maxDrainRecord = 2 << 10 // bytes

var errDrainSize = fmt.Errorf("more than %d bytes", maxDrainRecord)

// drainRecord is the last change of a game server by an operator: drained, or not any more.
type drainRecord struct {
	server  gameServer
	drained bool
	changed time.Time
	node    string // the node of the change
}

// drainWire is the form of a drainRecord in the bucket. Readers ignore fields that they do not know.
type drainWire struct {
	Upstream string         `json:"upstream"`
	Server   netip.AddrPort `json:"server"`
	Drained  bool           `json:"drained"`
	Changed  time.Time      `json:"changed,omitzero"`
	Node     string         `json:"node,omitempty"`
}

func (r *drainRecord) key() string { return r.server.key() }

func (r *drainRecord) id() gameServer { return r.server }

func (r *drainRecord) made() (node string, at time.Time) { return r.node, r.changed }

// format returns a record as the bucket has it.
func (r *drainRecord) format() ([]byte, error) {
	return json.Marshal(drainWire{r.server.upstream, r.server.addr, r.drained, r.changed.UTC(), r.node})
}

// parseDrain returns the record of a key. A record from the future counts as made now.
func parseDrain(key string, value []byte, now time.Time) (*drainRecord, error) {
	if len(value) > maxDrainRecord {
		return nil, errDrainSize
	}
	server, err := parseServerKey(key)
	if err != nil {
		return nil, err
	}
	var w drainWire
	if err := json.Unmarshal(value, &w); err != nil {
		return nil, err
	}
	if w.Upstream != server.upstream || w.Server != server.addr {
		return nil, errKey
	}
	changed := w.Changed.UTC()
	if changed.After(now) {
		changed = now
	}
	if y := changed.Year(); y < 1 || y > 9999 || changed.IsZero() {
		return nil, errTime
	}
	return &drainRecord{server, w.Drained, changed, banfile.Cut(w.Node)}, nil
}

// timeToLive is the time for which the bucket keeps a record. A drain has no end of its own.
func (r *drainRecord) timeToLive(now time.Time) time.Duration {
	if r.drained {
		return 0
	}
	return max(0, r.changed.Add(removalMemory).Sub(now)).Truncate(time.Second) + skew
}

// lives reports whether a record still has an effect.
func (r *drainRecord) lives(now time.Time) bool {
	return r.drained || now.Before(r.changed.Add(removalMemory))
}

// same reports whether two records have the same effect.
func (r *drainRecord) same(o *drainRecord) bool { return r.drained == o.drained }

func (r *drainRecord) beats(stored *drainRecord, _ time.Time) bool {
	if c := r.changed.Compare(stored.changed); c != 0 {
		return c > 0
	}
	return r.drained
}
