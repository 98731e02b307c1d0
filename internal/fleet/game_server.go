package fleet

import (
	"context"
	"encoding/hex"
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

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
