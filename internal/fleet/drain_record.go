package fleet

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"tidegate/internal/banfile"
)

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
