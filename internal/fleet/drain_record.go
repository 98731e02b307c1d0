package fleet

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/banfile"
)

// Bounds of the records of drains.
const (
	maxDrainRecord = 2 << 10 // bytes
	maxUpstream    = 128     // bytes of an upstream's name
)

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

// format returns a record as the bucket has it.
func (r *drainRecord) format() ([]byte, error) {
	return json.Marshal(drainWire{r.server.upstream, r.server.addr, r.drained, r.changed.UTC(), r.node})
}

// parseDrain returns the record of a key. A record from the future counts as made now.
func parseDrain(key string, value []byte, now time.Time) (drainRecord, error) {
	if len(value) > maxDrainRecord {
		return drainRecord{}, errDrainSize
	}
	server, err := parseServerKey(key)
	if err != nil {
		return drainRecord{}, err
	}
	var w drainWire
	if err := json.Unmarshal(value, &w); err != nil {
		return drainRecord{}, err
	}
	if w.Upstream != server.upstream || w.Server != server.addr {
		return drainRecord{}, errKey
	}
	changed := w.Changed.UTC()
	if changed.After(now) {
		changed = now
	}
	if y := changed.Year(); y < 1 || y > 9999 || changed.IsZero() {
		return drainRecord{}, errTime
	}
	return drainRecord{server, w.Drained, changed, banfile.Cut(w.Node)}, nil
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

// beats reports whether a change of this node that the bucket does not have yet replaces the bucket's record. The rule
// is in docs/fleet/faults.md.
func (r *drainRecord) beats(stored *drainRecord) bool {
	if c := r.changed.Compare(stored.changed); c != 0 {
		return c > 0
	}
	return r.drained
}
