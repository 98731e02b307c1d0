package fleet

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

var errDrainSize = fmt.Errorf("more than %d bytes", maxDrainRecord)

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

// Drain is a game server that the fleet drains.
type Drain struct {
	Upstream string
	Addr     netip.AddrPort
	Node     string // where an operator drained it
	Since    time.Time
}

// drains shares drains by a bucket of their own. Its methods do nothing if it is nil.
type drains struct {
	log     zerolog.Logger
	changed chan struct{} // by an operator of this node

	mu     sync.Mutex // held while the game servers follow the ledger
	ledger drainLedger
	status Status // of this bucket
}

func newDrains(o *Options) *drains {
	return &drains{log: o.Log, changed: make(chan struct{}, 1), ledger: drainLedger{
		node: o.Node, games: o.Games,
		entries: make(map[gameServer]*drainEntry), open: make(map[gameServer]struct{}),
	}}
}

// change notes a change by an operator of this node.
func (d *drains) change(upstream string, addr netip.AddrPort, drained bool) (known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known = d.ledger.note(time.Now(), gameServer{upstream, addr}, drained)
	select {
	case d.changed <- struct{}{}:
	default: // the last one has not been read yet
	}
	return known
}

// list returns the drained servers in order.
func (d *drains) list() []Drain {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []Drain
	for s, e := range d.ledger.entries {
		if e.drained {
			all = append(all, Drain{s.upstream, s.addr, e.node, e.changed})
		}
	}
	slices.SortFunc(all, func(a, b Drain) int {
		return cmp.Or(cmp.Compare(a.Upstream, b.Upstream), a.Addr.Compare(b.Addr))
	})
	return all
}

// addTo adds the state of drains to that of bans.
func (d *drains) addTo(s *Status) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.ledger.entries {
		if e.drained {
			s.Drained++
		}
	}
	s.Current = s.Current && d.status.Current
	s.Error = cmp.Or(s.Error, d.status.Error)
	s.Waiting += len(d.ledger.open)
	s.Beyond += int(d.ledger.beyond)
	s.Conflicts += d.ledger.conflicts
	s.Received += d.status.Received
	s.Sent += d.status.Sent
	s.Invalid += d.status.Invalid
}

// start shares drains until ctx is done. The function that it returns waits for the end.
func (d *drains) start(ctx context.Context, connection *nats.Conn, o *Options) (wait func()) {
	if d == nil {
		return func() {}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		retry := time.NewTicker(retryEvery)
		defer retry.Stop()
		for ctx.Err() == nil {
			err := errLost
			if connection.IsConnected() {
				err = d.share(ctx, connection, o)
			}
			if ctx.Err() != nil {
				return
			}
			d.report(err)
			select {
			case <-ctx.Done():
			case <-retry.C:
			}
		}
	}()
	return func() { <-ended }
}

// report logs an error if it is another one than the last.
func (d *drains) report(err error) {
	d.mu.Lock()
	last := d.status.Error
	d.status.Current, d.status.Error = false, err.Error()
	d.mu.Unlock()
	if err.Error() != last {
		d.log.Warn().Err(err).Msg("drains not shared; those in force stay")
	}
}

// share keeps the drains of this node and those of the bucket equal until an error.
func (d *drains) share(ctx context.Context, connection *nats.Conn, o *Options) error {
	b, err := openBucket(ctx, connection, o, drainBucket)
	if err != nil {
		return err
	}
	defer b.close()
	d.mu.Lock()
	d.ledger.begin()
	d.mu.Unlock()
	check := time.NewTicker(retryEvery)
	defer check.Stop()
	for read, current, stuck := uint64(0), false, false; ; {
		if !current && read >= b.pending {
			current = true
			d.arrive()
		}
		if current {
			if err := d.send(ctx, b); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			if current {
				d.sendLast(b)
			}
			return ctx.Err()
		case err := <-b.failed:
			return err
		case u := <-b.updates:
			d.receive(u)
			read++
		case <-d.changed:
		case <-check.C:
			waiting := current && d.waiting() > 0
			if waiting && stuck {
				return errRefused
			}
			stuck = waiting
		}
	}
}

// arrive says that the node has read the whole bucket.
func (d *drains) arrive() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ledger.end(time.Now(), d.ledger.games.Drained())
	d.status.Current, d.status.Error = true, ""
}

func (d *drains) waiting() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.ledger.open)
}

// receive merges one update of the bucket.
func (d *drains) receive(u *update) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	server, err := parseServerKey(u.key)
	if err == nil && u.deleted {
		d.ledger.gone(now, server, u.revision)
		return
	}
	r, err := parseDrain(u.key, u.value, now)
	if err != nil {
		d.status.Invalid++
		if n := d.status.Invalid; n&(n-1) == 0 { // a few lines for any number of them
			d.log.Warn().Err(err).Uint64("revision", u.revision).Uint64("total", n).Msg("fleet record not valid")
		}
		d.ledger.gone(now, server, u.revision)
		return
	}
	before := d.ledger.entries[r.server]
	was := before != nil && before.drained
	applied := d.ledger.take(now, r, u.revision)
	if r.node == d.ledger.node {
		return
	}
	d.status.Received++
	if applied && was != r.drained {
		d.log.Info().Str("upstream", r.server.upstream).Stringer("server", r.server.addr).Str("node", r.node).
			Bool("drained", r.drained).Msg("server drained or undrained by the fleet")
	}
}

// writes returns a batch of this node's changes.
func (d *drains) writes() (all []write) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.ledger.open {
		if e := d.ledger.entries[s]; !e.refused && len(all) < batch {
			r := e.drainRecord // an operator may change the entry meanwhile
			all = append(all, write{record: &r, revision: e.revision})
		}
	}
	return all
}

// send writes this node's changes to the bucket. A change that the bucket refuses is merged with the newer record.
func (d *drains) send(ctx context.Context, b *bucket) error {
	for {
		writes := d.writes()
		if len(writes) == 0 {
			return nil
		}
		err := b.put(ctx, writes)
		d.settle(writes)
		if err != nil {
			return err
		}
		for _, w := range writes {
			if w.err == nil {
				continue
			}
			newer, err := b.last(ctx, w.record.key())
			if err != nil {
				return err
			}
			d.receive(newer)
		}
	}
}

// settle notes the answers of the bucket.
func (d *drains) settle(writes []write) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range writes {
		r := w.record.(*drainRecord)
		if w.err == nil {
			d.status.Sent++
			d.ledger.written(r, w.revision)
		} else if e := d.ledger.entries[r.server]; e != nil {
			e.refused = true // until another revision arrives
		}
	}
}

// sendLast sends the changes of the last moments before the end.
func (d *drains) sendLast(b *bucket) {
	ctx, cancel := context.WithTimeout(context.Background(), lastChances)
	defer cancel()
	if err := d.send(ctx, b); err != nil {
		d.log.Warn().Err(err).Int("changes", d.waiting()).Msg("last drains not shared")
	}
}
