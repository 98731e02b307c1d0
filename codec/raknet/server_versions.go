package raknet

import (
	"net/netip"
	"sync"
)

// maxServerVersions bounds how many servers' versions are remembered. When there are more, all are learnt anew.
const maxServerVersions = 1024

// serverVersions are the protocol versions that servers named when they refused ours: the next connection asks with those.
// go-raknet's servers do not listen to an address for 10 s after a first request of another version.
type serverVersions struct {
	mu sync.Mutex
	of map[netip.AddrPort]uint8
}

// ask returns the version to ask a server with: the one it named, or else ours.
func (v *serverVersions) ask(server netip.AddrPort, ours uint8) uint8 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if version, ok := v.of[server]; ok {
		return version
	}
	return ours
}

// learn notes the version that a server named.
func (v *serverVersions) learn(server netip.AddrPort, version uint8) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.of == nil || len(v.of) >= maxServerVersions {
		v.of = make(map[netip.AddrPort]uint8)
	}
	v.of[server] = version
}
